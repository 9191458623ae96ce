"""Benches of blocks."""
