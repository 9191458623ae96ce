"""Figures of the SparAMX paper: measured with our kernels, or modelled on DECA's machine."""

from tilewright.sim.evaluations.registry import evaluation, evaluation_of_records
from tilewright.sim.measured import attention_seconds, batch_seconds, block_seconds, layer_seconds
from tilewright.sim.models import resolve_model
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, token

DDR = SYSTEMS["spr-ddr"]


@evaluation
def sparse_token_gain(model: str, scheme: str, batch: int, context: int) -> float:
    """Next token with plain bf16 over that with sparse weights, both in software; DDR."""
    shape = resolve_model(model)
    dense, sparse = (
        token(DDR, "software", resolve_weight_scheme(name), shape, batch, context).seconds
        for name in ("bf16", scheme)
    )
    return dense / sparse


@evaluation
def sparse_gain_grows(model: str) -> bool:
    """The sparser, the faster."""
    names = ("bf16_90%", "bf16_70%", "bf16_50%", "bf16_30%")
    gains = [sparse_token_gain(model, name, 1, 512) for name in names]
    return gains == sorted(gains)


# --- measured: the record of the kernels on a processor with AMX


@evaluation_of_records
def measured_layer_gain(layer: str, batch: int) -> float:
    """Stock PyTorch over our sparse bf16 kernel, one linear layer, half of its weights zero."""
    stock, sparse = (layer_seconds(layer, batch, name) for name in ("stock bf16", "sparse bf16"))
    return stock / sparse


@evaluation_of_records
def measured_block_gain(batch: int) -> float:
    """Stock PyTorch over our sparse bf16 kernel, all linear layers of a layer of Llama 3 8B."""
    return block_seconds(batch, "stock bf16") / block_seconds(batch, "sparse bf16")


@evaluation_of_records
def measured_kv_gain() -> float:
    """A block at 16K context, dense linear layers: dense over pruned keys and values."""
    linear = block_seconds(1, "dense bf16")
    return (linear + attention_seconds("dense")) / (linear + attention_seconds("pruned"))


@evaluation_of_records
def measured_tiles_beat_vectors(batches: list[int]) -> bool:
    """At each of these batches the AMX kernel, which is the default there, beats the AVX one."""
    names = ("sparse bf16", "sparse bf16, other order")
    times = ([batch_seconds(batch, name) for name in names] for batch in batches)
    return all(tiles < vectors for tiles, vectors in times)


@evaluation_of_records
def measured_dense_int8_wins(batch: int) -> bool:
    """Whether dense int8 is faster in all linear layers of a decoder layer together."""
    return block_seconds(batch, "dense int8") < block_seconds(batch, "sparse int8")
