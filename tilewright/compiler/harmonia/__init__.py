"""Harmonia: block floating point in all products, attention on the array, a compressed cache."""

from tilewright.compiler.harmonia.lowering import HarmoniaLowering as Lowering
from tilewright.compiler.harmonia.machine import HarmoniaMachine as Machine

__all__ = ["Lowering", "Machine"]
