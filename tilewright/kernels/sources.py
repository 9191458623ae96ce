"""Models on disk, read a tensor at a time: folders of Hugging Face, and GGUF files.

Both may be quantised: folders by compressed-tensors (int4 in groups, NVFP4), files in blocks.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tilewright.kernels.quantised import BLOCKS, Quantised, from_blocks, nvfp4, w4a16

SCALES = {torch.float16: "fp16", torch.bfloat16: "bf16"}


class CheckpointError(ValueError):
    """A model that cannot be read; the text says why."""


def open_source(path: Path) -> Folder | GgufFile:
    return GgufFile(path) if path.suffix == ".gguf" else Folder(path)


class Folder:
    """A folder of safetensors files."""

    def __init__(self, folder: Path):
        files = sorted(folder.glob("*.safetensors"))
        if not (folder / "config.json").is_file():
            raise CheckpointError(f"{folder} has no config.json: not a model of Hugging Face")
        if not files:
            raise CheckpointError(f"{folder} has no .safetensors file")
        self.folder = folder
        self._where: dict[str, Path] = {}
        for path in files:
            try:
                with safe_open(path, framework="pt") as file:
                    self._where.update(dict.fromkeys(file.keys(), path))
            except SafetensorError as error:
                raise CheckpointError(f"{path} cannot be read: {error}") from error
        method = self.settings().get("quantization_config") or {}
        self.is_quantised = bool(method)
        if method and method.get("quant_method") != "compressed-tensors":
            raise CheckpointError(
                f"{folder} is quantised by {method.get('quant_method')}; only compressed-tensors"
                " is read"
            )

    def names(self) -> list[str]:
        return list(self._where)

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        return found

    def skeleton(self) -> Any:
        return _skeleton(AutoConfig.from_pretrained(self.folder))

    def tensor(self, name: str) -> Tensor:
        if name not in self._where:
            raise CheckpointError(f"the folder has no tensor {name}")
        with safe_open(self._where[name], framework="pt") as file:
            return file.get_tensor(name)

    def quantised(self, name: str) -> tuple[Quantised | None, list[str]]:
        """The layer ``name`` as it was quantised, if it was, and the tensors it is made of."""
        layer = name.removesuffix(".weight")
        names = [n for n in self._where if n.startswith(f"{layer}.") and not n.endswith(".bias")]
        if f"{name}_packed" not in names:
            return None, []
        for part in ("zero_point", "g_idx"):
            if f"{name}_{part}" in names:
                raise CheckpointError(f"{layer} has a {part}, which no kernel here takes")
        packed, scales = self.tensor(f"{name}_packed"), self.tensor(f"{name}_scale")
        if scales.dtype is torch.float8_e4m3fn and packed.dtype is torch.uint8:
            divisor = float(self.tensor(f"{name}_global_scale"))
            return nvfp4(packed.numpy(), scales.view(torch.uint8).numpy(), divisor), names
        if packed.dtype is torch.int32 and scales.dtype in SCALES:
            _, inputs = self.tensor(f"{name}_shape").tolist()
            patterns = scales.view(torch.int16).numpy().view(np.uint16)
            return w4a16(packed.numpy(), patterns, SCALES[scales.dtype], inputs), names
        raise CheckpointError(
            f"{layer}: no kernel here takes {packed.dtype} with {scales.dtype} scales"
        )

    def copy_rest(self, target: Path) -> None:
        """Copy all that is no weight and is not there yet."""
        for path in self.folder.iterdir():
            is_weight = path.name.endswith((".safetensors", ".bin", ".pth", ".gguf", ".index.json"))
            if path.is_file() and not is_weight and not (target / path.name).exists():
                shutil.copy2(path, target / path.name)


class GgufFile:
    """A file of llama.cpp, by the names of Hugging Face."""

    is_quantised = True

    def __init__(self, path: Path):
        try:
            import gguf
        except ImportError as error:
            raise CheckpointError("reading GGUF takes: pip install 'tilewright[gguf]'") from error
        if not path.is_file():
            raise CheckpointError(f"{path} does not exist")
        self.path = path
        try:
            reader = gguf.GGUFReader(path)
        except (ValueError, IndexError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._dequantise = gguf.quants.dequantize
        self._config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
        field = reader.get_field("general.architecture")
        architecture = str(field.contents()) if field else ""
        arch = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}.get(architecture)
        if arch is None:
            raise CheckpointError(f"{path}: unknown architecture {architecture!r}")
        self._permuted = architecture == "llama"  # whose queries and keys llama.cpp reorders
        names = gguf.get_tensor_name_map(arch, self._config.num_hidden_layers)
        self._stored: dict[str, str] = {}
        for name in self.skeleton().state_dict():
            layer, _, kind = name.rpartition(".")
            stored = f"{names.get_name(layer)}.{kind}"
            if stored in self._tensors:
                self._stored[name] = stored

    def names(self) -> list[str]:
        return list(self._stored)

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self._config.to_dict()
        return found

    def skeleton(self) -> Any:
        return _skeleton(self._config)

    def tensor(self, name: str) -> Tensor:
        """A tensor in bf16; blocks are decoded and rounded."""
        if name not in self._stored:
            raise CheckpointError(f"the file has no tensor {name}")
        found = self._tensors[self._stored[name]]
        values = np.array(self._dequantise(found.data, found.tensor_type), np.float32)
        order = self._order(name, len(values))
        return torch.from_numpy(values if order is None else values[order]).to(torch.bfloat16)

    def quantised(self, name: str) -> tuple[Quantised | None, list[str]]:
        found = self._tensors.get(self._stored.get(name, ""))
        form = found.tensor_type.name.lower() if found is not None else ""
        if found is None or form not in BLOCKS:
            return None, []
        rows = from_blocks(form, np.asarray(found.data))
        order = self._order(name, len(rows.codes))
        return rows if order is None else rows.rows(order), [name]

    def _order(self, name: str, rows: int) -> NDArray[np.int64] | None:
        """The rows in the order of Hugging Face, whose rotary halves are not interleaved."""
        if not self._permuted or not (".q_proj." in name or ".k_proj." in name):
            return None
        heads = self._config.num_attention_heads
        if ".k_proj." in name:
            heads = self._config.num_key_value_heads
        return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)

    def copy_rest(self, target: Path) -> None:
        AutoTokenizer.from_pretrained(self.path.parent, gguf_file=self.path.name).save_pretrained(
            target
        )


def _skeleton(config: Any) -> Any:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
