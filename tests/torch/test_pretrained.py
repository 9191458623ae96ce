"""The formats through ``from_pretrained`` of Transformers."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.support.transformers_models import SHAPE, random_model
from tilewright.kernels import checkpoints
from tilewright.torch import AndaConfig, HarmoniaConfig, ModuleError, quantize_, recipe_of
from tilewright.torch.pretrained import TilewrightConfig

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

IDS = torch.arange(1, 41)[None] % 99


@pytest.fixture
def folder(tmp_path):
    random_model(LlamaConfig(**SHAPE), 0.02).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def logits(model):
    with torch.no_grad():
        return model.eval()(IDS, use_cache=False).logits


@pytest.mark.parametrize("config", [AndaConfig(5, 5, 5, 5), HarmoniaConfig()], ids=str)
def test_loading_saving_and_taking_out(folder, tmp_path, config):
    plain = AutoModelForCausalLM.from_pretrained(folder)
    before = logits(plain)
    quantize_(plain, config)
    loaded = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=TilewrightConfig(config)
    )
    assert recipe_of(loaded).config == config
    assert torch.equal(logits(loaded), logits(plain))
    loaded.save_pretrained(tmp_path / "again")
    written = json.loads((tmp_path / "again" / "config.json").read_text())["quantization_config"]
    assert written["quant_method"] == "tilewright"
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    assert recipe_of(again).config == config
    assert torch.equal(logits(again), logits(plain))
    again.dequantize()
    assert torch.equal(logits(again), before)


def test_what_does_not_fit_is_refused_by_the_modules_name(folder):
    config = TilewrightConfig(AndaConfig(5, 5, 5, 5, group=48, weight_group=96))
    with pytest.raises(ModuleError, match=r"^model\.layers\.0\.self_attn\.q_proj: 64 inputs are"):
        AutoModelForCausalLM.from_pretrained(folder, quantization_config=config)
    with pytest.raises(ValueError, match="unknown method"):
        TilewrightConfig({"method": "andy"})


def test_packed_folders_are_read_by_their_own_loader():
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as KNOWN

    assert KNOWN[checkpoints.METHOD] is checkpoints.SparseConfig
    assert KNOWN["tilewright"] is TilewrightConfig
