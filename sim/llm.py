"""One result for any system: latency, rates, what bounds it, energy and memory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilewright.golden.params.block import BlockParams, require
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim import accelerator as acc
from tilewright.sim import xeon
from tilewright.sim.kv_format import cache_bytes, resolve_kv_format
from tilewright.sim.measured_software import KERNELS
from tilewright.sim.models import resolve_model
from tilewright.sim.records import NoRecordError, deca_power_mw, deca_runs
from tilewright.sim.scheme import DEFAULT_SCHEME, OTHER_NAMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.server import ServerStep, run_step
from tilewright.sim.system import Server
from tilewright.sim.target import Target, resolve_target, system_names
from tilewright.sim.workload import Batch, work

__all__ = ["PHASES", "LlmResult", "MemoryBytes", "answer", "answer_on", "compare_systems"]

PHASES = ("decode", "prefill")
PAPER_SERVERS = ("spr-ddr", "spr-hbm")
DEFAULT_KV = "bf16"  # of the servers; an accelerator has a format of its own
OTHER_KERNELS = "attention and small kernels"
FITTED_SHARE = 0.5  # of a step's time, from which on a remark says what it rests on
FITTED_CONTEXT = 192  # tokens of the longest context among the figures for attention
# Of small kernels: the least that any figure leaves room for, and the most that we have measured.
LAYER_US_RANGE = (100, 430)


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
    active_parameters: int  # that one token meets
    system: str
    block: str | None  # the slug of the block, where one was asked for
    engine: str | None  # of a server
    scheme: str
    kv_format: str
    phase: str
    batch: int
    context: int  # of the longest sequence
    contexts: tuple[tuple[int, int], ...]  # sequences, and tokens of each of them
    latency_ms: float
    tokens_per_second: float
    joules_per_token: float
    average_watts: float
    tokens_per_second_per_watt: float
    tokens_per_second_per_mm2: float | None  # of the dies, where their area is known
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
    kv_format: str
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
    settings: Mapping[str, str] | None = None,
    batch: int | Batch = 1,
    context: int = 1024,
    phase: str = "decode",
    kv: str | None = None,
) -> LlmResult:
    """Return the result of one step: a token for every sequence, or the whole prompt.

    ``batch`` sequences have ``context`` tokens each; a :class:`tilewright.sim.workload.Batch` says
    itself how many each has. ``block``, ``latency`` and ``settings`` are those of
    :func:`tilewright.sim.target.resolve_target`, ``kv`` is one of
    ``tilewright.sim.kv_format.KV_FORMATS``.
    """
    target = resolve_target(system, engine=engine, block=block, latency=latency, settings=settings)
    return answer_on(target, model, scheme=scheme, batch=batch, context=context, phase=phase, kv=kv)


def answer_on(
    target: Target,
    model: LlmShape,
    *,
    scheme: str | None = None,
    batch: int | Batch = 1,
    context: int = 1024,
    phase: str = "decode",
    kv: str | None = None,
) -> LlmResult:
    """Return the same for a target that is already resolved."""
    if phase not in PHASES:
        raise ValueError(unknown("phase", phase, PHASES))
    sequences = batch if isinstance(batch, Batch) else Batch(((batch, context),))
    prompt = phase == "prefill"
    run = _on_accelerator if target.server is None else _on_server
    step = run(model, target, scheme, sequences, prompt, kv)
    tokens = sequences.tokens if prompt else sequences.sequences
    needed = step.weights + step.cache
    joules = sum(step.joules_by_part.values())
    area = 0.0 if target.server is None else target.server.die_area
    return LlmResult(
        model=model.name,
        parameters=model.parameters,
        active_parameters=model.active_parameters,
        system=target.system,
        block=None if target.block is None else target.block.slug,
        engine=target.engine,
        scheme=step.scheme,
        kv_format=step.kv_format,
        phase=phase,
        batch=sequences.sequences,
        context=sequences.longest,
        contexts=sequences.groups,
        latency_ms=1e3 * step.seconds,
        tokens_per_second=tokens / step.seconds,
        joules_per_token=joules / tokens,
        average_watts=joules / step.seconds,
        tokens_per_second_per_watt=tokens / joules,
        tokens_per_second_per_mm2=tokens / step.seconds / area if area else None,
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
        remarks=(*step.remarks, *_size_remarks(model, sequences.longest, needed, step.capacity)),
    )


def _by_name(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Add what has the same name: products of several shapes, such as those of experts."""
    found: dict[str, float] = {}
    for name, value in parts:
        found[name] = found.get(name, 0.0) + value
    return found


