"""One decoder layer as hardware meets it: operands of its products, from real text.

Activations are what the model, in full precision, hands to each linear module for the last tokens
of a text, as fp16; weights are int4 as of ``golden.llm.weights``. Biases are added elsewhere and
have no part here.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from golden import bfp
from golden.anda import gemm
from golden.anda.weights import Weights
from golden.anda_system.block import Mantissas
from golden.anda_system.builder import Builder, Output
from golden.llm.engine import Session
from golden.llm.model import Linear, Model
from golden.llm.sites import Floats, Format, Site
from golden.llm.weights import quantised
from golden.params.anda_system import AndaParams
from golden.params.block import require

MODULES = {  # name, as in ``Mantissas`` -> where its activations come from, its projections
    "qkv": (Site.A_QKV, ("query", "key", "value")),
    "o": (Site.A_O, ("output",)),
    "u": (Site.A_U, ("gate", "up")),
    "d": (Site.A_D, ("down",)),
}


@dataclass(frozen=True, eq=False)
class Module:
    """A linear module: fp16 patterns (tokens, inputs) and the projections they meet, by name."""

    activations: NDArray[np.uint16]
    weights: dict[str, NDArray[np.float32]]  # as the model's file has them
    integers: dict[str, Weights]  # the same as int4


@dataclass(frozen=True, eq=False)
class Attention:
    """fp16 patterns of one layer's attention: q (heads, tokens, C), k and v (key heads, S, C)."""

    q: NDArray[np.uint16]
    k: NDArray[np.uint16]
    v: NDArray[np.uint16]


class _Recorder(Format):
    """Keeps what one layer is given, as fp16 patterns."""

    def __init__(self, layer: int):
        self._layer = layer
        self.seen: dict[Site, NDArray[np.uint16]] = {}
        self.attention: Attention | None = None

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        if layer == self._layer and site.is_linear:
            self.seen[site] = _fp16(values)
        return values

    def attend(self, layer: int, q: Floats, k: Floats, v: Floats) -> Floats:
        if layer == self._layer:
            self.attention = Attention(_fp16(q), _fp16(k), _fp16(v))
        return super().attend(layer, q, k, v)


def captured(
    model: Model, tokens: ArrayLike, layer: int, count: int
) -> tuple[dict[str, Module], Attention]:
    """The modules of ``layer`` and its attention, for the last ``count`` of the tokens.

    The tokens also calibrate the weights.
    """
    ids = np.asarray(tokens)
    layers = len(model.layers)
    require(0 <= layer < layers, f"layer must be 0..{layers - 1}, not {layer!r}")
    require(1 <= count <= len(ids), f"{count} tokens of a text that has {len(ids)}")
    model = replace(model, layers=model.layers[: layer + 1])  # what follows has no influence
    recorder = _Recorder(layer)
    Session(model, recorder).feed(ids)
    file = model.layers[layer].linears
    small = quantised(model, method="search", calibration=ids).layers[layer].linears
    modules = {}
    for module, (site, parts) in MODULES.items():
        names = [part for part in parts if part in file]
        modules[module] = Module(
            recorder.seen[site][-count:],
            {name: file[name].weight for name in names},
            {name: _integers(small[name]) for name in names},
        )
    whole = recorder.attention
    assert whole is not None
    return modules, replace(whole, q=whole.q[:, -count:])


def module_program(
    params: AndaParams, module: Module, mantissa: int
) -> tuple[Builder, dict[str, Output]]:
    """The module on the accelerator: activations are compressed there, products leave as fp16.

    Weights come in behind what goes on before their product.
    """
    b = Builder(params)
    x = b.load(module.activations)
    waiting = list(module.integers.values())
    placed = b.weights(waiting.pop(0))
    compressed = b.compress(x, mantissa)
    outputs = {}
    for name in module.integers:
        b.wait()
        product = b.gemm(compressed, placed)
        b.release_weights()
        if waiting:
            placed = b.weights(waiting.pop(0))
        outputs[name] = b.store(product)
    b.halt()
    return b, outputs


def module_products(
    params: AndaParams, module: Module, mantissa: int
) -> dict[str, NDArray[np.uint16]]:
    """The same products by ``golden.anda``: fp16 patterns (tokens, outputs)."""
    numerics = params.mxu.numerics
    blocks = bfp.encode(numerics.block_format(mantissa), module.activations)
    return {
        name: gemm(numerics, mantissa, blocks, weights) for name, weights in module.integers.items()
    }


def mantissas_of(text: str) -> Mantissas:
    """Lengths of the four modules' activations, written 8,5,7,6."""
    lengths = text.split(",")
    require(
        len(lengths) == len(MODULES) and all(n.strip().isdecimal() for n in lengths),
        f"mantissas are four numbers such as 8,5,7,6, not {text!r}",
    )
    chosen = Mantissas(*(int(n) for n in lengths))
    for name in MODULES:
        length = getattr(chosen, name)
        require(1 <= length <= 16, f"a mantissa has 1..16 bits, not {length}")
    return chosen


def _integers(linear: Linear) -> Weights:
    assert linear.integers is not None
    return linear.integers


def _fp16(values: Floats) -> NDArray[np.uint16]:
    return values.astype(np.float16).view(np.uint16)
