"""One result for any system: latency, rates, what bounds it, energy and memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim import accelerator as acc
from tilewright.sim import xeon
from tilewright.sim.models import resolve_model
from tilewright.sim.records import NoRecordError, deca_power_mw, deca_runs
from tilewright.sim.scheme import DEFAULT_SCHEME, OTHER_NAMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.target import Target, resolve_target, system_names
from tilewright.sim.workload import Gemm, decode, prefill

__all__ = ["PHASES", "LlmResult", "MemoryBytes", "answer", "answer_on", "compare_systems"]

PHASES = ("decode", "prefill")
HBM_PJ_PER_BIT = 3.9  # Anda and Harmonia papers; of the servers' memories none is published
PACKAGE_WATTS = 350.0  # DECA paper, Section 7: design power
OTHER_KERNELS = "attention and small kernels"


@dataclass(frozen=True, kw_only=True)
class MemoryBytes:
    """Bytes that a model needs, and those that the system has."""

    weights: float
    cache: float
    capacity: float
    fits: bool


@dataclass(frozen=True, kw_only=True)
class LlmResult:
    """One step of a model on a system: a token for every sequence, or the whole prompt."""

    model: str
    parameters: int
    system: str
    block: str | None  # the slug of the block, where one was asked for
    engine: str | None  # of a Xeon
    scheme: str
    phase: str
    batch: int
    context: int
    latency_ms: float
    tokens_per_second: float
    joules_per_token: float
    utilisation: dict[str, float]  # of each resource, over the whole step
    bound: str
    ms_by_part: dict[str, float]
    joules_by_part: dict[str, float]  # of the step
    memory_bytes: MemoryBytes
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Step:
    """What differs between the kinds of system."""

    scheme: str
    seconds: float
    utilisation: dict[str, float]
    bound: str
    ms_by_part: dict[str, float]
    joules_by_part: dict[str, float]
    weights: float  # bytes
    cache: float
    capacity: float
    remarks: tuple[str, ...]


def answer(
    model: LlmShape,
    system: str | None = None,
    *,
    scheme: str | None = None,
    engine: str | None = None,
    block: BlockParams | None = None,
    latency: int | None = None,
    batch: int = 1,
    context: int = 1024,
    phase: str = "decode",
) -> LlmResult:
    """Return the result of one step: a token for every sequence, or the whole prompt.

    ``block`` and ``latency`` are those of :func:`tilewright.sim.target.resolve_target`.
    """
    target = resolve_target(system, engine=engine, block=block, latency=latency)
    return answer_on(target, model, scheme=scheme, batch=batch, context=context, phase=phase)


def answer_on(
    target: Target,
    model: LlmShape,
    *,
    scheme: str | None = None,
    batch: int = 1,
    context: int = 1024,
    phase: str = "decode",
) -> LlmResult:
    """Return the same for a target that is already resolved."""
    if phase not in PHASES:
        raise ValueError(unknown("phase", phase, PHASES))
    gemms = (decode if phase == "decode" else prefill)(model, batch, context)
    if target.xeon is not None:
        step = _on_xeon(model, target, scheme or DEFAULT_SCHEME, batch, context, phase)
    else:
        step = _on_accelerator(model, target, scheme, gemms, batch, context)
    tokens = batch * (1 if phase == "decode" else context)
    needed = step.weights + step.cache
    return LlmResult(
        model=model.name,
        parameters=model.parameters,
        system=target.system,
        block=None if target.block is None else target.block.slug,
        engine=target.engine,
        scheme=step.scheme,
        phase=phase,
        batch=batch,
        context=context,
        latency_ms=1e3 * step.seconds,
        tokens_per_second=tokens / step.seconds,
        joules_per_token=sum(step.joules_by_part.values()) / tokens,
        utilisation=step.utilisation,
        bound=step.bound,
        ms_by_part=step.ms_by_part,
        joules_by_part=step.joules_by_part,
        memory_bytes=MemoryBytes(
            weights=step.weights,
            cache=step.cache,
            capacity=step.capacity,
            fits=needed <= step.capacity,
        ),
        remarks=(*step.remarks, *_size_remarks(model, context, needed, step.capacity)),
    )


def _size_remarks(model: LlmShape, context: int, needed: float, capacity: float) -> Iterator[str]:
    if context > model.max_position_embeddings:
        yield f"{model.name} was trained for {model.max_position_embeddings} tokens"
    if needed > capacity:
        yield f"does not fit: {needed / 1e9:.1f} GB needed, {capacity / 1e9:g} GB there"


def _on_xeon(
    model: LlmShape, target: Target, scheme: str, batch: int, context: int, phase: str
) -> _Step:
    machine, weights = xeon.SYSTEMS[target.system], resolve_weight_scheme(scheme)
    engine = target.engine or ""
    run = xeon.token if phase == "decode" else xeon.first_token
    time = run(machine, engine, weights, model, batch, context, target.deca)
    remarks = [] if phase == "decode" else ["no published figure holds a prefill of this system"]
    stored = weights.bytes_of(model.linear_weights)
    tables = (model.parameters - model.linear_weights) * xeon.ACTIVATION_BYTES
    cache = float(batch * model.kv_elements(context) * xeon.ACTIVATION_BYTES)
    read = stored + model.head_weights * xeon.ACTIVATION_BYTES + cache
    # Use over the whole step: what GEMMs keep busy, over the time of everything.
    share = {
        name: sum(p.seconds * p.tile.utilisation[name] for p in time.products) / time.seconds
        for name in ("memory", "vector", "matrix")
    }
    longest = max(time.products, key=lambda p: p.seconds)
    # HBM is in the package and shares its design power; DDR is outside, and none of its is known.
    hbm = target.system == "spr-hbm"
    energy = {"memory": 8 * read * HBM_PJ_PER_BIT * 1e-12} if hbm else {}
    energy["package at most"] = PACKAGE_WATTS * time.seconds - energy.get("memory", 0.0)
    without = "" if hbm else ", memory not counted"
    remarks.append(f"energy is a bound: the package at its design power{without}")
    if engine == "deca":
        joules, remark = _deca_energy(target, weights, share["vector"], time.seconds)
        energy |= joules
        remarks.append(remark)
    parts = {p.gemm.name: 1e3 * p.seconds for p in (*time.products, time.head)}
    return _Step(
        scheme=scheme,
        seconds=time.seconds,
        utilisation=share,
        bound=longest.tile.bound if time.gemm_seconds >= time.rest else OTHER_KERNELS,
        ms_by_part=parts | {OTHER_KERNELS: 1e3 * time.rest},
        joules_by_part=energy,
        weights=stored + tables,
        cache=cache,
        capacity=machine.capacity,
        remarks=tuple(remarks),
    )


def _deca_energy(
    target: Target, weights: WeightScheme, busy: float, seconds: float
) -> tuple[dict[str, float], str]:
    """Return the joules of all DECAs, where their size has an energy record, and a remark."""
    unit, cores = target.deca.slug, xeon.SYSTEMS[target.system].cores
    try:
        always, gated = (
            cores * seconds * _deca_watts(unit, weights, busy, figure)
            for figure in ("total", "least")
        )
    except NoRecordError as missing:
        return {}, f"energy of deca is not counted: {missing}"
    return {"deca": always}, (
        "energy of deca is that of its netlist, always clocked;"
        f" no less than {gated:.2g} J with the clock of every idle register off"
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


def _on_accelerator(
    model: LlmShape,
    target: Target,
    scheme: str | None,
    gemms: Sequence[Gemm],
    batch: int,
    context: int,
) -> _Step:
    machine = target.accelerator(scheme)
    times = acc.run(machine, gemms)
    cycles = sum(t.cycles for t in times)
    share = {
        "compute": sum(t.compute for t in times) / cycles,
        "memory": sum(t.transfer for t in times) / cycles,
    }
    remarks = [] if machine.power else ["energy is that of buffers and memory alone"]
    if target.built is not None:
        remarks.append(f"memory behind the port of {target.built.slug}, as built")
    lengths = "/".join(str(length) for length in machine.lengths.values())
    memory = acc.footprint(machine, model, batch, context)
    return _Step(
        scheme=lengths if machine.name in ("anda", "harmonia") else "fp16",
        seconds=cycles / machine.clock,
        utilisation=share,
        bound=max(share, key=lambda name: share[name]),
        ms_by_part={t.gemm.name: 1e3 * t.cycles / machine.clock for t in times},
        joules_by_part=acc.energy(machine, times),
        weights=memory["weights"],
        cache=memory["cache"],
        capacity=machine.capacity,
        remarks=tuple(remarks),
    )


def compare_systems(
    model: str, scheme: str, batch: int, context: int, phase: str
) -> list[LlmResult]:
    """Return the same step on every system and, of the Xeons, with every engine."""
    shape = resolve_model(model)

    def one(system: str, engine: str | None = None, scheme: str | None = None) -> LlmResult:
        return answer(
            shape, system, engine=engine, scheme=scheme, batch=batch, context=context, phase=phase
        )

    rows = []
    for system in system_names():
        if system in xeon.SYSTEMS:
            rows.append(one(system, "software", "bf16"))
            rows += [one(system, engine, scheme) for engine in xeon.ENGINES]
        else:
            rows.append(one(system))
    return rows
