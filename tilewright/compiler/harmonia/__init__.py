"""Harmonia: block floating point in all products, attention on the array, a compressed cache."""

from tilewright.compiler.harmonia.lowering import HarmoniaLowering
from tilewright.compiler.harmonia.machine import HarmoniaMachine
from tilewright.compiler.machine import register

register(HarmoniaMachine, HarmoniaLowering)
