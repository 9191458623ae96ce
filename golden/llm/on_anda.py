"""Linear modules of a language model as programs of the Anda accelerator."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp
from tilewright.golden.anda import gemm
from tilewright.golden.anda_machine.block import Mantissas
from tilewright.golden.anda_machine.builder import Builder, Output
from tilewright.golden.llm.block import MODULES, Module
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.block import require


def module_program(
    params: AndaParams, module: Module, mantissa: int
) -> tuple[Builder, dict[str, Output]]:
    """The module on the accelerator: activations are compressed there, products leave as fp16.

    Weights come in behind what goes on before their product.
    """
    b = Builder(params)
    x = b.load(module.activations)
    waiting = list(module.integers.values())
    placed = b.weights(waiting.pop(0))
    compressed = b.compress(x, mantissa)
    outputs = {}
    for name in module.integers:
        b.wait()
        product = b.gemm(compressed, placed)
        b.release_weights()
        if waiting:
            placed = b.weights(waiting.pop(0))
        outputs[name] = b.store(product)
    b.halt()
    return b, outputs


def module_products(
    params: AndaParams, module: Module, mantissa: int
) -> dict[str, NDArray[np.uint16]]:
    """The same products by ``tilewright.golden.anda``: fp16 patterns (tokens, outputs)."""
    numerics = params.mxu.numerics
    blocks = bfp.encode(numerics.block_format(mantissa), module.activations)
    return {
        name: gemm(numerics, mantissa, blocks, weights) for name, weights in module.integers.items()
    }


def mantissas_of(text: str) -> Mantissas:
    """Lengths of the four modules' activations, written 8,5,7,6."""
    lengths = text.split(",")
    require(
        len(lengths) == len(MODULES) and all(n.strip().isdecimal() for n in lengths),
        f"mantissas are four numbers such as 8,5,7,6, not {text!r}",
    )
    chosen = Mantissas(*(int(n) for n in lengths))
    for name in MODULES:
        length = getattr(chosen, name)
        require(1 <= length <= 16, f"a mantissa has 1..16 bits, not {length}")
    return chosen
