"""Shared by the benches of programmable accelerators: a host, an external memory, comparisons."""
