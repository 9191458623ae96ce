"""Tiny random models of both families, from a seed: tests and examples without a file."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.model import Layer, Linear, Model, Norm
from tilewright.golden.params.llm import LlmShape

_LLAMA = LlmShape(
    model_type="llama",
    num_hidden_layers=2,
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=128,
    max_position_embeddings=256,
)
_OPT = replace(_LLAMA, model_type="opt", intermediate_size=128, num_key_value_heads=4)
SHAPES = {"llama": _LLAMA, "opt": _OPT}


def tiny_model(family: str = "llama", seed: int = 0, config: LlmShape | None = None) -> Model:
    """A model of ``SHAPES[family]`` or ``config``: tied embeddings, outliers in its norms."""
    shape = config or SHAPES[family]
    rng = np.random.default_rng(seed)
    with_bias = shape.biased

    def values(*size: int, scale: float) -> NDArray[np.float32]:
        return (scale * rng.standard_normal(size)).astype(np.float32)

    def linear(outputs: int, inputs: int, biased: bool = with_bias) -> Linear:
        bias = values(outputs, scale=0.1) if biased else None
        return Linear(values(outputs, inputs, scale=1.5 / np.sqrt(inputs)), bias)

    def norm() -> Norm:
        gain = 1 + values(shape.hidden_size, scale=0.2)
        gain[rng.random(shape.hidden_size) < 0.05] *= 8
        return Norm(gain, values(shape.hidden_size, scale=0.2) if with_bias else None)

    def layer() -> Layer:
        width, inner = shape.hidden_size, shape.intermediate_size
        biased = with_bias or shape.query_bias
        return Layer(
            attention_norm=norm(),
            query=linear(shape.query_width, width, biased),
            key=linear(shape.kv_width, width, biased),
            value=linear(shape.kv_width, width, biased),
            output=linear(width, shape.query_width),
            feed_norm=norm(),
            gate=linear(inner, width) if shape.gated else None,
            up=linear(inner, width),
            down=linear(width, inner),
        )

    embedding = values(shape.vocab_size, shape.hidden_size, scale=0.1)
    positions = None
    if not shape.rotary:
        positions = values(shape.max_position_embeddings, shape.hidden_size, scale=0.3)
    name = f"tiny-{shape.model_type}-{seed}"
    return Model(
        name=name,
        config=replace(shape, name=name, tie_word_embeddings=True),
        embedding=embedding,
        positions=positions,
        layers=tuple(layer() for _ in range(shape.num_hidden_layers)),
        final_norm=norm(),
        head=embedding,
    )
