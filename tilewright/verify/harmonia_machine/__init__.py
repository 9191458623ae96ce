"""Bench of the Harmonia accelerator: random programs, steps of a model, dataflows, errors."""
