"""Anda accelerator: a host and an external memory around it, running programs."""

TESTS = ("programs", "errors", "registers")
MODULE = ",".join(f"tilewright.bench.anda_system.{name}" for name in TESTS)
