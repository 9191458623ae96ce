"""One result for any system: latency, rates, what bounds it, energy and memory.

``answer`` gives plain data for the command line and the report. A system is one of
``tilewright.sim.xeon.SYSTEMS`` with an engine, or one of
``tilewright.sim.accelerator.ACCELERATORS``.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim import accelerator as acc
from tilewright.sim import xeon
from tilewright.sim.models import resolve_model
from tilewright.sim.records import deca_power_mw, deca_runs
from tilewright.sim.scheme import OTHER_NAMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.workload import Gemm, decode, prefill, result_row

if TYPE_CHECKING:
    from tilewright.sim.programs import Built

__all__ = ["PHASES", "answer", "compare_systems", "product_times", "system_names"]

PHASES = ("decode", "prefill")
DEFAULT_ENGINE = "deca"
DEFAULT_SCHEME = "mxfp4"
HBM_PJ_PER_BIT = 3.9  # Anda and Harmonia papers; of the servers' memories none is published
PACKAGE_WATTS = 350.0  # DECA paper, Section 7: design power
LENGTHS = re.compile(r"\d+(?:/\d+){0,3}")


def system_names() -> list[str]:
    return [*xeon.SYSTEMS, *acc.ACCELERATORS]


def _engine(system: str, engine: str | None) -> str:
    if system in acc.ACCELERATORS:
        require(engine is None, f"{system} has no engines; engines belong to {_xeons()}")
        return ""
    chosen = engine or DEFAULT_ENGINE
    if chosen not in xeon.ENGINES:
        raise ValueError(unknown("engine", chosen, xeon.ENGINES))
    return chosen


def _xeons() -> str:
    return " and ".join(xeon.SYSTEMS)


def _accelerator(system: str, scheme: str | None, built: "Built | None" = None) -> acc.Accelerator:
    """The machine with the mantissa lengths that ``scheme`` names: M or qkv/o/u/d."""
    machine = acc.ACCELERATORS[system]() if built is None else built.machine
    if scheme is None:
        return machine
    require(system == "anda", f"{system} has one scheme; leave --scheme out")
    require(
        LENGTHS.fullmatch(scheme) is not None and scheme.count("/") in (0, 3),
        f"scheme of anda must be a mantissa length or four, like 7/7/6/5, not {scheme!r}",
    )
    lengths = [int(word) for word in scheme.split("/")]
    for length in lengths:
        require(1 <= length <= 16, f"mantissa lengths must be 1..16, not {length}")
    names = list(machine.lengths)
    return machine.with_lengths(dict(zip(names, lengths * (4 // len(lengths)), strict=True)))


def answer(
    model: LlmShape,
    system: str,
    *,
    scheme: str | None = None,
    engine: str | None = None,
    batch: int = 1,
    context: int = 1024,
    phase: str = "decode",
    built: "Built | None" = None,
) -> dict[str, Any]:
    """Time of one step: a token for every sequence, or the whole prompt.

    With ``built`` an accelerator has the memory port and the buffers of its RTL.
    """
    if system not in system_names():
        raise ValueError(unknown("system", system, system_names()))
    if phase not in PHASES:
        raise ValueError(unknown("phase", phase, PHASES))
    engine = _engine(system, engine)
    products = (decode if phase == "decode" else prefill)(model, batch, context)
    if system in xeon.SYSTEMS:
        found = _on_xeon(model, system, engine, scheme or DEFAULT_SCHEME, batch, context, phase)
    else:
        machine = _accelerator(system, scheme, built)
        found = _on_accelerator(model, machine, products, batch, context)
    tokens = batch * (1 if phase == "decode" else context)
    if built is not None:
        found["remarks"].append(f"memory behind the port of {built.params.slug}, as built")
    head = {
        "model": model.name,
        "parameters": model.parameters,
        "system": system,
        "engine": engine or None,
        "phase": phase,
        "batch": batch,
        "context": context,
    }
    step_joules = sum(found["energy_joules"].values())
    rates = {
        "latency_ms": 1e3 * found.pop("seconds"),
        "tokens_per_second": 0.0,
        "joules_per_token": step_joules / tokens,
    }
    rates["tokens_per_second"] = 1e3 * tokens / rates["latency_ms"]
    remarks = found.pop("remarks")
    if context > model.max_position_embeddings:
        remarks.append(f"{model.name} was trained for {model.max_position_embeddings} tokens")
    memory = found["memory_bytes"]
    memory["fits"] = memory["weights"] + memory["cache"] <= memory["capacity"]
    if not memory["fits"]:
        needed = (memory["weights"] + memory["cache"]) / 1e9
        remarks.append(
            f"does not fit: {needed:.1f} GB needed, {memory['capacity'] / 1e9:g} GB there"
        )
    return head | rates | found | {"remarks": remarks}


def _on_xeon(
    model: LlmShape, system: str, engine: str, scheme: str, batch: int, context: int, phase: str
) -> dict[str, Any]:
    machine, weights = xeon.SYSTEMS[system], resolve_weight_scheme(scheme)
    step = xeon.token if phase == "decode" else xeon.first_token
    time = step(machine, engine, weights, model, batch, context)
    remarks = [] if phase == "decode" else ["no published figure holds a prefill of this system"]
    parts = {p.product.name: 1e3 * p.seconds for p in (*time.products, time.head)}
    stored = weights.bytes_of(model.linear_weights)
    tables = (model.parameters - model.linear_weights) * xeon.ACTIVATION_BYTES
    cache = batch * model.kv_elements(context) * xeon.ACTIVATION_BYTES
    read = stored + model.head_weights * xeon.ACTIVATION_BYTES + cache
    # Use over the whole step: what products keep busy, over the time of everything.
    share = {
        name: sum(p.seconds * p.tile.utilisation[name] for p in time.products) / time.seconds
        for name in ("memory", "vector", "matrix")
    }
    longest = max(time.products, key=lambda p: p.seconds)
    bound = longest.tile.bound if time.gemm_seconds >= time.rest else "attention and small kernels"
    # HBM is in the package and shares its design power; DDR is outside, and none of its is known.
    energy = {"memory": 8 * read * HBM_PJ_PER_BIT * 1e-12} if system == "spr-hbm" else {}
    energy["package at most"] = PACKAGE_WATTS * time.seconds - energy.get("memory", 0.0)
    without = "" if "memory" in energy else ", memory not counted"
    remarks.append(f"energy is a bound: the package at its design power{without}")
    if engine == "deca":
        always, gated = (
            machine.cores * time.seconds * _deca_watts(weights, share["vector"], figure)
            for figure in ("total", "least")
        )
        energy["deca"] = always
        remarks.append(
            "energy of deca is that of its netlist, always clocked;"
            f" no less than {gated:.2g} J with the clock of every idle register off"
        )
    return {
        "scheme": scheme,
        "seconds": time.seconds,
        "utilisation": share,
        "bound": bound,
        "parts_ms": parts | {"attention and small kernels": 1e3 * time.rest},
        "energy_joules": energy,
        "memory_bytes": {
            "weights": stored + tables,
            "cache": float(cache),
            "capacity": machine.capacity,
        },
        "remarks": remarks,
    }


def _deca_watts(weights: WeightScheme, busy: float, figure: str) -> float:
    """Of one DECA that works for a share of the time, from its energy record at 7 nm.

    Where the record has no run of the scheme, the mean of those on real weights.
    """
    kept = "" if weights.density == 1 else f"@{float(weights.density):g}"
    head = weights.name.partition("_")[0].lower()
    name = f"{OTHER_NAMES.get(head, head)}{kept} real"
    runs = deca_runs()
    work = [name] if name in runs else [run for run in runs if run.endswith(" real")]
    working = sum(deca_power_mw(run, figure) for run in work) / len(work)
    return (busy * working + (1 - busy) * deca_power_mw("idle", figure)) / 1e3


def _on_accelerator(
    model: LlmShape, machine: acc.Accelerator, products: Sequence[Gemm], batch: int, context: int
) -> dict[str, Any]:
    times = acc.run(machine, products)
    cycles = sum(t.cycles for t in times)
    share = {
        "compute": sum(t.compute for t in times) / cycles,
        "memory": sum(t.transfer for t in times) / cycles,
    }
    remarks = [] if machine.power else ["energy is that of buffers and memory alone"]
    lengths = "/".join(str(length) for length in machine.lengths.values())
    return {
        "scheme": lengths if machine.name in ("anda", "harmonia") else "fp16",
        "seconds": cycles / machine.clock,
        "utilisation": share,
        "bound": max(share, key=lambda name: share[name]),
        "parts_ms": {t.product.name: 1e3 * t.cycles / machine.clock for t in times},
        "energy_joules": acc.energy(machine, times),
        "memory_bytes": acc.footprint(machine, model, batch, context)
        | {"capacity": machine.capacity},
        "remarks": remarks,
    }


def product_times(
    products: Sequence[Gemm], system: str, *, scheme: str | None = None, engine: str | None = None
) -> list[dict[str, Any]]:
    """Each product on its own: time, rate, use of the resources, what bounds it."""
    if system not in system_names():
        raise ValueError(unknown("system", system, system_names()))
    engine = _engine(system, engine)
    rows = []
    if system in xeon.SYSTEMS:
        weights = resolve_weight_scheme(scheme or DEFAULT_SCHEME)
        for product in products:
            time = xeon.gemm(xeon.SYSTEMS[system], engine, weights, product)
            rows.append(result_row(product, time.seconds, time.tile.utilisation, time.tile.bound))
        return rows
    machine = _accelerator(system, scheme)
    for product, found in zip(products, acc.run(machine, products), strict=True):
        use = {"compute": found.compute / found.cycles, "memory": found.transfer / found.cycles}
        rows.append(result_row(product, found.cycles / machine.clock, use, found.bound))
    return rows


def compare_systems(
    model: str, scheme: str, batch: int, context: int, phase: str
) -> list[dict[str, Any]]:
    """The same step on every system and, of the Xeons, with every engine."""
    shape = resolve_model(model)
    work = {"batch": batch, "context": context, "phase": phase}
    rows = []
    for system in system_names():
        if system in xeon.SYSTEMS:
            rows.append(answer(shape, system, engine="software", scheme="bf16", **work))
            rows += [answer(shape, system, engine=e, scheme=scheme, **work) for e in xeon.ENGINES]
        else:
            rows.append(answer(shape, system, **work))
    return rows