def _size_remarks(model: LlmShape, context: int, needed: float, capacity: float) -> Iterator[str]:
    if context > model.max_position_embeddings:
        yield f"{model.name} was trained for {model.max_position_embeddings} tokens"
    if needed > capacity:
        yield f"does not fit: {needed / 1e9:.1f} GB needed, {capacity / 1e9:g} GB there"


def _on_server(
    model: LlmShape,
    target: Target,
    scheme: str | None,
    batch: Batch,
    prompt: bool,
    kv: str | None,
) -> _Step:
    assert target.server is not None
    machine, engine = target.server, target.engine or ""
    name = DEFAULT_SCHEME if scheme is None else scheme
    kept = DEFAULT_KV if kv is None else kv
    weights = resolve_weight_scheme(name)
    kv_format = resolve_kv_format(kept)
    time = run_step(
        machine, engine, weights, model, batch, prompt=prompt, kv=kv_format, params=target.deca
    )
    remarks = ["no published figure holds a prefill of this system"] if prompt else []
    by_matrix = prompt or model.latent is not None
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
    parts = _by_name((p.gemm.name, 1e3 * p.seconds) for p in (*time.products, *time.plain))
    others = {"small kernels": time.kernels, "attention": time.attention, "cache": time.cache}
    return _Step(
        scheme=name,
        kv_format=kept,
        seconds=time.seconds,
        utilisation=share,
        bound=longest.tile.bound if time.product_seconds >= time.rest else OTHER_KERNELS,
        ms_by_part=parts | {part: 1e3 * seconds for part, seconds in others.items()},
        joules_by_part=energy,
        weights=stored + tables,
        cache=cache,
        capacity=machine.capacity,
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
    return found | {"memory": 8 * read * machine.memory_energy * 1e-12}


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


def _on_accelerator(
    model: LlmShape,
    target: Target,
    scheme: str | None,
    batch: Batch,
    prompt: bool,
    kv: str | None,
) -> _Step:
    machine = target.accelerator(scheme)
    own = "harmonia" if machine.name == "harmonia" else "fp16"
    require(kv in (None, own), f"{target.system} keeps keys and values in {own}; leave {kv!r} out")
    times = acc.run(machine, work(model, batch, prompt=prompt))
    cycles = sum(t.cycles for t in times)
    share = {
        "compute": sum(t.compute for t in times) / cycles,
        "memory": sum(t.transfer for t in times) / cycles,
    }
    remarks = [] if machine.power else ["energy is that of buffers and memory alone"]
    if target.built is not None:
        remarks.append(f"memory behind the port of {target.built.slug}, as built")
    lengths = "/".join(str(length) for length in machine.lengths.values())
    return _Step(
        scheme=lengths if machine.name in ("anda", "harmonia") else "fp16",
        kv_format=own,
        seconds=cycles / machine.clock,
        utilisation=share,
        bound=max(share, key=lambda name: share[name]),
        ms_by_part=_by_name((t.gemm.name, 1e3 * t.cycles / machine.clock) for t in times),
        joules_by_part=acc.energy(machine, times),
        weights=acc.stored_weights(model),
        cache=cache_bytes(model, batch, machine.cache_bits),
        capacity=machine.capacity,
        remarks=tuple(remarks),
    )


def compare_systems(
    model: str, scheme: str, batch: int, context: int, phase: str
) -> list[LlmResult]:
    """Return the same step on every system, on the DECA paper's servers with every engine."""
    shape = resolve_model(model)

    def one(system: str, engine: str | None = None, scheme: str | None = None) -> LlmResult:
        return answer(
            shape, system, engine=engine, scheme=scheme, batch=batch, context=context, phase=phase
        )

    rows = []
    for system in system_names():
        if system in xeon.SYSTEMS:
            rows.append(one(system, "software", "bf16"))
            engines = xeon.ENGINES if system in PAPER_SERVERS else ("software", "deca")
            rows += [one(system, engine, scheme) for engine in engines]
        else:
            rows.append(one(system))
    return rows
