"""Elastic pipelines: a unit written as stages, registered where its latency parameter says."""

from collections.abc import Callable
from types import SimpleNamespace

from amaranth import Module, Signal, Value, ValueCastable
from amaranth.lib import data

from hw.unit import Unit

__all__ = ["PipelinedUnit", "Stage", "register_counts"]

# A stage turns named values into named values; what it does not return is gone.
Stage = Callable[[Module, SimpleNamespace], dict[str, Value | ValueCastable]]


def register_counts(stages: int, latency: int) -> list[int]:
    """How many registers follow each stage: spread evenly, surplus behind the last.

    The last stage is served first, so a latency of 1 registers the output.
    """
    counts = [0] * stages
    for k in range(min(latency, stages)):
        counts[stages - 1 - k * stages // min(latency, stages)] += 1
    counts[-1] += max(0, latency - stages)
    return counts


class PipelinedUnit(Unit):
    """One result a cycle from ``i`` to ``o``, ``params.latency`` cycles later.

    A stage boundary with a register holds its value while the consumer waits and moves whenever
    the next place is free, so bubbles close up. Subclasses give ``stages()``; the first stage sees
    the fields of ``i`` and the last returns the fields of ``o``.
    """

    def stages(self) -> list[Stage]:
        raise NotImplementedError

    def elaborate(self, platform):
        m = Module()
        stages = self.stages()
        valid, ready, values = self.i.valid, self.i.ready, _fields(self.i.p)
        for k, count in enumerate(register_counts(len(stages), self.params.latency)):
            results = stages[k](m, SimpleNamespace(**values))
            # Named per stage, so that paths and waves read like the source.
            values = {name: _copy(m, f"s{k}_{name}", v) for name, v in results.items()}
            for r in range(count):
                valid, ready, values = _register(m, f"s{k}r{r}", valid, ready, values)
        m.d.comb += [self.o.valid.eq(valid), ready.eq(self.o.ready)]
        m.d.comb += [_member(self.o.p, name).eq(value) for name, value in values.items()]
        if set(values) != set(_fields(self.o.p)):
            raise ValueError(f"last stage gives {sorted(values)}, not {sorted(_fields(self.o.p))}")
        return m


def _member(view: data.View, name: str):
    return view[name]


def _fields(view: data.View) -> dict:
    return {name: view[name] for name, _ in view.shape()}


def _copy(m: Module, name: str, value) -> Signal:
    shape = value.shape() if isinstance(value, ValueCastable) else Value.cast(value).shape()
    signal = Signal(shape, name=name)
    m.d.comb += signal.eq(value)
    return signal


def _register(m: Module, name: str, valid, ready, values: dict) -> tuple:
    held_valid = Signal(name=f"{name}_valid")
    held_ready = Signal(name=f"{name}_ready")
    held = {n: Signal.like(v, name=f"{name}_{n}") for n, v in values.items()}
    step = Signal(name=f"{name}_step")
    m.d.comb += [step.eq(~held_valid | held_ready), ready.eq(step)]
    with m.If(step):
        m.d.sync += held_valid.eq(valid)
        m.d.sync += [held[n].eq(v) for n, v in values.items()]
    return held_valid, held_ready, held
