"""Blocks handed over to flows that place and route them, with all that those flows read."""
