"""What the programmable accelerators share: control, registers, memory port, vector operands."""
