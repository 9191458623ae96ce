"""Bench of the iFPU element: what goes in and comes out is as in FIGNA."""

from tilewright.bench.pe_figna import expected, stimulus

__all__ = ["expected", "stimulus"]
