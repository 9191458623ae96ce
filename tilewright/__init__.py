"""Open hardware for compressed-LLM inference.

>>> import tilewright as tw
>>> multiplier = tw.block("float_mul:fp16")  # parameters of a block
>>> verilog = multiplier.verilog()  # also .simulate(), .synthesize("asap7"), .report
>>> tw.llm("llama-2-70b", "spr-hbm", scheme="mxfp4").bound  # the performance model
'memory'

``blocks``, ``models`` and ``systems`` list what there is; ``compile`` turns a language model into
programs of an accelerator, whose ``generate`` runs them; ``compress`` packs weights for DECA;
``compare`` puts results side by side; ``load`` opens files. Number formats for PyTorch models are
in ``tilewright.torch``, CPU kernels in ``tilewright.kernels``.

The rooms below: ``golden`` (specification), ``hw`` (RTL), ``compiler``, ``sim`` (performance
model), ``synth`` (netlists), ``verify`` (benches), ``studies``, ``cli``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.api.blocks import Block, block, blocks
    from tilewright.api.comparison import compare
    from tilewright.api.models import compile, llm, load, models, systems
    from tilewright.api.weights import compress

__version__ = "0.3.0"  # here and not in the package's metadata: a checkout alone has none

_HOME = {
    "Block": "blocks",
    "block": "blocks",
    "blocks": "blocks",
    "compare": "comparison",
    "compile": "models",
    "compress": "weights",
    "llm": "models",
    "load": "models",
    "models": "models",
    "systems": "models",
}
__all__ = [
    "Block",
    "__version__",
    "block",
    "blocks",
    "compare",
    "compile",
    "compress",
    "llm",
    "load",
    "models",
    "systems",
]


def __getattr__(name: str) -> Any:
    """Import a function when it is first used: ``import tilewright`` takes milliseconds."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tilewright.api.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
