"""Anda: the format in memory, products with every rounding step, cycles."""
