"""Benches: what goes into each block and what must come out, and the cocotb tests around them.

``tilewright/verify/benches/<block>.py`` has, in columns (field name -> array) per port,

- ``stimulus(params, rng, cases)``: what goes in
- ``expected(params, columns)``: what must come out
- ``check(params, columns, got)``, optional: where the order depends on timing,
  None or what is wrong
- ``exhaustive(params)``, optional: every case there is, instead of ``stimulus``

and then runs under ``tilewright.verify.stream_bench``. A block that needs more around it (memories,
registers) names its own module of cocotb tests in ``MODULE`` and needs none of the above.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from tilewright.golden.params.block import BlockParams

__all__ = ["STREAM_BENCH", "bench_of", "cocotb_tests"]

STREAM_BENCH = "tilewright.verify.stream_bench"


def bench_of(params: BlockParams) -> ModuleType:
    """The bench of a block."""
    name = f"{__name__}.benches.{params.block}"
    if find_spec(name) is None:
        raise ValueError(f"block {params.block} has no bench (tilewright/bench/{params.block}.py)")
    return import_module(name)


def cocotb_tests(params: BlockParams) -> str:
    """The module with the cocotb tests of a block."""
    return getattr(bench_of(params), "MODULE", STREAM_BENCH)
