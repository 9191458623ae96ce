"""Where the registers of a pipeline go, and what its stages must give."""

import gc
import warnings

import pytest
from amaranth.back import rtlil
from amaranth.hdl import UnusedElaboratable

from tilewright.golden.params.arith import PopcountParams
from tilewright.hw.stream.pipeline import PipelinedUnit, register_counts


@pytest.mark.parametrize(
    ("stages", "latency", "counts"),
    [
        (1, 0, [0]),
        (1, 3, [3]),
        (4, 1, [0, 0, 0, 1]),
        (4, 2, [0, 1, 0, 1]),
        (4, 4, [1, 1, 1, 1]),
        (5, 2, [0, 0, 1, 0, 1]),
        (3, 5, [1, 1, 3]),
    ],
)
def test_registers_are_spread_evenly_and_end_at_the_output(stages, latency, counts):
    assert register_counts(stages, latency) == counts


class Misnamed(PipelinedUnit):
    def stages(self):
        return [lambda m, s: {"total": s.mask[0]}]


def test_last_stage_must_give_the_output_fields():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)  # of what the error leaves behind
        with pytest.raises(ValueError, match=r"^last stage gives \['total'\], not \['count'\]$"):
            rtlil.convert(Misnamed(PopcountParams()))
        gc.collect()
