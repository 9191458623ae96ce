"""What programs of all accelerators share: instruction words, vector operands, assembly."""
