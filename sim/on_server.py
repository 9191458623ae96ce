"""Passes of a model on one socket of a server: parts, energy and assumptions.

Quantities of many passes are columns with an entry for each: sweeps ask for
thousands of batches and contexts, and a generation for every length of its context.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.llm import LlmShape
from tilewright.sim import xeon
from tilewright.sim.records import KERNELS, NoRecordError, deca_power_mw, deca_runs
from tilewright.sim.scheme import (
    DEFAULT_SCHEME,
    OTHER_NAMES,
    WeightScheme,
    resolve_kv_format,
    resolve_weight_scheme,
)
from tilewright.sim.server import ServerSteps, run_steps
from tilewright.sim.system import Server
from tilewright.sim.target import Target
from tilewright.sim.workload import MemoryBytes, Pass, Step

Column = NDArray[np.float64]
DEFAULT_KV = "bf16"  # an accelerator has a format of its own
OTHER_KERNELS = "attention and small kernels"
FITTED_SHARE = 0.5  # of a step's time, from which on a remark names its assumptions
FITTED_CONTEXT = 192  # tokens of the longest context among the figures for attention
LAYER_US_RANGE = (77, 974)  # of small kernels: of our kernels and of PyTorch, as measured


def steps_on_server(
    model: LlmShape, target: Target, scheme: str | None, works: Sequence[Pass], kv: str | None
) -> list[Step]:
    """Return the steps that ``works`` are on one socket, bit-equal to each alone.

    Remarks name their assumptions.
    """
    assert target.server is not None
    machine, engine = target.server, target.engine or ""
    kept = DEFAULT_KV if kv is None else kv
    weights = resolve_weight_scheme(DEFAULT_SCHEME if scheme is None else scheme)
    weights = weights.on_deca if engine == "deca" else weights
    time = run_steps(
        *(machine, engine, weights, model, works), kv=resolve_kv_format(kept), params=target.deca
    )
    tables = (model.parameters - model.linear_weights) * xeon.ACTIVATION_BYTES
    stored = weights.bytes_of(model.linear_weights) + tables
    # Utilisation over the whole step: busy time in GEMMs, over the time of everything.
    share = {
        resource: np.array([p.busy[resource] for p in time.projections]) / time.seconds
        for resource in xeon.RESOURCES
    }
    energy = _package_energy(machine, engine, time, share, _bytes_moved(time, weights))
    notes = [""] * len(works)
    if engine == "deca":
        joules, notes = _deca_energy(target, weights, share["vector"], time.seconds)
        energy |= joules
    always = []
    if weights.own is not None and engine != "optimal":
        always.append(f"what cores take to decompress {weights.name} is what its class says")
    if kept != DEFAULT_KV:
        always.append(f"the cache in {kept} takes less memory; its conversion is not counted")
    parts = {"small kernels": time.kernels, "attention": time.attention, "cache": time.cache}
    found = []
    for k, (work, projections) in enumerate(zip(works, time.projections, strict=True)):
        seconds, cache = float(time.seconds[k]), float(time.cache_bytes[k])
        rest = _at(parts, k)
        fitted = _fitted_remarks(
            *(target, model, work, seconds),
            *(rest["small kernels"], rest["attention"], projections.fitted_seconds),
        )
        package = (
            "energy of the package is its design power by activity, in shares that are assumed;"
            f" {machine.design_power * seconds:.3g} J if it drew all of it"
        )
        found.append(
            Step(
                scheme=weights.name,
                kv_format=kept,
                seconds=seconds,
                utilisation=_at(share, k),
                bound=(
                    projections.bound if time.product_seconds[k] >= time.rest[k] else OTHER_KERNELS
                ),
                ms_by_part=projections.ms_by_part | {n: 1e3 * part for n, part in rest.items()},
                joules_by_part=_at(energy, k),
                memory_bytes=MemoryBytes(stored, cache, machine.capacity),
                remarks=(*fitted, package, *filter(None, [notes[k]]), *always),
            )
        )
    return found


def _at(columns: Mapping[str, Column], step: int) -> dict[str, float]:
    return {name: float(column[step]) for name, column in columns.items()}


def _bytes_moved(time: ServerSteps, weights: WeightScheme) -> Column:
    """Experts count if a token of the step chose them."""

    def count(parts: Sequence[xeon.GemmTime]) -> float:
        return sum(part.gemm.matrix for part in parts)

    packed = np.array([weights.bytes_of(count(p.products)) for p in time.projections])
    plain = np.array([count(p.plain) * xeon.ACTIVATION_BYTES for p in time.projections])
    return packed + time.cache_moved + plain


def _package_energy(
    machine: Server, engine: str, time: ServerSteps, share: Mapping[str, Column], moved: Column
) -> dict[str, Column]:
    """Return the joules of each step: idle, cores at work, their busy units, bits from memory.

    Attention and small kernels count as work of the vector units.
    """
    vector = time.rest / time.seconds
    if engine != "deca":  # else ``share`` is that of the DECA
        vector = np.minimum(1.0, vector + share["vector"])
    watts: dict[str, float | Column] = {
        "idle": machine.idle_power,
        "cores": machine.core_power,
        "vector units": machine.vector_power * vector,
        "matrix units": machine.matrix_power * share["matrix"],
    }
    found = {name: part * machine.design_power * time.seconds for name, part in watts.items()}
    memory = 8 * moved * machine.memory_energy * 1e-12
    if machine.memory_in_package:  # the design power has it
        memory = np.minimum(memory, machine.design_power * time.seconds - sum(found.values()))
    return found | {"memory": memory}


def _fitted_remarks(
    target: Target,
    model: LlmShape,
    work: Pass,
    seconds: float,
    kernels: float,
    attention: float,
    products: float,
) -> Iterator[str]:
    """Name an answer's assumptions: constants fitted to other models, or out of their range."""
    assert target.server is not None
    machine, batch = target.server, work.batch
    if work.prompt:
        yield "no published figure holds a prefill of this system"
    if work.new is not None and work.new > 1:
        yield "no published figure holds several tokens of a sequence at once"
    by_matrix = work.prompt or model.latent is not None
    fitted = kernels + (0 if by_matrix else attention)
    if fitted > FITTED_SHARE * seconds:
        low, high = (
            1e3 * (seconds + model.num_hidden_layers * (us - machine.layer_us) / 1e6)
            for us in LAYER_US_RANGE
        )
        yield (
            f"{100 * fitted / seconds:.0f}% of the time rests on constants for attention and"
            " small kernels, fitted to models of 66 and 70 billion parameters at short contexts;"
            f" with {LAYER_US_RANGE[0]} to {LAYER_US_RANGE[1]} us of small kernels a layer"
            f" (--set layer_time=...) it is {low:.4g} to {high:.4g} ms"
        )
    elif fitted + products > FITTED_SHARE * seconds:
        yield (
            f"{100 * (fitted + products) / seconds:.0f}% of the time rests on constants fitted to"
            " the DECA paper's tables: operations of software or rates of caches"
            f" {100 * products / seconds:.0f}%, attention and small kernels"
            f" {100 * fitted / seconds:.0f}%"
        )
    if not by_matrix and batch.longest > FITTED_CONTEXT and attention > 0.1 * seconds:
        yield (
            f"attention was fitted at contexts up to {FITTED_CONTEXT};"
            f" {batch.longest} is beyond them"
        )
    if not by_matrix and batch.sequences > xeon.FITTED_ROWS:
        yield (
            f"batches were fitted up to {xeon.FITTED_ROWS}; further rows are taken to come in"
            " blocks of two by two tile registers"
        )
    if target.engine in KERNELS:
        yield (
            f"costs of {target.engine} are those measured on our kernels at batch 1, on another"
            " processor of this kind"
        )
    if model.latent is not None:
        yield "no published figure holds latent attention, which is matrix products here"
    if model.delta is not None:
        yield "no published figure holds linear attention: its states are read and written in fp32"


