"""Speed of the kernels on this machine: ``python -m benchmarks.kernels layers|model``."""
