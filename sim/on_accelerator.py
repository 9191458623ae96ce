"""A pass of a model on one accelerator: cycles of programs, beside those of the formula.

Anda and Harmonia as this project has built them answer with the programs that would run
(:mod:`tilewright.sim.step_programs`). Other accelerators, what-ifs of measured cycles, and a memory
of another bandwidth than the port's are formulas alone. Energy is the formula's everywhere: watts
while the array is busy, and energies of bits from buffers and memory.
"""

from collections.abc import Callable, Sequence

from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.llm import LlmShape
from tilewright.sim import accelerator as acc
from tilewright.sim.inputs import measured
from tilewright.sim.kv_format import cache_bytes
from tilewright.sim.step import Step, add_by_name
from tilewright.sim.target import Target
from tilewright.sim.workload import Gemm, Pass, work

__all__ = ["steps_on_accelerator"]


def steps_on_accelerator(
    target: Target, scheme: str | None, kv: str | None
) -> Callable[[LlmShape, Pass], Step]:
    """Return what says how long a pass takes on one accelerator; what passes share is kept."""
    machine = target.accelerator(scheme)
    own = machine.cache_format
    require(kv in (None, own), f"{target.system} keeps keys and values in {own}; leave {kv!r} out")
    known: dict[Gemm, acc.GemmTime] = {}

    def step(model: LlmShape, part: Pass) -> Step:
        times = []
        for product in work(model, part):
            if product not in known:
                (known[product],) = acc.run(machine, [product])
            times.append(known[product])
        return _step(target, machine, model, part, times)

    return step


def _step(
    target: Target,
    machine: acc.Accelerator,
    model: LlmShape,
    step: Pass,
    times: Sequence[acc.GemmTime],
) -> Step:
    """Return what ``step`` takes; ``times`` are those of its products by the formula."""
    cycles = formula = sum(t.cycles for t in times)
    share = {
        "compute": sum(t.compute for t in times) / cycles,
        "memory": sum(t.transfer for t in times) / cycles,
    }
    parts = add_by_name((t.gemm.name, t.cycles) for t in times)
    remarks = [] if machine.power else ["energy is that of buffers and memory alone"]
    if target.built is not None:
        remarks.append(f"memory behind the port of {target.built.slug}, as built")
    params, reason = _programmed(target, machine)
    kind: str = "formula"
    if params is not None:
        # Imported here: other accelerators need nothing of programs.
        from tilewright.sim.step_programs import step_time

        found = step_time(params, model, step, latency=target.latency, lengths=machine.lengths)
        reason = found.missing
        if found.kind != "formula":
            kind, cycles, formula = found.kind, found.cycles, found.bound
            parts = {name: part.cycles for name, part in found.parts.items()}
            units = ("gemm", "vector", "convert", "load", "store")
            share = {name: getattr(found.programs, name) / cycles for name in units}
            remarks.append(
                f"cycles are those of the programs, {found.ratio:.2f} times the formula's bound of"
                f" {1e3 * formula / machine.clock:.4g} ms"
            )
        if found.stepwise:
            remarks.append("the prompt passes in steps, as tilewright run starts them")
    if reason:
        remarks.append(f"{'formula only' if kind == 'formula' else 'in part programs'}: {reason}")
    weights, cache = (
        acc.stored_weights(model, machine.weight_bits),
        cache_bytes(model, step.batch, machine.cache_bits),
    )
    lengths = "/".join(str(length) for length in machine.lengths.values())
    return Step(
        scheme=machine.scheme or (lengths if machine.name in ("anda", "harmonia") else "fp16"),
        kv_format=machine.cache_format,
        seconds=cycles / machine.clock,
        formula_seconds=formula / machine.clock,
        kind=kind,
        utilisation=share,
        bound=max(share, key=lambda name: share[name]),
        ms_by_part={name: 1e3 * value / machine.clock for name, value in parts.items()},
        joules_by_part=acc.energy(machine, times),
        idle_watts=0.0,  # an array that waits costs nothing: see the published watts
        weights=weights,
        tables=weights - model.linear_weights * machine.weight_bits / 8,
        cache=cache,
        capacity=machine.capacity,
        fits=weights + cache <= machine.capacity,
        remarks=tuple(remarks),
    )


def _programmed(
    target: Target, machine: acc.Accelerator
) -> tuple[AndaParams | HarmoniaParams | None, str]:
    """Return the accelerator whose programs run, or why there is none."""
    if target.own is not None or machine.name not in ("anda", "harmonia"):
        return None, "programs are written for anda and harmonia alone"
    if "bandwidth" in dict(target.settings):
        return None, "the memory port of programs has a bandwidth of its own"
    if measured(f"{machine.name}.cycles") != 1.0:
        return None, "measured cycles are changed"
    if target.built is not None:
        return target.built, ""
    return (AndaParams() if machine.name == "anda" else HarmoniaParams()), ""
