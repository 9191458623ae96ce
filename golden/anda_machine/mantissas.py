"""Lengths of the activations of a decoder layer's products."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mantissas:
    """Mantissa bits of the inputs of query, key and value; output; gate and up; down."""

    qkv: int = 8
    o: int = 5
    u: int = 7
    d: int = 6


DEFAULT_MANTISSAS = Mantissas()
