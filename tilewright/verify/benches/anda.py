"""Anda accelerator: a host and an external memory around it, running programs."""

TESTS = ("programs", "errors", "registers")
MODULE = ",".join(f"tilewright.verify.anda_machine.{name}" for name in TESTS)
