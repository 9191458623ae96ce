"""Verification: benches of blocks, the cocotb tests around them, and the simulators they run on.

:mod:`tilewright.verify.bench` says what a bench is, :mod:`tilewright.verify.benches` has them.
"""

from tilewright.verify.benches import bench_of, cocotb_tests, stream_bench_of

__all__ = ["bench_of", "cocotb_tests", "stream_bench_of"]
