"""A step on several devices, from those of one device: sums, hops and waiting between them.

A batch goes through a pipeline as at most as many micro-batches as it has groups of devices. One
more token of a sequence needs the last one, so that a step ends when the last micro-batch has
passed all groups; the next step of the first micro-batch may have begun by then. A prompt is
followed by nothing. Messages do not overlap with computing. Each micro-batch is taken for the
largest of them.
"""

from collections.abc import Callable
from dataclasses import replace

from tilewright.golden.params.llm import LlmShape
from tilewright.sim.parallel import SUMS_OF_A_LAYER, Parallel, micro_batch, shard
from tilewright.sim.step import Step, add_by_name
from tilewright.sim.workload import Pass

__all__ = ["scaled_out"]

LINK, WAITING = "link", "waiting for other groups"


def scaled_out(
    run: Callable[[LlmShape, Pass], Step], model: LlmShape, work: Pass, parallel: Parallel
) -> Step:
    """Return the step of all devices; ``run`` is that of one, for its share of the model."""
    if parallel.devices == 1:
        return run(model, work)
    mine, stages = shard(model, parallel), parallel.pipeline
    parts = min(stages, work.batch.sequences)
    part = Pass(micro_batch(work.batch, parts), work.new)
    one = run(mine, part)
    head = one.ms_by_part["head"] / 1e3
    width = part.rows * model.hidden_size
    sums = SUMS_OF_A_LAYER * parallel.all_reduce(width)  # of a layer
    gather = parallel.all_gather(part.heads * model.vocab_size)
    layers, most = model.num_hidden_layers, mine.num_hidden_layers
    full = one.seconds - head + most * sums
    last = (one.seconds - head) * (layers // stages) / most + (layers // stages) * sums
    last += head + gather
    # All groups together have as many layers as the model, and one of them the head.
    whole = layers / most
    hops = (stages - 1) * parallel.hop(width)
    way = (one.seconds - head) * whole + head + layers * sums + gather + hops
    slowest = max(full, last)
    seconds = way + (parts - 1) * slowest if work.prompt else max(way, parts * slowest)
    times = {name: ms * (1 if name == "head" else whole) for name, ms in one.ms_by_part.items()} | {
        LINK: 1e3 * (layers * sums + gather + hops)
    }
    if stages > 1:
        times[WAITING] = 1e3 * (seconds - way)
    # Of all micro-batches, some of which are smaller than the one that was counted.
    count = work.batch.sequences / part.batch.sequences
    busy = one.seconds * whole * count / stages  # of one device
    joules = {
        name: value * whole * count * parallel.tensor for name, value in one.joules_by_part.items()
    }
    waited = one.idle_watts * (seconds - busy) * parallel.devices
    shared = {name: use * busy / seconds for name, use in one.utilisation.items()}
    cache = one.cache * whole * parallel.tensor * count
    weights = ((one.weights - one.tables) * whole + one.tables) * parallel.tensor
    return replace(
        one,
        seconds=seconds,
        utilisation=shared,
        bound=LINK if times[LINK] > 500 * seconds else one.bound,
        ms_by_part=times,
        joules_by_part=add_by_name([*joules.items(), *([("idle", waited)] if waited else [])]),
        weights=weights,
        tables=one.tables * parallel.tensor,
        cache=cache,
        capacity=one.capacity * parallel.devices,
        fits=one.weights + one.cache * parts <= one.capacity,
        remarks=(
            *(f"of one device: {remark}" for remark in one.remarks),
            f"{parallel.devices} devices: sums in a ring, no message overlaps with computing, and"
            " no published figure holds it; the energy of links is not counted",
        ),
    )
