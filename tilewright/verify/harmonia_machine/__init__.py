"""Bench of the Harmonia accelerator: random programs, a head of attention, dataflows, errors."""
