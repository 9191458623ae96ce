"""Models that were quantised elsewhere, packed as they are."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

if any(find_spec(name) is None for name in ("torch", "transformers", "gguf")):
    pytest.skip("PyTorch, Transformers or gguf, optional extras, missing", allow_module_level=True)

import gguf
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.support.gguf_files import gguf_writer, halves, neighbours
from tests.support.sparamx import dense_values
from tests.support.tiny_shape import SHAPE
from tilewright.cli import main
from tilewright.golden.bits import decode
from tilewright.golden.params.formats import BF16
from tilewright.kernels.checkpoints import convert
from tilewright.kernels.quantised import FORMS, from_blocks
from tilewright.kernels.sources import CheckpointError
from tilewright.kernels.torch_layers import SparseLinear

CONFIG = LlamaConfig(**SHAPE)
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def made_anew(seed=0):
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)


def linears(model):
    """Layers that are quantised: all but the head."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and name != "lm_head"
    }


def compressed(kind):
    """Tensors of compressed-tensors for random layers, and the weights that they stand for."""
    rng, model, tensors = np.random.default_rng(1), made_anew(), {}
    for name, layer in linears(model).items():
        outputs, inputs = layer.weight.shape
        codes = rng.integers(0, 16, (outputs, inputs)).astype(np.uint8)
        if kind == "nvfp4":
            halves = torch.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4)
            scales = (torch.rand(outputs, inputs // 16) * 400).to(torch.float8_e4m3fn)
            divisor = torch.tensor([8000.0])
            tensors[f"{name}.weight_packed"] = halves
            tensors[f"{name}.weight_global_scale"] = divisor
            numbers = torch.from_numpy(decode(BF16, np.array(FORMS["nvfp4"], np.uint16))[codes])
            values = numbers * scales.double().repeat_interleave(16, 1) / 8000
        else:
            words = codes.reshape(outputs, -1, 8).astype(np.uint32) << 4 * np.arange(8)
            packed = words.sum(-1).astype(np.uint32).view(np.int32)
            tensors[f"{name}.weight_packed"] = torch.from_numpy(packed)
            tensors[f"{name}.weight_shape"] = torch.tensor([outputs, inputs])
            scales = (torch.rand(outputs, inputs // 32) * 0.02).to(torch.bfloat16)
            numbers = torch.from_numpy(codes.astype(np.float64) - 8)
            values = numbers * scales.double().repeat_interleave(32, 1)
        tensors[f"{name}.weight_scale"] = scales
        layer.weight.data = values.float()
    for name, tensor in model.state_dict().items():
        if name.removesuffix(".weight") not in linears(model):
            tensor.copy_(tensor.bfloat16())
            tensors[name] = tensor.bfloat16().clone()
    return tensors, model


def folder_of(path, tensors, method="compressed-tensors"):
    path.mkdir()
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    settings = CONFIG.to_dict() | {"quantization_config": {"quant_method": method}}
    (path / "config.json").write_text(
        json.dumps(settings | {"architectures": ["LlamaForCausalLM"]})
    )
    return path


def agree(packed, model):
    """Whether packed weights are those of the model, and logits up to bf16 activations."""
    sparse = AutoModelForCausalLM.from_pretrained(packed, dtype=torch.bfloat16).eval()
    weights = {name: layer.weight.detach().numpy() for name, layer in linears(model).items()}
    for place in range(CONFIG.num_hidden_layers):
        layer, prefix = sparse.model.layers[place], f"model.layers.{place}."
        joined = np.concatenate([weights[f"{prefix}self_attn.{n}_proj"] for n in "qkv"])
        gates = [weights[f"{prefix}mlp.{n}_proj"].reshape(-1, 16, 64) for n in ("gate", "up")]
        for packed_layer, wanted in (
            (layer.self_attn.qkv_proj, joined),
            (layer.self_attn.o_proj, weights[f"{prefix}self_attn.o_proj"]),
            (layer.mlp.gate_up_proj, np.stack(gates, 1).reshape(-1, 64)),
            (layer.mlp.down_proj, weights[f"{prefix}mlp.down_proj"]),
        ):
            values = dense_values(packed_layer.prepared().matrix.coded)
            np.testing.assert_allclose(values, wanted, rtol=1e-6)
    with torch.inference_mode():
        got, wanted = sparse(IDS).logits.float(), model(IDS).logits
    return float((got - wanted).norm() / wanted.norm()) < 0.03


@pytest.mark.parametrize("kind", ["nvfp4", "w4a16"])
def test_folders_of_compressed_tensors(kind, tmp_path, capsys):
    tensors, model = compressed(kind)
    folder = folder_of(tmp_path / "in", tensors)
    arguments = ["kernels", "sparsify", str(folder), "-o", str(tmp_path / "out"), "--json"]
    assert main(arguments) == 0
    layers = 4 * CONFIG.num_hidden_layers
    assert json.loads(capsys.readouterr().out)["layers"] == {kind: layers, "bf16": 1}
    assert agree(tmp_path / "out", model)
    assert main([*arguments[:-2], str(tmp_path / "other"), "--form", "bf16"]) == 2
    assert "is quantised already" in capsys.readouterr().err


def blocks_of(weights, kind):
    """A tensor in blocks of llama.cpp; those without an encoder in gguf have random codes."""
    try:
        return gguf.quants.quantize(weights, kind)
    except NotImplementedError:
        size = gguf.quant_shape_to_byte_shape(weights.shape, kind)
        data = np.random.default_rng(2).integers(0, 256, size).astype(np.uint8)
        blocks = data.reshape(-1, 18)
        blocks[:, 0], blocks[:, 1] = np.arange(len(blocks)), 0x14  # steps of about 2^-10
        return data


@pytest.mark.parametrize("kind", ["Q4_0", "IQ4_NL", "MXFP4"])
def test_files_of_llama_cpp(kind, tmp_path, monkeypatch):
    kind = gguf.GGMLQuantizationType[kind]
    model, path = made_anew(), tmp_path / "model.gguf"
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, CONFIG.num_hidden_layers)
    with gguf_writer(path, CONFIG, CONFIG.rms_norm_eps) as writer:
        writer.add_vocab_size(CONFIG.vocab_size)
        writer.add_rope_dimension_count(CONFIG.head_dim)
        for name, tensor in model.state_dict().items():
            layer, _, suffix = name.rpartition(".")
            stored, values = f"{names.get_name(layer)}.{suffix}", tensor.numpy()
            if layer not in linears(model):
                tensor.copy_(tensor.bfloat16())
                writer.add_tensor(stored, tensor.numpy())
                continue
            turned = layer.endswith(("q_proj", "k_proj"))
            if turned:
                values = np.ascontiguousarray(neighbours(values, CONFIG.head_dim))
            data = blocks_of(values, kind)
            decoded = gguf.quants.dequantize(data, kind)
            decoded = halves(decoded, CONFIG.head_dim) if turned else decoded
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(decoded).reshape(tensor.shape)))
            writer.add_tensor(stored, data, raw_dtype=kind)
    monkeypatch.setattr("tilewright.kernels.sources.GgufFile.copy_rest", lambda *_: None)
    layers = convert(path, tmp_path / "out")
    forms = [layer["form"] for layer in layers.values()]
    assert forms.count(kind.name.lower()) == 4 * CONFIG.num_hidden_layers
    assert forms.count("bf16") == 1
    assert agree(tmp_path / "out", model)


def test_other_methods_are_refused(tmp_path):
    tensors, _ = compressed("w4a16")
    with pytest.raises(CheckpointError, match=r"is quantised by gptq; only compressed-tensors"):
        convert(folder_of(tmp_path / "a", tensors, "gptq"), tmp_path / "out")
    name = "model.layers.0.mlp.down_proj.weight"
    tensors[f"{name}_zero_point"] = torch.zeros(1)
    with pytest.raises(CheckpointError, match=r"mlp.down_proj has a zero_point, which no kernel"):
        convert(folder_of(tmp_path / "b", tensors), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unlike_scales_do_not_go_together():
    layers = [torch.nn.Linear(32, 16, bias=False) for _ in range(2)]
    alike = from_blocks("q4_0", np.zeros((16, 18), np.uint8))
    other = alike._replace(scale="e4m3", tensor_scale=0.5)
    with pytest.raises(ValueError, match=r"tensor scales of 1 and 0\.5$"):
        SparseLinear.of_quantised(layers, [alike, other])
    with pytest.raises(ValueError, match="are q4_0 and iq4_nl"):
        SparseLinear.of_quantised(layers, [alike, alike._replace(form="iq4_nl")])
