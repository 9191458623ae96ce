"""Models of Transformers made sparse, saved and loaded; runs where PyTorch and it are installed."""

import copy
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch") is None or find_spec("transformers") is None:
    pytest.skip("PyTorch or Transformers, optional extras, missing", allow_module_level=True)

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config

from benchmarks.kernels.models import QUICK, run
from tests.support.examples import blocks
from tests.support.smollm2 import smollm2_or_skip
from tests.support.tiny_shape import SHAPE
from tilewright.cli import main
from tilewright.kernels.checkpoints import CheckpointError, convert
from tilewright.kernels.models import sparsify
from tilewright.kernels.operators import norm, rms_norm, rotate_
from tilewright.kernels.records import token_summary
from tilewright.kernels.torch_layers import SparseLinear, pruned_bits

pytestmark = [
    pytest.mark.filterwarnings("ignore:mkldnn_matmul failed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PAGE = Path(__file__).parents[2] / "docs" / "sparamx.md"
CONFIGS = {
    "llama": LlamaConfig(**SHAPE),
    "mistral": MistralConfig(**SHAPE),
    "qwen2": Qwen2Config(**SHAPE, tie_word_embeddings=True),  # biases; the head is the embedding
}
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


@pytest.fixture(params=CONFIGS)
def folder(request, tmp_path):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[request.param], dtype=torch.bfloat16)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(tmp_path / "dense")
    return tmp_path / "dense"


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def with_dense_zeros(model, sparsity=0.5):
    """The same weights pruned, in stock layers."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            bits = pruned_bits(layer.weight.data, sparsity)
            weight = torch.from_numpy(bits.view("int16")).view(torch.bfloat16)
            layer.weight = torch.nn.Parameter(weight)
    return model


def logits(model):
    with torch.inference_mode():
        return model(IDS).logits.float()


def text(model, **options):
    return model.generate(IDS, max_new_tokens=12, do_sample=False, **options)


def test_text_is_that_of_dense_zeros(folder):
    sparse, dense = sparsify(load(folder), 0.5), with_dense_zeros(load(folder))
    expected = logits(dense)
    assert (logits(sparse) - expected).abs().max() <= 2**-6 * expected.abs().max()
    assert torch.equal(text(sparse), text(dense))
    names = {
        name.rpartition(".")[2] for name, m in sparse.named_modules() if type(m) is SparseLinear
    }
    assert names == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head"}


@pytest.mark.parametrize("batch", [1, 3])
def test_joining_layers_changes_no_bit(folder, batch):
    joined, apart = sparsify(load(folder), 0.5), sparsify(load(folder), 0.5, fuse=False)
    ids = IDS.repeat(batch, 1)
    with torch.inference_mode():
        assert torch.equal(joined(ids).logits, apart(ids).logits)


@pytest.mark.parametrize("form", ["bf16", "int8", "mxfp4"])
def test_saved_and_loaded(folder, form):
    sparse = sparsify(load(folder), 0.5, form=form)
    sparse.save_pretrained(folder.parent / "saved")
    again = load(folder.parent / "saved")
    assert torch.equal(logits(again), logits(sparse))
    assert torch.equal(text(again), text(sparse))
    again.save_pretrained(folder.parent / "twice")
    assert torch.equal(logits(load(folder.parent / "twice")), logits(sparse))


def test_a_folder_is_packed_piece_by_piece(folder, capsys):
    (folder / "tokenizer.json").write_text("{}")
    target = folder.parent / "packed"
    arguments = ["kernels", "sparsify", str(folder), "-o", str(target), "--json"]
    assert main(arguments) == 0
    sizes = json.loads(capsys.readouterr().out)
    assert 0.5 < sizes["packed_bytes"] / sizes["bf16_bytes"] < 0.7
    assert (target / "tokenizer.json").exists()
    assert torch.equal(logits(load(target)), logits(sparsify(load(folder), 0.5)))
    assert main(arguments) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("exists already: name another folder, or remove it")
    )
    assert [path.name for path in folder.parent.iterdir()].count("packed") == 1


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"has no config.json: not a model of Hugging Face$"):
        convert(tmp_path, tmp_path / "out")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"has no .safetensors file$"):
        convert(tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="mxfp5"):
        convert(tmp_path, tmp_path / "out", form="mxfp5")
    assert not (tmp_path / "out").exists()


def test_generate_compiles_without_a_break(folder):
    torch.compiler.reset()  # how often a function may be compiled again counts from here
    sparse = sparsify(load(folder), 0.5)
    expected = text(sparse, cache_implementation="static", disable_compile=True)
    compiled = torch.compile(sparse, backend="aot_eager", fullgraph=True)
    with torch.inference_mode():
        assert torch.equal(compiled(IDS).logits, sparse(IDS).logits)
    assert torch.equal(text(sparse), expected)
    copied = copy.deepcopy(sparse)
    assert torch.equal(text(copied), expected)


def test_operators_have_the_bits_of_tensors():
    torch.manual_seed(2)
    x, weight = torch.randn(3, 5, 96), torch.randn(96)
    for dtype in (torch.bfloat16, torch.float32):
        a, w = x.to(dtype), weight.to(dtype)
        wide = a.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        expected = w * scaled.to(dtype)
        got = norm(a, w, 1e-5)
        assert torch.equal(rms_norm(a, w, 1e-5), got)
        # The order of the sum may move a rounding.
        assert (got.float() - expected.float()).abs().le(2**-7 * expected.float().abs()).all()
        angles = torch.rand(1, 5, 16) * 6
        angles[..., 8:] = angles[..., :8]
        cosines, sines = angles.cos().to(dtype), angles.sin().to(dtype)
        heads = a.view(3, 5, 6, 16)[:, :, :4]
        halves = torch.cat((-heads[..., 8:], heads[..., :8]), dim=-1)
        turned = heads * cosines.unsqueeze(2) + halves * sines.unsqueeze(2)
        expected = torch.cat([turned, a.view(3, 5, 6, 16)[:, :, 4:]], dim=2).view(3, 5, 96)
        b = a.clone()
        rotate_(b, cosines, sines, 4)
        assert torch.equal(b, expected)


def test_example_of_the_page(folder, capsys):
    (program,) = blocks(PAGE.read_text(), "py")
    packed = folder.parent / "packed"
    program = program.replace("MODEL_DIR", str(folder)).replace("PACKED_DIR", str(packed))
    exec(compile(program, PAGE.name, "exec"), {})
    assert "tensor(" in capsys.readouterr().out
    assert torch.equal(text(load(packed)), text(sparsify(load(folder))))


@pytest.mark.full
@pytest.mark.skipif(find_spec("accelerate") is None, reason="Transformers reads GGUF with it")
def test_smollm2_writes_the_same_text_as_with_dense_zeros():
    """Real weights, half of them zero; on the portable path this takes minutes.

    What the same weights give in fp32 is the measure. Without half of its weights this model makes
    much of little: bf16 embeddings that are changed in their last bit move its logits by as much as
    bf16 itself does. So the sparse model must be about as near to fp32 as stock layers are that got
    such embeddings, and may write another token only where fp32 has the two nearer to each other
    than it is to fp32 there. What the layers themselves add, the next test says.
    """
    model, dense = smollm2_with_dense_zeros()
    exact = torch.nn.Module.float(copy.deepcopy(dense))  # its own refuses: the file was packed
    sparse = sparsify(model, 0.5)
    expected, written = text(exact), text(sparse)
    with torch.inference_mode():
        reference, ours = (m(expected).logits[0].float() for m in (exact, sparse))
        table, stock_off = dense.get_input_embeddings().weight, []
        for seed in range(4):
            noise = torch.rand(table.shape, generator=torch.Generator().manual_seed(seed))
            table.copy_(exact.get_input_embeddings().weight * (1 + (noise - 0.5) * 2.0**-7))
            stock_off.append((dense(expected).logits[0].float() - reference).pow(2).mean())
    off = ours - reference
    assert off.pow(2).mean() <= 2 * max(stock_off)
    assert off.pow(2).mean() <= reference.var() / 8  # another model's would be off by twice that
    parted = (written != expected)[0].nonzero()
    if len(parted):
        at = int(parted[0, 0])
        one, other = (reference[at - 1, tokens[0, at]] for tokens in (written, expected))
        assert abs(one - other) <= 2 * off[at - 1].abs().max()


@pytest.mark.full
@pytest.mark.skipif(find_spec("accelerate") is None, reason="Transformers reads GGUF with it")
def test_layers_of_smollm2_give_the_nearest_bf16():
    """On what they get in the model: all but one output of a thousand, and those by one place."""
    _, dense = smollm2_with_dense_zeros()
    seen = {}
    for name in (f"{k}.{part}" for k in (0, 29) for part in ("self_attn.o_proj", "mlp.down_proj")):
        layer = dense.get_submodule(f"model.layers.{name}")
        layer.register_forward_hook(lambda layer, given, _: seen.update({layer: given[0]}))
    with torch.inference_mode():
        dense(IDS)
        for layer, given in seen.items():
            exact = given[0].double() @ layer.weight.double().T
            got, nearest = SparseLinear.of([layer], None, "bf16")(given)[0], exact.bfloat16()
            assert (got != nearest).float().mean() < 1e-3
            assert ((got.double() - exact).abs() <= 2.0**-7 * exact.abs() + 1e-6).all()
    assert len(seen) == 4


def smollm2_with_dense_zeros():
    """SmolLM2 as it is and with half of its weights zero, both in stock layers of bf16."""
    path = smollm2_or_skip()
    options = {"gguf_file": path.name, "dtype": torch.bfloat16}
    model = AutoModelForCausalLM.from_pretrained(path.parent, **options).eval()
    return model, with_dense_zeros(copy.deepcopy(model))


def test_bench_of_a_toy():
    record = {}
    for _, part in run(QUICK):
        record |= part
    assert {row["model"] for row in record["decode"]} == {
        *("stock bf16", "sparse bf16", "sparse int8", "dense int8"),
        *("sparse bf8", "dense mxfp4", "sparse mxfp4"),
    }
    assert len(record["long_context"]) == 4 and len(record["sparsity"]) == 3
    for row in token_summary(record):
        assert row.seconds > 0 and 0 < row.rest_share < 1
    assert json.loads(json.dumps(record)) == record
