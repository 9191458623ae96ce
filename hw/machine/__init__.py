"""Shared by the programmable accelerators: control, registers, memory port, vector operands."""
