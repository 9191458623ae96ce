"""One result for any system: latency, rates, bound, energy and memory."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.base.table import Reported, Table
from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.golden.formats import is_own, resolve_format
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim import xeon
from tilewright.sim.models import resolve_model
from tilewright.sim.on_accelerator import in_turn, steps_on_accelerator
from tilewright.sim.on_server import steps_on_server
from tilewright.sim.target import Target, resolve_target, silicon_mm2, system_names
from tilewright.sim.workload import Batch, MemoryBytes, Pass, Step

PHASES = ("decode", "prefill")
PAPER_SERVERS = ("spr-ddr", "spr-hbm")


@dataclass(frozen=True, kw_only=True)
class Answer(Reported):
    """The common part of answers: model, system, rates, energy and memory."""

    model: str
    parameters: int
    active_parameters: int  # of one token
    system: str
    settings: dict[str, str]  # fields of the system that were changed
    block: str | None  # the slug of the block, where one was asked for
    engine: str | None  # of a server
    scheme: str
    kv_format: str
    batch: int
    contexts: tuple[tuple[int, int], ...]  # sequences, and tokens of each before the first new one
    tokens_per_second: float  # new ones, of all sequences
    joules_per_token: float
    average_watts: float
    tokens_per_second_per_watt: float
    tokens_per_second_per_mm2: float | None  # where the area of the dies is known
    memory_bytes: MemoryBytes  # at the end
    remarks: tuple[str, ...]

    @property
    def contexts_text(self) -> str:
        """The tokens of each sequence, in the words of ``--context``."""
        if len(self.contexts) == 1:
            return str(self.contexts[0][1])
        return ",".join(f"{sequences}x{tokens}" for sequences, tokens in self.contexts)

    @property
    def report(self) -> Table:
        """The answer in words and digits, remarks left out."""
        engine = f" with {self.engine}" if self.engine else ""
        active = ""
        if self.active_parameters < 0.75 * self.parameters:
            active = f", {self.active_parameters / 1e9:.2f} billion for a token"
        area = self.tokens_per_second_per_mm2
        dies = "area not known" if area is None else f"{area:.3g} tokens/s/mm2"
        weights, cache = self.memory_bytes.weights / 1e9, self.memory_bytes.cache / 1e9
        rows = [
            ("model", f"{self.model}, {self.parameters / 1e9:.2f} billion parameters{active}"),
            ("system", f"{self.system}{engine}, scheme {self.scheme}"),
            *([("block", self.block)] if self.block else []),
            *self._figures(),
            ("efficiency", f"{self.tokens_per_second_per_watt:.3g} tokens/s/W, {dies}"),
            ("memory", f"weights {weights:.2f} GB, cache {cache:.3f} GB in {self.kv_format}"),
        ]
        return Table(("WHAT", "VALUE"), rows)

    @abstractmethod
    def _figures(self) -> Iterable[tuple[str, str]]:
        """Rows of the report about the work, its time, its rate and its energy."""


@dataclass(frozen=True, kw_only=True)
class LlmResult(Answer):
    """One step of a model on a system: a token for every sequence, or the whole prompt."""

    phase: str
    pass_batch: int  # sequences of one pass: fewer than the batch where they take turns
    context: int  # of the longest sequence
    new_tokens: float  # of a sequence, on average
    latency_ms: float
    formula_ms: float | None  # of an accelerator: the bound of ``latency_ms``
    kind: str  # ``latency_ms`` is "predicted"; of an accelerator that of "programs" or a "formula"
    utilisation: dict[str, float]  # of each resource, over the whole step
    bound: str
    ms_by_part: dict[str, float]
    joules_by_part: dict[str, float]  # of the step

    @property
    def parts(self) -> Table:
        rows = [(name, f"{value:.3f}") for name, value in self.ms_by_part.items()]
        return Table(("PART", "MS"), rows)

    def _figures(self) -> Iterable[tuple[str, str]]:
        use = (f"{name} {100 * share:.0f}%" for name, share in self.utilisation.items())
        energy = (f"{name} {joules:.3g} J" for name, joules in self.joules_by_part.items())
        yield "work", f"{self.phase}, batch {self.batch}, context {self.contexts_text}"
        yield "latency", duration(self.latency_ms)
        yield "rate", f"{self.tokens_per_second:.2f} tokens/s"
        yield "use", ", ".join(use)
        yield "bound by", self.bound
        yield "energy of a step", ", ".join(energy) or "not modelled"


def rates(tokens: float, seconds: float, joules: float, area: float | None) -> dict[str, Any]:
    """Return the fields of an answer that follow from its tokens, time and energy."""
    return {
        "tokens_per_second": tokens / seconds,
        "joules_per_token": joules / tokens,
        "average_watts": joules / seconds,
        "tokens_per_second_per_watt": tokens / joules,
        "tokens_per_second_per_mm2": None if area is None else tokens / seconds / area,
    }


def duration(milliseconds: float) -> str:
    """Return a time as text, in seconds from ten of them on."""
    if milliseconds < 1e4:
        return f"{milliseconds:.2f} ms"
    return f"{milliseconds / 1e3:.1f} s"


def answer(
    model: LlmShape,
    system: str | Target | None = None,
    *,
    scheme: str | None = None,
    engine: str | None = None,
    block: BlockParams | str | None = None,
    latency: int | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
    batch: int | Batch = 1,
    context: int = 1024,
    phase: str = "decode",
    kv: str | None = None,
) -> LlmResult:
    """Return the result of one step: a token for every sequence, or the whole prompt.

    ``batch`` sequences have ``context`` tokens each; a :class:`tilewright.sim.workload.Batch` says
    itself how many each has. ``engine``, ``block``, ``latency``, ``memory`` and ``settings`` are
    those of :func:`tilewright.sim.target.resolve_target`, whose result may stand for ``system``.
    ``kv`` is one of ``tilewright.sim.scheme.KV_FORMATS``.
    """
    target = system
    if not isinstance(target, Target):
        target = resolve_target(
            target,
            engine=engine,
            block=block,
            latency=latency,
            memory=memory,
            settings=settings,
        )
    sequences = batch if isinstance(batch, Batch) else Batch(((batch, context),))
    (found,) = answer_passes(
        target, model, [step_of(sequences, phase)], scheme=scheme, kv=kv, turns=True
    )
    return found


def step_of(batch: Batch, phase: str) -> Pass:
    if phase not in PHASES:
        raise ValueError(unknown("phase", phase, PHASES))
    return Pass(batch, None if phase == "prefill" else 1)


def answer_passes(
    target: Target,
    model: LlmShape,
    works: Sequence[Pass],
    *,
    scheme: str | None = None,
    kv: str | None = None,
    turns: bool = False,
) -> list[LlmResult]:
    """Return the results of passes; those on a server are computed together.

    Rates are those of the tokens that a pass computes.
    With ``turns`` sequences of an accelerator may take turns, as
    :func:`tilewright.sim.on_accelerator.in_turn` says.
    """
    if not works:
        return []
    if target.server is not None:
        steps = steps_on_server(model, target, scheme, works, kv)
    else:
        run = steps_on_accelerator(target, scheme, kv)
        rows = target.accelerator(scheme).rows

        @cache
        def one(work: Pass) -> Step:
            return run(model, work)

        spread = model.experts is not None
        steps = [in_turn(one, work, rows, spread=spread) if turns else one(work) for work in works]
    area = silicon_mm2(target)
    return [
        _result(target, model, work, step, area) for work, step in zip(works, steps, strict=True)
    ]


OF_STEP = (
    *("scheme", "kv_format", "kind", "utilisation", "bound", "ms_by_part", "joules_by_part"),
    "memory_bytes",
)


def _result(
    target: Target, model: LlmShape, work: Pass, step: Step, area: float | None
) -> LlmResult:
    tokens, sequences = work.rows, work.batch
    return LlmResult(
        model=model.name,
        parameters=model.parameters,
        active_parameters=model.active_parameters,
        system=target.system,
        settings={},
        block=None if target.block is None else target.block.slug,
        engine=target.engine,
        **{name: getattr(step, name) for name in OF_STEP},
        phase="prefill" if work.prompt else "decode",
        batch=sequences.sequences,
        pass_batch=step.pass_batch or sequences.sequences,
        context=sequences.longest,
        contexts=sequences.groups,
        new_tokens=tokens / sequences.sequences,
        latency_ms=1e3 * step.seconds,
        formula_ms=None if step.formula_seconds is None else 1e3 * step.formula_seconds,
        **rates(tokens, step.seconds, sum(step.joules_by_part.values()), area),
        remarks=(*step.remarks, *_size_remarks(model, sequences.longest, step)),
    )


def _size_remarks(model: LlmShape, context: int, step: Step) -> Iterator[str]:
    if context > model.max_position_embeddings:
        yield f"{model.name} was trained for {model.max_position_embeddings} tokens"
    memory = step.memory_bytes
    if not memory.fits:
        needed = (memory.weights + memory.cache) / 1e9
        yield f"does not fit: {needed:.1f} GB needed, {memory.capacity / 1e9:g} GB there"


def compare_systems(
    model: str, scheme: str, batch: int, context: int, phase: str, further: Sequence[str] = ()
) -> list[LlmResult]:
    """Return the same step on every system, on the DECA paper's servers with every engine.

    ``further`` are designs of the user's own: TOML files of servers and accelerators, and formats
    as ``FILE.py:CLASS``, which the paper's servers decompress.
    """
    shape = resolve_model(model)

    def one(system: str, engine: str | None = None, scheme: str | None = None) -> LlmResult:
        return answer(
            shape, system, engine=engine, scheme=scheme, batch=batch, context=context, phase=phase
        )

    rows = []
    for system in system_names():
        if system in xeon.SYSTEMS:
            rows.append(one(system, "software", "bf16"))
            engines = tuple(xeon.ENGINES) if system in PAPER_SERVERS else ("software", "deca")
            rows += [one(system, engine, scheme) for engine in _able(engines, scheme)]
        else:
            rows.append(one(system))
    for own in further:
        if is_own(own):
            rows += [one(s, e, own) for s in PAPER_SERVERS for e in _able(xeon.ENGINES, own)]
        elif resolve_target(own).server is None:
            rows.append(one(own))
        else:
            rows += [one(own, engine, scheme) for engine in _able(("software", "deca"), scheme)]
    return rows


def _able(engines: Iterable[str], scheme: str) -> list[str]:
    """Return the engines that decompress a scheme.

    With one of the user's own, a DECA does if its table can hold it, cores do if its class gives
    the cost, and the roofline always does.
    """
    if not is_own(scheme):
        return list(engines)
    by_cores = resolve_format(scheme).vector_operations is not None
    able = {"optimal": True, "deca": _fits_deca(scheme)}
    return [name for name in engines if able.get(name, by_cores)] or ["optimal"]


def _fits_deca(scheme: str) -> bool:
    try:
        resolve_scheme(scheme)
    except ValueError:
        return False
    return True
