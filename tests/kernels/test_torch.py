"""Sparse layers inside PyTorch models; runs where the optional extra ``torch`` is installed."""

import math
import re
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
from tilewright.golden.sparamx import attend, multiply, pack, prune_cache
from tilewright.golden.sparamx.attention import SparseCache
from tilewright.kernels.torch_layers import SparseKVCache, SparseLinear, prune, sparsify

DIM, HEADS, KV_HEADS, HIDDEN, WORDS = 64, 4, 2, 96, 50


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
        return (x.float() * scale).to(x.dtype) * self.weight


class Block(nn.Module):
    """A layer of the LLaMA architecture: grouped queries, rotary positions, SwiGLU."""

    def __init__(self):
        super().__init__()
        size = DIM // HEADS
        self.norm1, self.norm2 = Norm(), Norm()
        self.q_proj = nn.Linear(DIM, DIM, bias=False)
        self.k_proj = nn.Linear(DIM, KV_HEADS * size, bias=False)
        self.v_proj = nn.Linear(DIM, KV_HEADS * size, bias=False)
        self.o_proj = nn.Linear(DIM, DIM, bias=False)
        self.gate_proj = nn.Linear(DIM, HIDDEN, bias=False)
        self.up_proj = nn.Linear(DIM, HIDDEN, bias=False)
        self.down_proj = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        tokens, size = len(x), DIM // HEADS
        y = self.norm1(x)
        q = rotate(self.q_proj(y).view(tokens, HEADS, size))
        k = rotate(self.k_proj(y).view(tokens, KV_HEADS, size))
        v = self.v_proj(y).view(tokens, KV_HEADS, size)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, dim=1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(size)
        scores = scores + torch.full((tokens, tokens), -torch.inf).triu(1).to(scores.dtype)
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)
        x = x + self.o_proj(mixed.reshape(tokens, DIM))
        y = self.norm2(x)
        return x + self.down_proj(nn.functional.silu(self.gate_proj(y)) * self.up_proj(y))


def rotate(x):
    half = x.shape[-1] // 2
    angle = torch.arange(len(x))[:, None, None] / 10000 ** (torch.arange(half) / half)
    a, b = x[..., :half].float(), x[..., half:].float()
    turned = (a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin())
    return torch.cat(turned, dim=-1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm = Norm()
        self.lm_head = nn.Linear(DIM, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def model(seed=0):
    torch.manual_seed(seed)
    return Llama().to(torch.bfloat16).eval()


def dense_twin(sparsity):
    """The same model with pruned weights and stock layers."""
    twin = model()
    for layer in twin.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = prune(layer.weight.data.float(), sparsity).to(torch.bfloat16)
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
    sparse = SparseLinear.of(layer, 0.5, WeightFormat().element)
    bits = sparse.dense_weight().view(torch.int16).numpy().view(np.uint16)
    assert (bits == 0).sum() == round(0.5 * bits.size)
    for batch in (1, 3):
        x = torch.randn(batch, 70, dtype=torch.bfloat16)
        patterns = x.view(torch.int16).numpy().view(np.uint16)
        order = sparse._matrix.default_order(batch, max(available()))
        sums = decode(FP32, multiply(pack(WeightFormat(), bits), patterns, order))
        bias = layer.bias.detach().float().numpy()
        expected = encode(BF16, sums.astype(np.float32) + bias)
        got = sparse(x).detach().view(torch.int16).numpy().view(np.uint16)
        assert np.array_equal(got, expected)


def available():
    from tilewright.kernels import available_paths

    return available_paths()


def test_leading_dimensions_and_float32():
    layer = nn.Linear(32, 20)
    sparse = SparseLinear.of(layer, 0.0, WeightFormat().element)
    x = torch.randn(2, 3, 32)
    y = sparse(x)
    assert y.shape == (2, 3, 20) and y.dtype == torch.float32 and not y.requires_grad
    assert torch.allclose(y, layer(x), atol=0.05)
    assert torch.equal(sparse(x.transpose(0, 1)), y.transpose(0, 1))


@pytest.mark.parametrize("element", ["bf16", "int8"])
def test_state_dict_round_trip(tmp_path, element):
    first, second = (
        sparsify(model(0), 0.5, element=element),
        sparsify(model(1), 0.7, element=element),
    )
    with torch.inference_mode():
        expected = first(TOKENS)
        assert not torch.equal(second(TOKENS), expected)
        torch.save(first.state_dict(), tmp_path / "state.pt")
        second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert torch.equal(second(TOKENS), expected)


def test_state_of_another_shape_is_refused():
    a = SparseLinear.of(nn.Linear(32, 20), 0.5, WeightFormat().element)
    b = SparseLinear.of(nn.Linear(32, 21), 0.5, WeightFormat().element)
    with pytest.raises(ValueError, match=r"^weights of 20 outputs and 32 inputs for a layer of"):
        b.load_state_dict(a.state_dict())
    state = a.get_extra_state()
    state["values"] = state["values"][:-1]
    with pytest.raises(ValueError, match=r"^\d+ values for a bitmap of \d+$"):
        a.set_extra_state(state)


def test_int8_follows_the_dense_model():
    sparse, dense = sparsify(model(), 0.5, element="int8"), dense_twin(0.5)
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


@pytest.mark.parametrize("tail", [0, 3])
def test_cache_has_goldens_bits(tail):
    torch.manual_seed(2)
    keys, values = torch.randn(2, 2, 40, 16)
    cache = SparseKVCache([keys], [values], threads=2)
    late = torch.randn(2, 2, tail, 16, dtype=torch.bfloat16)
    for t in range(tail):
        cache.append(0, late[0][:, t : t + 1], late[1][:, t : t + 1])
    query = torch.randn(4, 16, dtype=torch.float32)
    golden = SparseCache.of(prune_cache(keys.numpy(), 0.3), prune_cache(values.numpy(), 0.5))
    rest = None
    if tail:
        rest = SparseCache.of(*late.view(torch.int16).numpy().view(np.uint16), sparse=False)
    bits = encode(BF16, query.numpy()).astype(np.uint16)
    expected = decode(FP32, attend(golden, bits, rest)).astype(np.float32)
    assert np.array_equal(cache.attend(0, query).numpy(), expected)
    with pytest.raises(ValueError, match=r"^keys of 1 layers and values of 0$"):
        SparseKVCache([keys], [])
