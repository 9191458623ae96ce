"""Harmonia's hardware: the reconfigurable element and what surrounds it."""
