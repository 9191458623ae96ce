"""Harmonia accelerator: a host and an external memory around it, running programs."""

TESTS = ("programs", "attention", "errors", "registers")
MODULE = ",".join(f"tilewright.bench.harmonia_system.{name}" for name in TESTS)
