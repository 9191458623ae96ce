"""Several sockets or accelerators that share a model: how its weights and its work are divided.

In tensor parallelism every device has a slice of each matrix and some of the heads; after
attention and after the feed-forward layer of every layer all devices add up their results. In
pipeline parallelism groups of devices have layers of their own, one after the other.
"""

from dataclasses import dataclass, replace

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.workload import Batch

__all__ = ["ALONE", "LINKS", "LINK_BANDWIDTH", "LINK_LATENCY", "Parallel", "micro_batch", "shard"]

LINK_BANDWIDTH = 64e9  # bytes a second each way between two accelerators; assumed: PCIe 5.0 x16
LINK_LATENCY = 1e-6  # seconds of a message between them; assumed
LINKS = ("link_bandwidth", "link_latency")
MOST_DEVICES = 4096
VALUE_BYTES = 2  # of an activation on its way, in bf16 or fp16
SUMS_OF_A_LAYER = 2  # after attention, after the feed-forward layer


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """``tensor`` devices share each layer; ``pipeline`` such groups have layers of their own."""

    tensor: int = 1
    pipeline: int = 1
    link_bandwidth: float = LINK_BANDWIDTH  # bytes a second, each way
    link_latency: float = LINK_LATENCY  # seconds of a message

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline"):
            value = getattr(self, name)
            require(1 <= value <= MOST_DEVICES, f"{name} must be 1..{MOST_DEVICES}, not {value!r}")

    @property
    def devices(self) -> int:
        """Sockets or accelerators in all."""
        return self.tensor * self.pipeline

    def all_reduce(self, values: float) -> float:
        """Seconds in which all devices of a group add up ``values`` each, in a ring."""
        others = self.tensor - 1
        moved = 2 * others / self.tensor * values * VALUE_BYTES
        return moved / self.link_bandwidth + 2 * others * self.link_latency

    def all_gather(self, values: float) -> float:
        """Seconds in which they put ``values``, of which each has a share, together."""
        others = self.tensor - 1
        moved = others / self.tensor * values * VALUE_BYTES
        return moved / self.link_bandwidth + others * self.link_latency

    def hop(self, values: float) -> float:
        """Seconds in which activations go on to the next group."""
        if self.pipeline == 1:
            return 0.0
        return values * VALUE_BYTES / self.link_bandwidth + self.link_latency


ALONE = Parallel()


def shard(model: LlmShape, parallel: Parallel) -> LlmShape:
    """Return what one device has of ``model``, in the group with the most layers.

    Heads must divide among the devices; where there are fewer key-value heads than devices, some
    devices keep the same ones. Every expert is divided as a dense layer is.
    """
    t, stages = parallel.tensor, parallel.pipeline
    heads, shared = model.num_attention_heads, model.num_key_value_heads
    require(
        heads % t == 0 and (shared % t == 0 or t % shared == 0),
        f"{heads} heads with {shared} key-value heads of {model.name} do not divide among {t}"
        " devices",
    )
    layers = -(-model.num_hidden_layers // stages)
    require(
        stages <= model.num_hidden_layers,
        f"{model.name} has {model.num_hidden_layers} layers, fewer than {stages} groups of devices",
    )
    experts = model.experts
    if experts is not None:
        experts = replace(
            experts,
            layers=min(layers, -(-experts.layers // stages)),
            width=-(-experts.width // t),
            shared_width=-(-experts.shared_width // t),
        )
    return replace(
        model,
        num_attention_heads=heads // t,
        num_key_value_heads=max(1, shared // t),
        intermediate_size=-(-model.intermediate_size // t),
        vocab_size=-(-model.vocab_size // t),
        num_hidden_layers=layers,
        sliding_layers=min(layers, -(-model.sliding_layers // stages)),
        experts=experts,
    )


def micro_batch(batch: Batch, parts: int) -> Batch:
    """Return the largest of ``parts`` parts of a batch, dealt out from the longest sequence on."""
    start, groups = 0, []
    for sequences, tokens in sorted(batch.groups, key=lambda group: -group[1]):
        end = start + sequences
        mine = -(-end // parts) - -(-start // parts)
        if mine:
            groups.append((mine, tokens))
        start = end
    return Batch(tuple(groups))
