"""The accelerator's model in the language model engine, which knows no machine.

It has the image's integers as weights and Anda activations before every product, but adds and
multiplies in float32 instead of fp16, and uses the true functions that the vector unit
approximates.
"""

from tilewright.golden.anda_machine.mantissas import Mantissas
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.formats import AndaFormat
from tilewright.golden.llm.model import Model
from tilewright.golden.params.anda_machine import AndaParams


def reference(params: AndaParams, mantissas: Mantissas, model: Model) -> Session:
    """One sequence; ``model`` has the weights of the image."""
    m = mantissas
    fmt = AndaFormat((m.qkv, m.o, m.u, m.d), params.group, head_bits=m.qkv)
    return Session(model, fmt)
