"""A sparse cache of Transformers: its bits, its life, and tokens of models that use it."""

import copy
from importlib.util import find_spec
from itertools import cycle

import numpy as np
import pytest

if find_spec("torch") is None or find_spec("transformers") is None:
    pytest.skip("PyTorch or Transformers, optional extras, missing", allow_module_level=True)

import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, MistralConfig

from tests.support.tiny_shape import SHAPE
from tilewright.golden.bits import decode
from tilewright.golden.params.formats import FP32
from tilewright.golden.sparamx import SparseCache as GoldenCache
from tilewright.golden.sparamx import attend
from tilewright.golden.sparamx.attention import prune_cache
from tilewright.kernels import library, steps
from tilewright.kernels.caches import SparseCache, SparseLayer, SparsePlace, room_in
from tilewright.kernels.models import FusedLayer, sparsify

pytestmark = [
    pytest.mark.filterwarnings("ignore:mkldnn_matmul failed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CONFIG = LlamaConfig(**SHAPE)
SHARES = {"key_sparsity": 0.3, "value_sparsity": 0.5}
PROMPT = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    dense = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval()
    return sparsify(dense)


def bits_of(tensor):
    return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)


def logits_of(model, cache, tokens=5, batch=1):
    """Logits of a prompt and some tokens after it, which do not depend on the logits."""
    prompt = PROMPT.repeat(batch, 1) + torch.arange(batch)[:, None]
    with torch.inference_mode():
        found = [model(prompt, past_key_values=cache, use_cache=True).logits[:, -1:]]
        for k in range(tokens):
            token = torch.full((batch, 1), 7 + k)
            found.append(model(token, past_key_values=cache, use_cache=True).logits)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_change_no_bit(model, batch, monkeypatch):
    assert all(isinstance(layer, FusedLayer) for layer in model.model.layers)
    monkeypatch.setattr(steps, "token", lambda *_: None)
    with steps.clocked() as clocks:
        quick = logits_of(model, DynamicCache(config=CONFIG), batch=batch)
    assert all(seconds > 0 for seconds in clocks.seconds().values())
    monkeypatch.setattr(steps, "step", lambda *_: None)
    assert torch.equal(quick, logits_of(model, DynamicCache(config=CONFIG), batch=batch))


@pytest.mark.parametrize("batch", [1, 3])
def test_one_call_for_all_layers(model, batch, monkeypatch):
    """The same up to the last bits of attention, also after a cut and another order."""

    def shown():
        cache = DynamicCache(config=CONFIG)
        first = logits_of(model, cache, batch=batch)
        cache.crop(-3)
        cache.batch_select_indices(torch.arange(batch - 1, -1, -1))
        with torch.inference_mode():
            token = torch.full((batch, 1), 8)
            last = [model(token, past_key_values=cache, use_cache=True).logits for _ in range(3)]
        return torch.cat([first, *last], dim=1).float()

    taken, inner = [], steps.token
    monkeypatch.setattr(steps, "token", lambda *a: taken.append(inner(*a)) or taken[-1])
    with steps.clocked() as clocks:
        together = shown()
    assert len(taken) == 8 and all(found is not None for found in taken)
    spent = clocks.seconds()
    assert spent.pop("positions and cache") == 0  # each query turns itself: attention's
    assert all(seconds > 0 for seconds in spent.values())
    monkeypatch.setattr(steps, "token", lambda *_: None)
    apart = shown()
    assert (together - apart).abs().max() <= 2**-6 * apart.abs().max()


def test_layer_by_layer_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(steps, "token", None)  # nobody asks
    torch.manual_seed(0)
    dense = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval()
    logits_of(sparsify(dense, one_call=False), DynamicCache(config=CONFIG))


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(model, batch, monkeypatch):
    """Also from token to token, and with more threads than processors, which wait their turn."""
    taken, inner = [], steps.token
    monkeypatch.setattr(steps, "token", lambda *a: taken.append(inner(*a)) or taken[-1])
    monkeypatch.setattr(library, "has_room", lambda threads: True)
    shown = []
    for counts in ([1], [2], [3], [7], [2, 5, 1]):
        changing = cycle(counts)
        monkeypatch.setattr(library, "default_threads", lambda c=changing: next(c))
        shown.append(logits_of(model, DynamicCache(config=CONFIG), batch=batch))
    assert len(taken) == 25 and all(found is not None for found in taken)
    assert all(torch.equal(shown[0], found) for found in shown)


def test_where_tokens_go_layer_by_layer(model, monkeypatch):
    """More threads than processors, a window that hides tokens, a listener to a decoder layer."""
    taken, inner = [], steps.token
    monkeypatch.setattr(steps, "token", lambda *a: taken.append(inner(*a)) or taken[-1])

    def gone(tokens=1):
        taken.clear()
        logits_of(model, DynamicCache(), tokens=tokens)  # has no windows, whatever the model's
        return [found is None for found in taken]

    assert gone() == [False]
    with monkeypatch.context() as patch:
        patch.setattr(library, "has_room", lambda threads: False)
        assert gone() == [True]
    with monkeypatch.context() as patch:
        patch.setattr(model.config, "sliding_window", 9, raising=False)
        assert gone(tokens=2) == [False, True]
    handle = model.model.layers[1].register_forward_hook(lambda *_: None)
    assert gone() == [True]
    handle.remove()
    monkeypatch.setattr(steps, "MOST_TOKENS", 9)
    assert gone(tokens=2) == [False, True]


def test_angles_of_other_positions(model):
    """Those given, and those of frequencies that were changed."""
    cache = DynamicCache(config=CONFIG)
    with torch.inference_mode():
        model(PROMPT, past_key_values=cache, use_cache=True)

        def last(**positions):
            found = model(PROMPT[:, :1], past_key_values=cache, use_cache=True, **positions).logits
            cache.crop(-1)
            return found

        plain = last()
        assert torch.equal(last(position_ids=torch.tensor([[8]])), plain)
        assert not torch.equal(last(position_ids=torch.tensor([[30]])), plain)
        frequencies = model.model.rotary_emb.inv_freq
        kept = frequencies.clone()
        frequencies.mul_(3)
        assert not torch.equal(last(), plain)
        frequencies.copy_(kept)
        assert torch.equal(last(), plain)


def test_weights_that_are_loaded_count(model):
    """Also those of a model that has described itself for a cache before."""
    torch.manual_seed(1)
    dense = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval()
    other, cache = sparsify(dense), DynamicCache(config=CONFIG)
    before = logits_of(other, cache)
    same = copy.deepcopy(cache)
    other.load_state_dict(model.state_dict())
    token = torch.tensor([[8]])
    with torch.inference_mode():
        found, expected = (
            m(token, past_key_values=c, use_cache=True).logits
            for m, c in ((other, cache), (model, same))
        )
    assert torch.equal(found, expected)
    assert not torch.equal(before, logits_of(other, DynamicCache(config=CONFIG)))


def test_a_listener_gets_its_part_called(model, monkeypatch):
    heard, inner = [], steps.token
    found = []
    monkeypatch.setattr(steps, "token", lambda *a: found.append(inner(*a)))
    handle = model.model.layers[0].mlp.register_forward_hook(lambda *_: heard.append(1))
    quiet = logits_of(model, DynamicCache(config=CONFIG))
    handle.remove()
    assert len(heard) == 6 and found == [None] * 5
    monkeypatch.setattr(steps, "token", lambda *_: None)
    assert torch.equal(quiet, logits_of(model, DynamicCache(config=CONFIG)))


@pytest.mark.parametrize("tail", [1, 3])
def test_attention_has_goldens_bits(tail):
    if library.Path.AMX in library.available_paths():
        pytest.skip("AMX sums in tile order, whose bits tests/kernels/test_paths.py holds")
    torch.manual_seed(2)
    keys, values = torch.randn(2, 1, 2, 40, 16).to(torch.bfloat16)
    late = torch.randn(2, 2, tail, 16).to(torch.bfloat16)
    layer = SparseLayer(0.3, 0.5)
    layer.update(keys, values)
    query = torch.randn(4, 16).to(torch.bfloat16)
    for t in range(tail):
        joined = torch.cat([query, late[0][:, t], late[1][:, t]])
        layer.pack()
        mixed = SparsePlace(layer).attend(joined.view(1, 1, -1), 4, 16, 0.25)
    golden = GoldenCache.of(
        prune_cache(keys[0].float().numpy(), 0.3), prune_cache(values[0].float().numpy(), 0.5)
    )
    rest = GoldenCache.of(*bits_of(late), sparse=False)
    sums = decode(FP32, attend(golden, bits_of(query), rest)).astype(np.float32)
    assert torch.equal(mixed.view(4, 16), torch.from_numpy(sums).to(torch.bfloat16))
    assert layer.get_seq_length() == 40 + tail


@pytest.mark.parametrize("batch", [1, 2])
def test_tokens_are_those_of_pruned_tensors(model, batch):
    """The same model on a growing cache whose prompt has the zeros, one sequence at a time."""
    shown = logits_of(model, SparseCache(CONFIG, **SHARES), batch=batch)
    with torch.inference_mode():
        for row in range(batch):
            cache = DynamicCache(config=CONFIG)
            prompt = PROMPT + row
            model(prompt, past_key_values=cache, use_cache=True)
            for layer in cache.layers:
                for name, share in (("keys", 0.3), ("values", 0.5)):
                    pruned = prune_cache(getattr(layer, name)[0].float().numpy(), share)
                    zeros = torch.from_numpy(pruned.view(np.int16)).view(torch.bfloat16)
                    setattr(layer, name, zeros[None].clone())
            for k in range(5):
                token = torch.tensor([[7 + k]])
                expected = model(token, past_key_values=cache, use_cache=True).logits[0, 0]
                error = (shown[row, 1 + k] - expected).abs().max()
                assert error <= 2**-5 * expected.abs().max()


def test_generate_and_crop(model):
    cache = SparseCache(CONFIG, **SHARES)
    first = model.generate(PROMPT, past_key_values=cache, max_new_tokens=6, do_sample=False)
    assert cache.get_seq_length() == 13 and all(layer.packed for layer in cache.layers)
    cache.crop(-5)  # all but the prompt: the tail goes, the packed part stays
    assert cache.get_seq_length() == 8 and all(layer.packed for layer in cache.layers)
    again = model.generate(first[:, :9], past_key_values=cache, max_new_tokens=5, do_sample=False)
    assert torch.equal(first, again)
    cache.crop(-10)  # into the prompt: dense again
    assert cache.get_seq_length() == 3 and cache.layers[0].keys.shape[2] == 3


def test_sequences_are_chosen_and_repeated(model):
    cache = SparseCache(CONFIG, **SHARES)
    logits_of(model, cache, batch=2)
    dense = cache.layers[0].dense()[0]
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([0, 2]))
    assert torch.equal(cache.layers[0].keys, dense)
    cache.reset()
    assert cache.get_seq_length() == 0 and room_in(cache, 0, 2, 1) is None


def test_any_model_may_use_it_with_a_warning():
    torch.manual_seed(0)
    stock = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval()
    SparseLayer.warned = False
    with pytest.warns(UserWarning, match=r"^this model unpacks its sparse cache for every token"):
        dense = logits_of(stock, SparseCache(CONFIG, key_sparsity=0, value_sparsity=0))
    assert torch.equal(dense, logits_of(stock, DynamicCache(config=CONFIG)))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"^key_sparsity must be 0\.\.1, not 2$"):
        SparseCache(CONFIG, key_sparsity=2)
    window = MistralConfig(sliding_window=16, num_hidden_layers=2)
    with pytest.raises(ValueError, match=r"^a sparse cache has no sliding windows"):
        SparseCache(window)
    layer = SparseLayer(0.3, 0.5)
    layer.update(torch.zeros(1, 2, 4, 16), torch.zeros(1, 2, 4, 16))
    with pytest.raises(ValueError, match=r"^a sparse cache holds bf16, not torch.float32"):
        layer.pack()
