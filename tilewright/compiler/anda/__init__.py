"""Anda: variable-length activations in one buffer, attention in fp16 on the vector lanes."""

from tilewright.compiler.anda.lowering import AndaLowering
from tilewright.compiler.anda.machine import AndaMachine
from tilewright.compiler.machine import register

register(AndaMachine, AndaLowering)
