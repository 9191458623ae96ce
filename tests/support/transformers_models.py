"""Small models of Transformers with random weights."""

import torch
from transformers import AutoModelForCausalLM

SHAPE = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=99,
    max_position_embeddings=256,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)


def random_model(config, scale=0.1):
    """A model whose matrices are normal with a deviation of ``scale``, always the same."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, 0, scale)
    return model.eval()