def _deca_energy(
    target: Target, weights: WeightScheme, busy: Column, seconds: Column
) -> tuple[dict[str, Column], list[str]]:
    """Return the joules of all DECAs, where their size has an energy record, and remarks."""
    assert target.server is not None
    unit, server = target.deca.slug, target.server
    rate = (
        server.cores * (server.clock / server.deca_clocks) / Server.clock
    )  # of the records' clock
    try:
        gated, ideal = (
            rate * seconds * _deca_watts(unit, weights, busy, figure)
            for figure in ("total", "least")
        )
    except NoRecordError as missing:
        return {}, [f"energy of deca is not counted: {missing}"] * len(seconds)
    return {"deca": gated}, [
        "energy of deca is that of its netlist with clock gates;"
        f" no less than {least:.2g} J if every register were clocked only where it changes"
        for least in ideal.tolist()
    ]


def _deca_watts(unit: str, weights: WeightScheme, busy: Column, figure: str) -> Column:
    """Return the power of one DECA that works for a share of the time, from its record at 7 nm.

    Where the record has no run of the scheme, the mean of those on real weights.
    """
    sparse = "" if weights.density == 1 else f"@{float(weights.density):g}"
    head = weights.name.partition("_")[0].lower()
    name = f"{OTHER_NAMES.get(head, head)}{sparse} real"
    runs = deca_runs(unit)
    work = [name] if name in runs else [run for run in runs if run.endswith(" real")]
    working = sum(deca_power_mw(run, figure, unit) for run in work) / len(work)
    return (busy * working + (1 - busy) * deca_power_mw("idle", figure, unit)) / 1e3
