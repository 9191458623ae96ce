"""The cocotb test of the compressor."""

from tilewright.bench.stream_bench import equals_golden

__all__ = ["equals_golden"]
