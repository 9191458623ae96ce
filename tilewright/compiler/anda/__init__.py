"""Anda: variable-length activations in one buffer, attention in fp16 on the vector lanes."""

from tilewright.compiler.anda.lowering import AndaLowering as Lowering
from tilewright.compiler.anda.machine import AndaMachine as Machine

__all__ = ["Lowering", "Machine"]
