"""Bench of the Anda accelerator: a host, an external memory, programs."""
