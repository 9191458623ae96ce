"""The simulator harness refuses what it should refuse, and says why."""

import re
from fractions import Fraction

import pytest

from tests.support.drive import Prepared, measured_latency, require_interval, simulate
from tests.support.mutate import mutant_of
from tilewright.golden.params.block import Timing
from tilewright.golden.params.stream import QueueParams, RegisterSliceParams
from tilewright.hw.catalog import build

SLICE, QUEUE = RegisterSliceParams(width=8), QueueParams(width=8, depth=2)


@pytest.mark.parametrize(
    ("params", "old", "new", "message"),
    [
        (
            SLICE,
            "word.eq(given)",
            "word.eq(~given)",
            "port o, case 0: got 0xff, expected 0x0",
        ),
        (
            SLICE,
            "self.o.valid.eq(valid)",
            "self.o.valid.eq(valid & self.i.valid)",
            "withdraws an offered word",
        ),
        (
            SLICE,
            "m.If(~valid | self.o.ready)",
            "m.If(1)",
            "changes an offered word from 0x",
        ),
        (
            SLICE,
            "(~valid | self.o.ready)",
            "(~valid)",
            "gives more than the expected {'o': 40} words",
        ),
    ],
)
def test_wrong_unit_is_refused(params, old, new, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        simulate(params, cases=40, stall=0.5, dut=mutant_of(params, old, new))


def test_timeout_says_how_far_it_got():
    stuck = mutant_of(QUEUE, "self.level != 0", "self.level > depth")
    message = (
        r"^queue__width_8__depth_2: after \d+ cycles "
        r"took {'i': '2 of 5'}, gave {'o': '0 of 5'} words$"
    )
    with pytest.raises(TimeoutError, match=message):
        simulate(QUEUE, cases=5, dut=stuck)


def test_valid_that_waits_for_ready_gets_nowhere():
    waiting = mutant_of(QUEUE, "self.level != 0", "(self.level != 0) & self.o.ready")
    with pytest.raises(TimeoutError, match=r"gave {'o': '0 of 5'}"):
        simulate(QUEUE, cases=5, patient=True, dut=waiting)


class Optimist(QueueParams):
    """Claims what a queue of depth 1 does not reach."""

    @property
    def timing(self):
        return Timing(latency=1, interval=Fraction(1))


def test_wrong_interval_is_refused():
    params = Optimist(width=8, depth=1)
    with pytest.raises(AssertionError, match=r"^queue__.*\.o: interval 2, not 1$"):
        require_interval(params, simulate(params, cases=20))


def test_varying_latency_is_refused():
    trace = simulate(SLICE, cases=6, one_at_a_time=True)
    assert measured_latency(SLICE, trace) == 1
    trace.given["o"][-1] += 1
    with pytest.raises(
        AssertionError, match=r"^register_slice__width_8: latency varies: \[1, 2\]$"
    ):
        measured_latency(SLICE, trace)


def test_a_unit_runs_again_as_if_it_were_new():
    """From power-up, whatever it did before; also after a run that failed."""
    prepared = Prepared(build(QUEUE))
    runs = [{"cases": 30, "stall": 0.5}, {"cases": 7, "one_at_a_time": True}, {"cases": 30}]
    new = [simulate(QUEUE, **run) for run in runs]
    assert [simulate(QUEUE, dut=prepared, **run) for run in runs] == new

    async def stopped(ctx):
        ctx.set(prepared.dut.i.valid, 1)
        await ctx.tick()
        raise KeyError

    with pytest.raises(KeyError):
        prepared.run(stopped)
    assert [simulate(QUEUE, dut=prepared, **run) for run in runs] == new
