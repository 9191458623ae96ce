"""Figures of the SparAMX paper, measured with our kernels: whole models, layers, attention."""

from tilewright.claims import SILICON, answers
from tilewright.sim.records import (
    batch_seconds,
    layer_seconds,
    long_context_seconds,
    model_seconds,
    sparsity_seconds,
)


@answers(SILICON)
def measured_layer_gain(layer: str, batch: int, over: str) -> float:
    """A dense bf16 kernel over our sparse one, one linear layer, half of its weights zero."""
    return layer_seconds(layer, batch, over) / layer_seconds(layer, batch, "sparse bf16")


@answers(SILICON)
def measured_model_gain(model: str, batch: int) -> float:
    """Stock PyTorch over a packed model, tokens of a whole Llama 3 8B with its head."""
    return model_seconds("stock bf16", batch) / model_seconds(model, batch)


@answers(SILICON)
def measured_gain_grows(up_to: float) -> bool:
    """The more weights are zero, the faster a whole model, up to this share of zeros; batch 1."""
    times = [seconds for share, seconds in sorted(sparsity_seconds().items()) if share <= up_to]
    return times == sorted(times, reverse=True)


@answers(SILICON)
def measured_kv_gain() -> float:
    """A whole model at 16K context: our dense attention over ours to pruned keys and values."""
    return long_context_seconds("dense kernel") / long_context_seconds("pruned")


@answers(SILICON)
def measured_tiles_beat_vectors(batches: tuple[int, ...]) -> bool:
    """At each of these batches the AMX kernel, which is the default there, beats the AVX one."""
    names = ("sparse bf16", "sparse bf16, other order")
    times = ([batch_seconds(batch, name) for name in names] for batch in batches)
    return all(tiles < vectors for tiles, vectors in times)


@answers(SILICON)
def measured_dense_int8_wins(batch: int) -> bool:
    """Whether the whole model with dense int8 weights is faster than with sparse ones."""
    return model_seconds("dense int8", batch) < model_seconds("sparse int8", batch)
