"""Tiny random models of both families, from a seed: tests and examples without a file."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.model import Config, Layer, Linear, Model, Norm

SHAPES = {
    "llama": Config(
        family="llama",
        layers=2,
        width=64,
        hidden=96,
        heads=4,
        key_heads=2,
        channels=16,
        vocabulary=128,
        context=256,
    ),
    "opt": Config(
        family="opt",
        layers=2,
        width=64,
        hidden=128,
        heads=4,
        key_heads=4,
        channels=16,
        vocabulary=128,
        context=256,
    ),
}


def tiny_model(family: str = "llama", seed: int = 0, config: Config | None = None) -> Model:
    """A model of ``SHAPES[family]``, or of ``config``; embeddings are tied.

    A few channels of the norms are large, as the outliers of trained models are.
    """
    shape = config or SHAPES[family]
    rng = np.random.default_rng(seed)
    with_bias = shape.family == "opt"

    def values(*size: int, scale: float) -> NDArray[np.float32]:
        return (scale * rng.standard_normal(size)).astype(np.float32)

    def linear(outputs: int, inputs: int) -> Linear:
        bias = values(outputs, scale=0.1) if with_bias else None
        return Linear(values(outputs, inputs, scale=1.5 / np.sqrt(inputs)), bias)

    def norm() -> Norm:
        gain = 1 + values(shape.width, scale=0.2)
        gain[rng.random(shape.width) < 0.05] *= 8
        return Norm(gain, values(shape.width, scale=0.2) if with_bias else None)

    def layer() -> Layer:
        inner, keys = shape.heads * shape.channels, shape.key_heads * shape.channels
        return Layer(
            attention_norm=norm(),
            query=linear(inner, shape.width),
            key=linear(keys, shape.width),
            value=linear(keys, shape.width),
            output=linear(shape.width, inner),
            feed_norm=norm(),
            gate=None if with_bias else linear(shape.hidden, shape.width),
            up=linear(shape.hidden, shape.width),
            down=linear(shape.width, shape.hidden),
        )

    embedding = values(shape.vocabulary, shape.width, scale=0.1)
    return Model(
        name=f"tiny-{shape.family}-{seed}",
        config=shape,
        embedding=embedding,
        positions=values(shape.context, shape.width, scale=0.3) if with_bias else None,
        layers=tuple(layer() for _ in range(shape.layers)),
        final_norm=norm(),
        head=embedding,
    )
