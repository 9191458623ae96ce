"""Harmonia's hardware: the reconfigurable PE and what surrounds it."""
