"""Units that do the same to every lane: written for one lane, built for ``params.lanes``."""

from types import SimpleNamespace
from typing import TypeVar

from amaranth import Cat, Module, Value

from tilewright.golden.params.arith import FloatBlockParams
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage

P = TypeVar("P", bound=FloatBlockParams)


class LanewiseUnit(PipelinedUnit[P]):
    """A pipelined unit whose input and output fields are all vectors of ``params.lanes``.

    Subclasses give ``lane_stages()``, the stages of one lane, which see and return one element of
    each field.
    """

    def lane_stages(self) -> list[Stage]:
        raise NotImplementedError

    def stages(self) -> list[Stage]:
        stages = self.lane_stages()
        last = len(stages) - 1
        return [self._every_lane(s, k == 0, k == last) for k, s in enumerate(stages)]

    def _every_lane(self, stage: Stage, first: bool, last: bool) -> Stage:
        lanes = range(self.params.lanes)

        def run(m: Module, x: SimpleNamespace) -> dict:
            results = []
            for k in lanes:
                if first:
                    own = {name: vector[k] for name, vector in vars(x).items()}
                else:
                    tail = f"_{k}"
                    own = {n.removesuffix(tail): v for n, v in vars(x).items() if n.endswith(tail)}
                results.append(stage(m, SimpleNamespace(**own)))
            if last:
                return {name: Cat(r[name] for r in results) for name in results[0]}
            return {f"{n}_{k}": v for k, r in enumerate(results) for n, v in r.items()}

        return run


def apply(m: Module, name: str, unit: LanewiseUnit, **operands: Value) -> Value:
    """The result of a float unit that never waits, built as submodule ``name``."""
    m.submodules[name] = unit
    if unit.params.latency:
        m.d.comb += [unit.i.valid.eq(1), unit.o.ready.eq(1)]
    m.d.comb += [unit.i.p[field][0].eq(value) for field, value in operands.items()]
    return unit.o.p.y[0]


def joined(*stages: Stage) -> Stage:
    """Join several stages to one."""

    def run(m: Module, x: SimpleNamespace) -> dict:
        for stage in stages:
            results = stage(m, x)
            x = SimpleNamespace(**results)
        return results

    return run


def without(x: SimpleNamespace, *names: str) -> dict:
    """Everything a stage was given but ``names``, to be handed on."""
    return {name: value for name, value in vars(x).items() if name not in names}
