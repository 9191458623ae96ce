"""A language model on a CPU with AMX and a DECA at every core, bit for bit where tiles matter.

Every projection, and the vocabulary head, is compressed tile by tile, decompressed by the DECA
golden model, and multiplied by bf16 activations in the order of AMX's tile multiplications. Between
the products the engine computes in float32, as a CPU's vector units would.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.golden.bits import encode
from tilewright.golden.deca.decompression import decompress_tiles
from tilewright.golden.deca.matrix import CompressedMatrix, NonFiniteWeightError, compress, restore
from tilewright.golden.deca.packed import PackedModel
from tilewright.golden.deca.scheme import Scheme, resolve_scheme
from tilewright.golden.deca.tile_gemm import TileProduct
from tilewright.golden.llm.assemble import Reader, Tensors, assemble
from tilewright.golden.llm.folder import FLOATS, names_of
from tilewright.golden.llm.model import Chat, Linear, Model, ModelError
from tilewright.golden.llm.sites import Floats, Format, Site
from tilewright.golden.llm.tokenizer import tokenizer_data, tokenizer_of
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.llm import OPT_POSITION_OFFSET, LlmShape

HEAD = "head"
Tick = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """How weights lie in memory: a scheme of DECA, and the share of them that is stored."""

    scheme: Scheme
    density: float | None = None  # None: what the scheme keeps

    def __post_init__(self) -> None:
        require(
            not self.scheme.config.int8,
            f"{self.scheme.name}: int8 tiles need activations of 8 bits, whose scales no model file"
            " has; schemes of bf16 tiles are mxfp4, bf8, int4, nf4 and others",
        )


def compressed_model(
    model: Model, layers: Storage, head: Storage, tick: Tick = lambda _: None
) -> dict[str, CompressedMatrix]:
    """All matrices of a model by name: ``layers.3.query``, ..., and ``head``."""
    found = {}

    def add(name: str, weights: Floats, how: Storage) -> None:
        tick(name)
        try:
            found[name] = compress(weights, how.scheme, how.density)
        except NonFiniteWeightError as error:
            raise ModelError(f"{model.name}: {name}: {error}") from None

    for number, layer in enumerate(model.layers):
        for name, linear in layer.linears.items():
            add(f"layers.{number}.{name}", linear.weight, layers)
    add(HEAD, model.head, head)
    return found


def about_model(model: Model) -> dict[str, Any]:
    """JSON data of a packed file besides its tensors, for :func:`read_packed`."""
    factors = model.rope_factors
    return {
        "shape": asdict(model.config),
        "tokenizer": tokenizer_data(model.tokenizer),
        "chat": asdict(model.chat),
        "start": model.start,
        "rope_factors": None if factors is None else factors.tolist(),
    }


def read_packed(
    path: Path, tick: Tick = lambda _: None
) -> tuple[Model, dict[str, CompressedMatrix]]:
    """The model of a packed file and its matrices; uncompressed ones become bf16 tiles."""
    found: dict[str, CompressedMatrix] = {}
    readers: dict[str, Reader] = {}
    with PackedModel(path) as packed:
        about = packed.about
        if about is None:
            raise ModelError(
                f"{path}: tensors alone, without the model's shape and tokenizer; pack a Hugging"
                " Face folder or a GGUF file of the LLaMA family"
            )
        for name, tensor in packed.tensors.items():
            if name.endswith("rotary_emb.inv_freq"):
                continue
            tick(name)
            if tensor.scheme is None:
                raw = np.concatenate([*packed.kept(name), np.empty(0, np.uint8)])
                values = FLOATS[tensor.dtype](raw).reshape(tensor.shape)
            else:
                found[name] = packed.matrix(name)
                Storage(scheme=found[name].scheme)  # which refuses int8
                values = restore(found[name]).reshape(tensor.shape)
            readers[name] = values.__getitem__
    shape = LlmShape(**about["shape"])
    names = names_of(shape.model_type)
    factors = about["rope_factors"]
    made = assemble(
        shape,
        names,
        Tensors(path, readers),
        tied=shape.tie_word_embeddings,
        tokenizer=tokenizer_of(about["tokenizer"]),
        start=about["start"],
        chat=Chat.of(about["chat"]),
        rope_factors=None if factors is None else np.array(factors, np.float32),
        position_offset=OPT_POSITION_OFFSET if names.positions else 0,
    )
    model = replace(made, name=shape.name, config=shape)
    head = names.embedding if model.head is model.embedding else names.head
    wanted = {HEAD: (f"{head}.weight", model.head)}
    for number, layer in enumerate(model.layers):
        for part, linear in layer.linears.items():
            name = f"{names.layer.format(number)}{getattr(names, part)}.weight"
            wanted[f"layers.{number}.{part}"] = name, linear.weight
    plain = resolve_scheme("bf16")
    return model, {
        own: found[name] if name in found else compress(weights, plain)
        for own, (name, weights) in wanted.items()
    }


class DecaFormat(Format):
    """Products with a model's compressed matrices; the engine does everything else."""

    def __init__(self, model: Model, matrices: dict[str, CompressedMatrix]):
        self._products: dict[int, TileProduct] = {}  # by the identity of the projection
        self._linears = model  # keeps these identities alive
        for number, layer in enumerate(model.layers):
            for name, linear in layer.linears.items():
                self._products[id(linear)] = tile_product(matrices[f"layers.{number}.{name}"])
        self._head = tile_product(matrices[HEAD])

    def multiply(self, site: Site, layer: int, values: Floats, linear: Linear) -> Floats:
        result = self._product(linear, values)
        if linear.bias is not None:
            result += linear.bias
        return result

    def head(self, values: Floats, weights: Floats) -> Floats:
        """Logits (1, vocabulary) of the last token alone."""
        return times(self._head, values[-1:])

    def _product(self, linear: Linear, values: Floats) -> Floats:
        return times(self._products[id(linear)], values)


def tile_product(matrix: CompressedMatrix) -> TileProduct:
    """A matrix's tiles, decompressed by the golden model, ready to be multiplied."""
    tiles = decompress_tiles(matrix.scheme.lut_image(), matrix.tiles)
    return TileProduct(matrix.scheme.config, matrix.shape, tiles)


def times(product: TileProduct, values: Floats) -> Floats:
    """(T, inputs) -> (T, outputs) of float32; activations are rounded to bf16."""
    patterns = np.ascontiguousarray(encode(BF16, values).T)
    return np.ascontiguousarray(product(patterns).T).view(np.float32)
