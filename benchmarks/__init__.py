"""How fast the models are; each file is a program: ``python -m benchmarks.NAME``."""
