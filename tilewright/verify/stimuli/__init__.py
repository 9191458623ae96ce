"""Operands for the benches: integers, floats, groups of activations, dot products."""
