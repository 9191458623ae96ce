"""The cocotb test of the compressor."""

from tilewright.verify.stream_bench import equals_golden

__all__ = ["equals_golden"]
