"""Sparse layers inside PyTorch models; runs where the optional extra ``torch`` is installed."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("torch") is None:
    pytest.skip("PyTorch, an optional extra, is not installed", allow_module_level=True)

import torch
from torch import nn

from tilewright.golden.bits import decode, encode
from tilewright.golden.params.formats import BF16, FP32
from tilewright.golden.params.sparamx import WeightFormat
from tilewright.golden.sparamx import multiply, pack
from tilewright.kernels import default_threads
from tilewright.kernels.library import shares_pool
from tilewright.kernels.models import sparsify
from tilewright.kernels.torch_layers import SparseLinear, pruned_bits

# A processor without bf16 says so at the first product; others have nothing to say.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")

WORDS, WIDTH, HIDDEN = 50, 64, 96


def model(seed=0):
    """Layers with biases and without, one after the other."""
    torch.manual_seed(seed)
    layers = [
        part
        for bias in (False, True)
        for part in (nn.Linear(WIDTH, HIDDEN, bias), nn.SiLU(), nn.Linear(HIDDEN, WIDTH, bias))
    ]
    head = nn.Linear(WIDTH, WORDS, bias=False)
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers, head).to(torch.bfloat16).eval()


def dense_twin(sparsity):
    """The same model with pruned weights and stock layers."""
    twin = model()
    for layer in twin.modules():
        if isinstance(layer, nn.Linear):
            pruned = torch.from_numpy(pruned_bits(layer.weight.data, sparsity).view(np.int16))
            layer.weight.data = pruned.view(torch.bfloat16)
    return twin


TOKENS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])


@pytest.mark.parametrize("tokens", [TOKENS, TOKENS[:1]])
def test_logits_are_those_of_the_pruned_model(tokens):
    """Within what bf16 roundings between the layers allow: sums are ordered differently."""
    sparse, dense = sparsify(model(), 0.5), dense_twin(0.5)
    with torch.inference_mode():
        got, expected = sparse(tokens).float(), dense(tokens).float()
    steps = 2.0**-8 * expected.abs().max()  # one unit in the last place of the largest logit
    assert (got - expected).abs().max() <= 4 * steps
    assert (got - model()(tokens).float()).abs().max() > 4 * steps  # pruning itself shows


def test_a_layer_has_goldens_bits():
    torch.manual_seed(1)
    layer = nn.Linear(70, 40).to(torch.bfloat16)
    sparse = SparseLinear.of(layer, 0.5)
    bits = pruned_bits(layer.weight, 0.5)
    assert (bits == 0).sum() == round(0.5 * bits.size)
    for batch in (1, 3):
        x = torch.randn(batch, 70, dtype=torch.bfloat16)
        patterns = x.view(torch.int16).numpy().view(np.uint16)
        order = sparse.prepared().matrix.default_order(batch, max(available()))
        sums = decode(FP32, multiply(pack(WeightFormat(), bits), patterns, order))
        bias = layer.bias.detach().float().numpy()
        expected = encode(BF16, sums.astype(np.float32) + bias)
        got = sparse(x).detach().view(torch.int16).numpy().view(np.uint16)
        assert np.array_equal(got, expected)


def available():
    from tilewright.kernels import available_paths

    return available_paths()


def test_selection_is_that_of_a_sort():
    """Ties go from the front, zeros count, and both types of weights give the same."""
    torch.manual_seed(3)
    weight = (torch.randn(37, 50) * 4).round().to(torch.bfloat16)  # many ties
    for sparsity in (0.0, 0.1, 0.5, 0.93, 1.0):
        count = round(sparsity * weight.numel())
        expected = weight.clone().view(-1)
        order = torch.argsort(weight.float().abs().view(-1), stable=True)
        expected[order[:count]] = 0
        for source in (weight, weight.float()):
            got = pruned_bits(source, sparsity).view(np.int16)
            assert np.array_equal(got.reshape(-1) & 0x7FFF, bits(expected) & 0x7FFF)
    assert np.array_equal(pruned_bits(weight, None).view(np.int16), bits(weight))


def bits(tensor):
    return tensor.detach().contiguous().view(torch.int16).numpy()


@pytest.mark.parametrize("form", ["bf16", "int8", "bf8"])
@pytest.mark.parametrize("bias", [False, True])
def test_joined_layers_have_the_bits_of_their_parts(form, bias):
    torch.manual_seed(4)
    parts = [nn.Linear(70, n, bias).to(torch.bfloat16) for n in (32, 16, 16)]
    x = torch.randn(3, 70, dtype=torch.bfloat16)
    joined = SparseLinear.of(parts, 0.5, form)(x)
    apart = torch.cat([SparseLinear.of(part, 0.5, form)(x) for part in parts], dim=-1)
    assert np.array_equal(bits(joined), bits(apart))


@pytest.mark.parametrize("form", ["bf16", "int8", "mxfp4"])
def test_a_gated_layer_gives_the_product(form):
    torch.manual_seed(5)
    gate, up = (nn.Linear(70, 48).to(torch.bfloat16) for _ in range(2))
    x = torch.randn(5, 70, dtype=torch.bfloat16)
    layer = SparseLinear.of([gate, up], 0.5, form, gated=True)
    one, two = (SparseLinear.of(part, 0.5, form)(x) for part in (gate, up))
    expected = nn.functional.silu(one) * two
    error = (layer(x).float() - expected.float()).abs()
    assert (error <= 2**-7 * expected.float().abs()).all()  # a unit in the last place
    assert (error == 0).float().mean() > 0.95
    with pytest.raises(ValueError, match=r"^gates need a multiple of 16 outputs, not 20$"):
        SparseLinear.of([nn.Linear(32, 20)] * 2, 0.5, gated=True)


def test_threads_are_those_of_pytorch():
    assert shares_pool()
    before = torch.get_num_threads()
    layer = SparseLinear.of(nn.Linear(600, 200), 0.5)
    for rows in (1, 40):
        x = torch.randn(rows, 600)
        expected = layer(x)
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            assert default_threads() == threads
            assert torch.equal(layer(x), expected)
        torch.set_num_threads(before)


def test_a_smaller_team_than_asked_for_does_all_of_the_work():
    """A limit of OpenMP's own, in a process that starts with it."""
    code = """
import torch
from tilewright.kernels.library import shares_pool
from tilewright.kernels.torch_layers import SparseLinear
torch.manual_seed(0)
layer = torch.nn.Linear(600, 200)
x = torch.randn(40, 600)
for form in ("bf16", "int8"):
    sparse = SparseLinear.of(layer, 0.5, form)
    sparse.threads = 1
    expected = sparse(x)
    sparse.threads = 7
    assert shares_pool() and torch.equal(sparse(x), expected)
print("done")
"""
    environment = os.environ | {"OMP_THREAD_LIMIT": "3"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr


def test_two_models_in_two_threads_of_python():
    nets = [sparsify(model(seed), 0.5) for seed in (0, 1)]
    with torch.inference_mode():
        expected = [net(TOKENS) for net in nets]
    with ThreadPoolExecutor(2) as pool, torch.inference_mode():
        found = list(pool.map(lambda k: nets[k % 2](TOKENS), range(6)))
    assert all(torch.equal(got, expected[k % 2]) for k, got in enumerate(found))


def test_a_fork_has_a_pool_of_its_own():
    code = """
import os, torch
from tilewright.kernels.torch_layers import SparseLinear
layer = SparseLinear.of(torch.nn.Linear(64, 64), 0.5)
layer.threads = 3
x = torch.ones(1, 64, dtype=torch.bfloat16)
first = layer(x)
child = os.fork()
if not child:
    os._exit(0 if torch.equal(layer(x), first) else 1)
print("done" if os.waitpid(child, 0)[1] == 0 and torch.equal(layer(x), first) else "failed")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("form", ["bf16", "int8", "mxfp4"])
def test_compiled_and_exported_without_a_break(form):
    net = sparsify(model(), 0.5, form=form)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    with torch.inference_mode():
        expected = net(TOKENS)
        assert torch.equal(compiled(TOKENS), expected)
    with torch.no_grad():
        exported = torch.export.export(net, (TOKENS,), strict=False)
        names = [str(node.target) for node in exported.graph.nodes]
        assert sum(name.startswith("tilewright.linear") for name in names) == 5
        assert torch.equal(exported.module()(TOKENS), expected)


def test_operators_pass_pytorchs_own_checks():
    layer = SparseLinear.of(nn.Linear(40, 32), 0.5)
    x = torch.randn(2, 40, dtype=torch.bfloat16)
    parts = [part for _, part in layer.named_parts()]
    torch.library.opcheck(
        torch.ops.tilewright.linear.default,
        (x, parts, "bf16", 32, None, layer.bias, False),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_leading_dimensions_and_float32():
    layer = nn.Linear(32, 20)
    sparse = SparseLinear.of(layer, 0.0)
    x = torch.randn(2, 3, 32)
    y = sparse(x)
    assert y.shape == (2, 3, 20) and y.dtype == torch.float32 and not y.requires_grad
    assert torch.allclose(y, layer(x), atol=0.05)
    assert torch.equal(sparse(x.transpose(0, 1)), y.transpose(0, 1))


@pytest.mark.parametrize("form", ["bf16", "int8", "mxfp4"])
def test_state_dict_round_trip(tmp_path, form):
    first, second = (sparsify(model(0), 0.5, form=form), sparsify(model(1), 0.7, form=form))
    with torch.inference_mode():
        expected = first(TOKENS)
        assert not torch.equal(second(TOKENS), expected)
        torch.save(first.state_dict(), tmp_path / "state.pt")
        second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert torch.equal(second(TOKENS), expected)


def test_state_of_another_shape_is_refused():
    a, b = (SparseLinear.of(nn.Linear(32, outputs), 0.5) for outputs in (16, 17))
    with pytest.raises(ValueError, match=r"^a bitmap of \d+ bytes for a bf16 layer of \(17, 32\)$"):
        b.load_state_dict(a.state_dict())
    state = a.state_dict()
    state["values"] = state["values"][:-2]
    with pytest.raises(ValueError, match=r"^\d+ values for a bitmap of \d+$"):
        a.load_state_dict(state)


def test_int8_follows_the_dense_model():
    sparse, dense = sparsify(model(), 0.5, form="int8"), dense_twin(0.5)
    with torch.inference_mode():
        got, expected = sparse(TOKENS).float(), dense(TOKENS).float()
    assert (got - expected).abs().max() <= 0.1 * expected.abs().max()


def test_what_cannot_be_replaced_stays_with_a_warning():
    class Odd(nn.Linear):
        pass

    broken = nn.Linear(4, 4)
    broken.weight.data[1, 2] = torch.nan
    net = nn.Sequential(Odd(4, 4), broken, nn.Linear(4, 4), nn.Linear(4, 4))
    with pytest.warns() as caught:
        sparsify(net, 0.0, skip=("3",))
    texts = [str(w.message) for w in caught]
    assert texts[0] == "0 stays dense: a Odd may do more than multiply"
    bad = r"1 stays dense: weight 0x[7f]f\w\w at row 1, column 2 is NaN or infinite"
    assert re.fullmatch(bad, texts[1])
    assert [type(m).__name__ for m in net] == ["Odd", "Linear", "SparseLinear", "Linear"]
    with pytest.warns(UserWarning, match="^no linear layer was replaced$"):
        sparsify(nn.ReLU())
    with pytest.raises(ValueError, match=r"^sparsity must be 0..1, not 2$"):
        sparsify(net, 2)
