"""Command line, benches, simulators and report of Tilewright."""

__version__ = "0.1.0"  # here and not in the package's metadata: a checkout alone has none
