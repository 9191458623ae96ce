"""Operands of one decoder layer's products, from real text.

Activations are the inputs of each linear module, in full precision, for the last tokens of a text,
as fp16; weights are int4 by ``tilewright.golden.llm.weights``. Biases are left out.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.sites import Floats, Format, Site
from tilewright.golden.llm.weights import searched_weights
from tilewright.golden.params.block import require
from tilewright.golden.weights import Weights

MODULES = {  # name, as in ``Mantissas`` -> site of its activations, its projections
    "qkv": (Site.A_QKV, ("query", "key", "value")),
    "o": (Site.A_O, ("output",)),
    "u": (Site.A_U, ("gate", "up")),
    "d": (Site.A_D, ("down",)),
}


@dataclass(frozen=True, eq=False)
class Module:
    """A linear module: fp16 patterns (tokens, inputs) and the projections that multiply them."""

    activations: NDArray[np.uint16]
    weights: dict[str, NDArray[np.float32]]  # as the model's file has them
    integers: dict[str, Weights]  # the same as int4


class _Recorder(Format):
    def __init__(self, layer: int):
        self._layer = layer
        self.seen: dict[Site, NDArray[np.uint16]] = {}

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        if layer == self._layer and site.is_linear:
            self.seen[site] = values.astype(np.float16).view(np.uint16)
        return values


def captured(model: Model, tokens: ArrayLike, layer: int, count: int) -> dict[str, Module]:
    """The modules of ``layer`` for the last ``count`` of the tokens, which calibrate weights."""
    ids = np.asarray(tokens)
    layers = len(model.layers)
    require(0 <= layer < layers, f"layer must be 0..{layers - 1}, not {layer!r}")
    require(1 <= count <= len(ids), f"{count} tokens of a text that has {len(ids)}")
    model = replace(model, layers=model.layers[: layer + 1])  # later layers have no influence
    recorder = _Recorder(layer)
    Session(model, recorder).feed(ids)
    file = model.layers[layer].linears
    small = searched_weights(model, layer, ids)
    modules = {}
    for module, (site, parts) in MODULES.items():
        names = [part for part in parts if part in file]
        modules[module] = Module(
            recorder.seen[site][-count:],
            {name: file[name].weight for name in names},
            {name: small[name] for name in names},
        )
    return modules


def layer_alone(model: Model, tokens: ArrayLike, layer: int) -> Model:
    """A model of one layer whose vocabulary is a text: word t is token t's input of the layer."""
    ids = np.asarray(tokens)
    layers = len(model.layers)
    require(0 <= layer < layers, f"layer must be 0..{layers - 1}, not {layer!r}")
    inputs = Session(replace(model, layers=model.layers[:layer])).hidden(ids)
    config = replace(model.config, num_hidden_layers=1, vocab_size=len(ids))
    return replace(
        model, config=config, layers=(model.layers[layer],), embedding=inputs, head=inputs
    )
