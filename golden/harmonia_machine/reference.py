"""The accelerator's model in the language model engine, which knows no machine.

It has the image's integers as weights, block floating point before every product of the array, the
cache with its windows as the steps of a prompt leave it, and offsets of keys from the tokens of the
first step. But it adds and multiplies in float32 instead of fp16, and uses the true functions that
the vector unit approximates.
"""

from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.model import Model
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import HarmoniaParams


def reference(params: HarmoniaParams, model: Model, window: int) -> Session:
    """One sequence, whose first step has ``window`` tokens."""
    fmt = HarmoniaFormat(
        group=params.group,
        cache=params.cache,
        step=params.columns,  # prompts are passed by tiles of keys
        offset_tokens=window,
        head_bits=ACTIVATION_BITS,
    )
    return Session(model, fmt)
