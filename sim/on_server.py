"""A pass of a model on one socket of a server: its parts, its energy and what it rests on."""

from collections.abc import Iterator

from tilewright.golden.params.llm import LlmShape
from tilewright.sim import xeon
from tilewright.sim.kv_format import cache_bytes, resolve_kv_format
from tilewright.sim.measured_software import KERNELS
from tilewright.sim.records import NoRecordError, deca_power_mw, deca_runs
from tilewright.sim.scheme import DEFAULT_SCHEME, OTHER_NAMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.server import ServerStep, run_step
from tilewright.sim.step import Step, add_by_name
from tilewright.sim.system import Server
from tilewright.sim.target import Target
from tilewright.sim.workload import Batch, Pass

__all__ = ["step_on_server"]

DEFAULT_KV = "bf16"  # an accelerator has a format of its own
OTHER_KERNELS = "attention and small kernels"
FITTED_SHARE = 0.5  # of a step's time, from which on a remark says what it rests on
FITTED_CONTEXT = 192  # tokens of the longest context among the figures for attention
# Of small kernels: the least that any figure leaves room for, and the most that we have measured.
LAYER_US_RANGE = (100, 430)


def step_on_server(
    model: LlmShape,
    target: Target,
    scheme: str | None,
    work: Pass,
    kv: str | None,
) -> Step:
    """Return what ``work`` takes on one socket; a remark says what it rests on."""
    assert target.server is not None
    machine, engine = target.server, target.engine or ""
    name = DEFAULT_SCHEME if scheme is None else scheme
    kept = DEFAULT_KV if kv is None else kv
    weights = resolve_weight_scheme(name)
    kv_format = resolve_kv_format(kept)
    batch = work.batch
    time = run_step(
        machine, engine, weights, model, batch, new=work.new, kv=kv_format, params=target.deca
    )
    remarks = ["no published figure holds a prefill of this system"] if work.prompt else []
    if work.new is not None and work.new > 1:
        remarks.append("no published figure holds several tokens of a sequence at once")
    by_matrix = work.prompt or model.latent is not None
    remarks += _fitted_remarks(machine, engine, model, batch, time, by_matrix)
    if model.latent is not None:
        remarks.append("no published figure holds latent attention, which is matrix products here")
    stored = weights.bytes_of(model.linear_weights)
    tables = (model.parameters - model.linear_weights) * xeon.ACTIVATION_BYTES
    cache = cache_bytes(model, batch, kv_format.bits)
    # Of experts, those are read that a token of this step chose.
    read = weights.bytes_of(sum(p.gemm.matrix for p in time.products)) + cache
    read += sum(p.gemm.matrix for p in time.plain) * xeon.ACTIVATION_BYTES
    # Use over the whole step: what GEMMs keep busy, over the time of everything.
    share = {
        name: sum(p.seconds * p.tile.utilisation[name] for p in time.products) / time.seconds
        for name in xeon.RESOURCES
    }
    longest = max(time.products, key=lambda p: p.seconds)
    energy = _package_energy(machine, engine, time, share, read)
    most = machine.design_power * time.seconds
    remarks.append(
        "energy of the package is its design power by activity, in shares that are assumed;"
        f" {most:.3g} J if it drew all of it"
    )
    if engine == "deca":
        joules, remark = _deca_energy(target, weights, share["vector"], time.seconds)
        energy |= joules
        remarks.append(remark)
    if kept != DEFAULT_KV:
        remarks.append(f"the cache in {kept} takes less memory; its conversion is not counted")
    parts = add_by_name((p.gemm.name, 1e3 * p.seconds) for p in (*time.products, *time.plain))
    others = {"small kernels": time.kernels, "attention": time.attention, "cache": time.cache}
    return Step(
        scheme=name,
        kv_format=kept,
        seconds=time.seconds,
        utilisation=share,
        bound=longest.tile.bound if time.product_seconds >= time.rest else OTHER_KERNELS,
        ms_by_part=parts | {part: 1e3 * seconds for part, seconds in others.items()},
        joules_by_part=energy,
        idle_watts=machine.idle_power * machine.design_power,
        weights=stored + tables,
        tables=tables,
        cache=cache,
        capacity=machine.capacity,
        fits=stored + tables + cache <= machine.capacity,
        remarks=tuple(remarks),
    )


def _package_energy(
    machine: Server, engine: str, time: ServerStep, share: dict[str, float], read: float
) -> dict[str, float]:
    """Return the joules of a step: idle, cores at work, their busy units, and bits from memory.

    Attention and small kernels count as work of the vector units.
    """
    vector = time.rest / time.seconds
    if engine != "deca":  # else the DECA is what ``share`` tells of
        vector = min(1.0, vector + share["vector"])
    watts = {
        "idle": machine.idle_power,
        "cores": machine.core_power,
        "vector units": machine.vector_power * vector,
        "matrix units": machine.matrix_power * share["matrix"],
    }
    found = {name: part * machine.design_power * time.seconds for name, part in watts.items()}
    memory = 8 * read * machine.memory_energy * 1e-12
    if machine.memory_in_package:  # the design power has it
        memory = min(memory, machine.design_power * time.seconds - sum(found.values()))
    return found | {"memory": memory}


def _fitted_remarks(
    machine: Server, engine: str, model: LlmShape, batch: Batch, time: ServerStep, by_matrix: bool
) -> Iterator[str]:
    """Say what an answer rests on: constants fitted to other models, or outside of their range."""
    fitted = time.kernels + (0 if by_matrix else time.attention)
    if fitted > FITTED_SHARE * time.seconds:
        low, high = (
            1e3 * (time.seconds + model.num_hidden_layers * (us - machine.rate("layer_time")) / 1e6)
            for us in LAYER_US_RANGE
        )
        yield (
            f"{100 * fitted / time.seconds:.0f}% of the time rests on constants for attention and"
            " small kernels, fitted to models of 66 and 70 billion parameters at short contexts;"
            f" with {LAYER_US_RANGE[0]} to {LAYER_US_RANGE[1]} us of small kernels a layer"
            f" (--set layer_time=...) it is {low:.4g} to {high:.4g} ms"
        )
    if not by_matrix and batch.longest > FITTED_CONTEXT and time.attention > 0.1 * time.seconds:
        yield (
            f"attention was fitted at contexts up to {FITTED_CONTEXT};"
            f" {batch.longest} is beyond them"
        )
    if not by_matrix and batch.sequences > xeon.FITTED_ROWS:
        yield (
            f"batches were fitted up to {xeon.FITTED_ROWS}; further rows are taken to come in"
            " blocks of two by two tile registers"
        )
    if engine in KERNELS:
        yield (
            f"costs of {engine} are those measured on our kernels at batch 1, on another processor"
            " of this kind"
        )


def _deca_energy(
    target: Target, weights: WeightScheme, busy: float, seconds: float
) -> tuple[dict[str, float], str]:
    """Return the joules of all DECAs, where their size has an energy record, and a remark."""
    assert target.server is not None
    unit, cores = target.deca.slug, target.server.cores
    try:
        gated, ideal = (
            cores * seconds * _deca_watts(unit, weights, busy, figure)
            for figure in ("total", "least")
        )
    except NoRecordError as missing:
        return {}, f"energy of deca is not counted: {missing}"
    return {"deca": gated}, (
        "energy of deca is that of its netlist with clock gates;"
        f" no less than {ideal:.2g} J if every register were clocked only where it changes"
    )


def _deca_watts(unit: str, weights: WeightScheme, busy: float, figure: str) -> float:
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
