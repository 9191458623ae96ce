"""How keys and values are kept: what a cache of any length takes in each format."""

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim.workload import Batch

INT4_GROUP = 32  # values that share a scale


@dataclass(frozen=True)
class KvFormat:
    """A format of the cache; ``bits`` is of the keys and values of one head.

    ``bits`` takes tokens, and channels of a key, of which a value has as many.
    """

    name: str
    about: str
    bits: Callable[[int, int], float]


def _plain(bits: float) -> Callable[[int, int], float]:
    return lambda tokens, channels: 2 * tokens * channels * bits


def _int8(tokens: int, channels: int) -> float:
    return 2 * tokens * (8 * channels + FP16.bits)


def _harmonia(tokens: int, channels: int) -> float:
    return float(cache_size(HarmoniaParams().cache, tokens, channels).bits)


KV_FORMATS = {
    kind.name: kind
    for kind in (
        KvFormat("bf16", "16 bits a value", _plain(16)),
        KvFormat("fp8", "8 bits a value", _plain(8)),
        KvFormat("int8", "8 bits a value and an fp16 scale for each key and value", _int8),
        KvFormat(
            "int4",
            f"4 bits a value and an fp16 scale for {INT4_GROUP} of them",
            _plain(4 + FP16.bits / INT4_GROUP),
        ),
        KvFormat("harmonia", "block floating point: 8-bit ends of the context, else 4", _harmonia),
    )
}


def resolve_kv_format(name: str) -> KvFormat:
    if name not in KV_FORMATS:
        raise ValueError(unknown("KV format", name, KV_FORMATS))
    return KV_FORMATS[name]


def cache_bytes(model: LlmShape, batch: Batch, bits: Callable[[int, int], float]) -> float:
    """Return the bytes of the cache of ``batch`` if a head's keys and values take ``bits``.

    Layers with a window keep no more than it. One vector for all heads (MLA) takes as much as the
    keys of one head with as many channels.
    """

    def of_layer(tokens: int) -> float:
        if model.latent is not None:
            return bits(tokens, model.cached_per_token) / 2
        return model.num_key_value_heads * bits(tokens, model.head_dim)

    return sum(
        sequences * layers * of_layer(seen) / 8
        for sequences, tokens in batch.groups
        for layers, seen in model.visible(tokens)
    )
