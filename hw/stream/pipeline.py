"""Elastic pipelines: a unit written as stages, registered where its latency parameter says."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from amaranth import Module, ShapeLike, Signal, Value, ValueCastable
from amaranth.lib import data

from tilewright.golden.params.arith import PipelinedParams
from tilewright.hw.unit import Unit

P = TypeVar("P", bound=PipelinedParams)

# A stage turns named values into named values; what it does not return is dropped. A list of values
# is a vector: its elements keep their own widths until they reach an output field.
Named: TypeAlias = "Value | ValueCastable | list[Value]"
Stage = Callable[[Module, SimpleNamespace], dict[str, Named]]


def register_counts(stages: int, latency: int) -> list[int]:
    """How many registers follow each stage: spread evenly, surplus after the last.

    The last stage is served first, so a latency of 1 registers the output.
    """
    counts = [0] * stages
    for k in range(min(latency, stages)):
        counts[stages - 1 - k * stages // min(latency, stages)] += 1
    counts[-1] += max(0, latency - stages)
    return counts


def spread(stages: int, registers: int, followed: bool) -> list[int]:
    """As :func:`register_counts`; if a register follows the last stage, counted with that one."""
    counts = register_counts(stages, registers + followed)
    counts[-1] -= followed
    return counts


class PipelinedUnit(Unit[P]):
    """One result a cycle from ``i`` to ``o``, ``params.latency`` cycles later.

    A stage boundary with a register holds its value while the consumer waits and moves whenever
    the next place is free, so bubbles close up. Subclasses give ``stages()``; the first stage sees
    the fields of ``i`` and the last returns the fields of ``o``.

    Set ``followed`` if the consumer registers the output: all of the unit's registers are then
    between stages. Where an even spread is not best, ``registers_behind`` is the number of
    registers after every stage.
    """

    followed = False
    registers_behind: Sequence[int] | None = None

    def stages(self) -> list[Stage]:
        raise NotImplementedError

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = self.stages()
        valid, ready, values = self.i.valid, self.i.ready, _fields(self.i.p)
        counts = self.registers_behind or spread(len(stages), self.params.latency, self.followed)
        assert len(counts) == len(stages) and sum(counts) == self.params.latency
        for k, count in enumerate(counts):
            results = stages[k](m, SimpleNamespace(**values))
            # Named per stage, so that paths and waves read like the source.
            values = {name: _named(m, f"s{k}_{name}", v) for name, v in results.items()}
            for r in range(count):
                valid, ready, values = _register(m, f"s{k}r{r}", valid, ready, values)
        m.d.comb += [self.o.valid.eq(valid), ready.eq(self.o.ready)]
        if set(values) != set(_fields(self.o.p)):
            raise ValueError(f"last stage gives {sorted(values)}, not {sorted(_fields(self.o.p))}")
        for name, value in values.items():
            m.d.comb += _assign(self.o.p[name], value)
        return m


def staged(
    m: Module, stages: list[Stage], registers: int, x: SimpleNamespace, *, followed: bool = False
) -> SimpleNamespace:
    """The result of ``stages`` on ``x``, with registers between them that never wait.

    There is none after the last stage if the caller has one there.
    """
    for k, count in enumerate(spread(len(stages), registers, followed)):
        x = SimpleNamespace(**stages[k](m, x))
        for r in range(count):
            held = {
                n: Signal(Value.cast(v).shape(), name=f"s{k}r{r}_{n}", reset_less=True)
                for n, v in vars(x).items()
            }
            m.d.sync += [held[n].eq(v) for n, v in vars(x).items()]
            x = SimpleNamespace(**held)
    return x


def _fields(view: data.View) -> dict:
    return {name: view[name] for name, _ in view.shape()}


def _assign(target: Any, value: Named) -> list:
    """``target.eq(value)``, element by element where ``value`` is a list."""
    if not isinstance(value, list):
        return [target.eq(value)]
    return [t.eq(v) for t, v in zip(target, value, strict=True)]


def _signal(name: str, value: Named) -> Signal | list[Signal]:
    """A signal, or one per element, of the shape of ``value``."""
    if isinstance(value, list):
        return [_signal(f"{name}{k}", v) for k, v in enumerate(value)]
    return Signal(_shape(value), name=name)


def _shape(value: Value | ValueCastable) -> ShapeLike:
    return value.shape() if isinstance(value, ValueCastable) else Value.cast(value).shape()


def _named(m: Module, name: str, value: Named) -> Signal | list[Signal]:
    """``value`` as a signal; one that already is a signal is handed on as it is."""
    if isinstance(value, list):
        return [_named(m, f"{name}{k}", v) for k, v in enumerate(value)]
    if isinstance(Value.cast(value), Signal):
        return value
    signal = Signal(_shape(value), name=name)
    m.d.comb += signal.eq(value)
    return signal


def _register(m: Module, name: str, valid: Value, ready: Value, values: dict) -> tuple:
    held_valid = Signal(name=f"{name}_valid")
    held_ready = Signal(name=f"{name}_ready")
    held = {n: _signal(f"{name}_{n}", v) for n, v in values.items()}
    step = Signal(name=f"{name}_step")
    m.d.comb += [step.eq(~held_valid | held_ready), ready.eq(step)]
    with m.If(step):
        m.d.sync += held_valid.eq(valid)
        for n, v in values.items():
            m.d.sync += _assign(held[n], v)
    return held_valid, held_ready, held
