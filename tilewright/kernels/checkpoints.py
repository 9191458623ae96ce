"""Packed models as folders of Hugging Face: written, read, and converted piece by piece.

Importing this module teaches Transformers the form: ``from_pretrained`` then loads a packed folder
as it loads any other. ``config.json`` lists the packed layers under ``quantization_config``.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from tilewright.kernels.forms import METHOD, check_form
from tilewright.kernels.models import Site, fuse_small_steps, sites
from tilewright.kernels.sources import CheckpointError, open_source
from tilewright.kernels.torch_layers import SparseLinear, settled

SHARD_BYTES = 2 << 30  # of weights in one file: what a conversion keeps in memory


def describe(model: nn.Module) -> dict[str, dict[str, Any]]:
    """The packed layers of a model by name: what is needed to make room for them again."""
    return {
        name: describe_layer(layer)
        for name, layer in model.named_modules()
        if isinstance(layer, SparseLinear)
    }


def describe_layer(layer: SparseLinear) -> dict[str, Any]:
    return {
        "form": layer.form,
        "shape": [layer.out_features, layer.in_features],
        "gated": layer.gated,
        "bytes": {name: part.numel() for name, part in layer.named_parts()},
        "scales": layer.scales is not None,
        "bias": layer.bias is not None,
    }


@register_quantization_config(METHOD)
class SparseConfig(QuantizationConfigMixin):
    """The entry of ``config.json`` for the packed layers."""

    def __init__(self, layers: dict[str, dict[str, Any]], **_: Any):
        self.quant_method = METHOD
        self.layers = layers


class SparseLoader(HfQuantizer):
    """Makes room for packed layers before Transformers loads them."""

    requires_calibration = True  # packed already: nothing is packed while loading

    def _process_model_before_weight_loading(self, model: nn.Module, **_: Any) -> nn.Module:
        with torch.device("meta"):
            make_room(model, self.quantization_config.layers)
        return model

    def _process_model_after_weight_loading(self, model: nn.Module, **_: Any) -> nn.Module:
        for layer in model.modules():
            if isinstance(layer, SparseLinear):
                for name, part in list(layer.named_parts()):
                    layer._buffers[name] = settled(part)
        return model

    def is_serializable(self, **_: Any) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False

    @property
    def is_compileable(self) -> bool:
        return True


register_quantizer(METHOD)(SparseLoader)  # a call: documentation reads the class itself


def make_room(model: nn.Module, layers: dict[str, dict[str, Any]]) -> None:
    """Replace the layers that are named by empty packed ones."""
    for site in places(model, layers):
        about = layers[site.name]
        outputs, inputs = about["shape"]
        parts = {n: torch.empty(size, dtype=torch.uint8) for n, size in about["bytes"].items()}
        scales, bias = (
            torch.empty(outputs, dtype=torch.float32) if about[name] else None
            for name in ("scales", "bias")
        )
        packed = SparseLinear(
            about["form"], (outputs, inputs), parts, scales, bias, gated=about["gated"]
        )
        site.put(packed)
    fuse_small_steps(model)


def places(model: nn.Module, layers: dict[str, dict[str, Any]]) -> Iterator[Site]:
    """Where the named layers go in a model that has none of them yet."""
    found = set()
    for site in list(sites(model)):
        prefix = site.name[: -len(site.new)]
        apart = [Site(prefix + key, site.parent, (key,), key) for key in site.keys]
        for place in [site] if site.name in layers else apart:
            if place.name in layers:
                found.add(place.name)
                yield place
    missing = sorted(set(layers) - found)
    if missing:
        raise CheckpointError(f"the model has no place for the packed layer {missing[0]}")


# --- conversion


def convert(
    source: Path,
    target: Path,
    sparsity: float | None = None,
    form: str | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> dict[str, dict[str, Any]]:
    """Pack a model of Hugging Face, or a GGUF file, into a folder; returns a description of layers.

    A model that is quantised already stays as it is: layers of ``tilewright.kernels.quantised``
    have their codes and scales, others are bf16. Others are pruned to ``sparsity``, by default 0.5,
    and packed in ``form``, by default bf16.

    Weights are read layer by layer, so that no more than a file's worth of packed ones is in
    memory. ``target`` appears complete or not at all. ``progress`` is told the name of each tensor
    that is read.
    """
    check_form(form or "bf16")
    if target.exists():
        raise CheckpointError(f"{target} exists already: name another folder, or remove it")
    reader = open_source(source)
    if reader.is_quantised and (sparsity is not None or form is not None):
        raise CheckpointError(f"{source} is quantised already: it takes no sparsity and no form")
    sparsity = 0.5 if sparsity is None and not reader.is_quantised else sparsity
    model = reader.skeleton()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        folder = Path(scratch) / target.name
        folder.mkdir()
        writer = Writer(folder)
        layers: dict[str, dict[str, Any]] = {}
        known = {name.removesuffix("_packed") for name in reader.names()}
        tied = {"lm_head.weight": "model.embed_tokens.weight"}
        used = set[str]()

        def stored(name: str) -> str:
            return name if name in known else tied.get(name, name)

        def note(name: str) -> None:
            used.add(name)
            progress(name)

        def read(name: str) -> nn.Parameter:
            if name in known:
                note(name)
            return nn.Parameter(reader.tensor(stored(name)), requires_grad=False)

        for site in list(sites(model)):
            prefix = site.name[: -len(site.new)]
            parts = []
            for key, layer in zip(site.keys, site.layers(), strict=True):
                name = f"{prefix}{key}.weight"
                part, made_of = reader.quantised(stored(name))
                if part is not None:
                    parts.append(part)
                for found in made_of if name in known else ():
                    note(found)
                if layer.bias is not None:
                    layer.bias = read(f"{prefix}{key}.bias")
            if len(parts) == len(site.keys):
                packed = SparseLinear.of_quantised(site.layers(), parts, gated=site.gated)
            else:
                for key, layer in zip(site.keys, site.layers(), strict=True):
                    layer.weight = read(f"{prefix}{key}.weight")
                packed = SparseLinear.of(site.layers(), sparsity, form or "bf16", gated=site.gated)
            layers[site.name] = describe_layer(packed)
            for name, tensor in packed.state_dict().items():
                writer.add(f"{site.name}.{name}", tensor)
            for layer in site.layers():
                layer.weight = None
        for name in reader.names():
            if name not in used:
                progress(name)
                writer.add(name, reader.tensor(name))
        writer.close()
        settings = reader.settings()
        settings["quantization_config"] = SparseConfig(layers).to_dict()
        settings["tie_word_embeddings"] = False  # the packed head is not the embedding
        (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
        reader.copy_rest(folder)
        folder.rename(target)
    return layers


class Writer:
    """Tensors into files of about ``SHARD_BYTES`` each, with the index that Transformers reads."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._shard: dict[str, Tensor] = {}
        self._index: dict[str, str] = {}
        self._bytes = self._total = 0

    def add(self, name: str, tensor: Tensor) -> None:
        size = tensor.numel() * tensor.element_size()
        if self._shard and self._bytes + size > SHARD_BYTES:
            self._write()
        self._shard[name] = tensor.contiguous()
        self._bytes += size
        self._total += size

    def close(self) -> None:
        self._write()
        index = {"metadata": {"total_size": self._total}, "weight_map": self._index}
        path = self.folder / "model.safetensors.index.json"
        path.write_text(json.dumps(index, indent=2) + "\n")

    def _write(self) -> None:
        number = len(set(self._index.values())) + 1
        name = f"model-{number:05d}.safetensors"
        save_file(self._shard, self.folder / name, metadata={"format": "pt"})
        self._index.update(dict.fromkeys(self._shard, name))
        self._shard, self._bytes = {}, 0
