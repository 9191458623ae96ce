"""A pass of a model on one accelerator."""

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim import accelerator as acc
from tilewright.sim.kv_format import cache_bytes
from tilewright.sim.step import Step, add_by_name
from tilewright.sim.target import Target
from tilewright.sim.workload import Pass, work

__all__ = ["step_on_accelerator"]


def step_on_accelerator(
    model: LlmShape,
    target: Target,
    scheme: str | None,
    step: Pass,
    kv: str | None,
) -> Step:
    """Return what ``step`` takes on one accelerator."""
    machine = target.accelerator(scheme)
    own = machine.cache_format
    require(kv in (None, own), f"{target.system} keeps keys and values in {own}; leave {kv!r} out")
    times = acc.run(machine, work(model, step))
    cycles = sum(t.cycles for t in times)
    share = {
        "compute": sum(t.compute for t in times) / cycles,
        "memory": sum(t.transfer for t in times) / cycles,
    }
    remarks = [] if machine.power else ["energy is that of buffers and memory alone"]
    if target.built is not None:
        remarks.append(f"memory behind the port of {target.built.slug}, as built")
    weights, cache = (
        acc.stored_weights(model, machine.weight_bits),
        cache_bytes(model, step.batch, machine.cache_bits),
    )
    lengths = "/".join(str(length) for length in machine.lengths.values())
    return Step(
        scheme=machine.scheme or (lengths if machine.name in ("anda", "harmonia") else "fp16"),
        kv_format=own,
        seconds=cycles / machine.clock,
        utilisation=share,
        bound=max(share, key=lambda name: share[name]),
        ms_by_part=add_by_name((t.gemm.name, 1e3 * t.cycles / machine.clock) for t in times),
        joules_by_part=acc.energy(machine, times),
        idle_watts=0.0,  # an array that waits costs nothing: see the published watts
        weights=weights,
        tables=weights - model.linear_weights * machine.weight_bits / 8,
        cache=cache,
        capacity=machine.capacity,
        fits=weights + cache <= machine.capacity,
        remarks=tuple(remarks),
    )
