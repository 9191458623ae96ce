"""A model with a format in it goes as it is into the LM Evaluation Harness."""

from importlib.util import find_spec

import pytest

if any(find_spec(name) is None for name in ("torch", "transformers", "lm_eval")):
    pytest.skip("PyTorch, Transformers or lm-eval missing", allow_module_level=True)

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

from tests.support.transformers_models import SHAPE, random_model
from tilewright.torch import AndaConfig, loglikelihoods, quantize_

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = {word: k for k, word in enumerate(["<s>", "a", "cat", "sat", "on", "the", "mat", "dog"])}
REQUESTS = [("the cat sat on the", " mat"), ("a dog", " sat on a cat")]


def test_likelihoods_are_those_of_the_harness():
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    more = {"vocab_size": len(WORDS), "bos_token_id": 0, "eos_token_id": 0}
    model = random_model(LlamaConfig(**SHAPE | more), 0.02)
    words = Tokenizer(models.WordLevel(WORDS, unk_token="<s>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="<s>", pad_token="<s>", unk_token="<s>"
    )
    quantize_(model, AndaConfig(4, 4, 4, 4))
    harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, device="cpu")
    asked = [Instance("loglikelihood", {}, pair, k) for k, pair in enumerate(REQUESTS)]
    theirs = harness.loglikelihood(asked, disable_tqdm=True)
    ours = loglikelihoods(
        model, lambda text: tokenizer.encode(text, add_special_tokens=False), REQUESTS
    )
    for (logprob, greedy), found in zip(theirs, ours, strict=True):
        assert found.logprob == pytest.approx(logprob, rel=1e-5)
        assert found.greedy == greedy
