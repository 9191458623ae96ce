"""Harmonia accelerator: a host and an external memory around it, running programs."""

TESTS = ("programs", "attention", "errors", "registers")
MODULE = ",".join(f"tilewright.verify.harmonia_machine.{name}" for name in TESTS)
