"""Combinational cycles are found as Amaranth itself finds them, with its message."""

import pytest
from amaranth import Module, Mux, Signal
from amaranth.back import rtlil
from amaranth.hdl._nir import CombinationalCycle

from tilewright.synth.netlist_checks import quick_checks

CYCLES = {
    "two names": lambda a, b, c: [a.eq(b), b.eq(a)],
    "a sum": lambda a, b, c: [a.eq(b + c), b.eq(a)],
    "a bit of a sum": lambda a, b, c: [a[3].eq((b + c)[0]), b.eq(a)],
    "a comparison": lambda a, b, c: [a.eq(Mux(b > c, 1, 2)), b.eq(a ^ c)],
    "an index": lambda a, b, c: [a.eq(b.bit_select(c, 2)), c.eq(a)],
    "two bits of a word": lambda a, b, c: [a[0].eq(a[1]), a[1].eq(a[0] & c[1])],
}
NO_CYCLES = {
    "bits of a word in a row": lambda a, b, c: [a[0].eq(c), a[1].eq(a[0] & c[1]), a[2].eq(a[1])],
    "an index": lambda a, b, c: [a.eq(b.bit_select(c, 2)), b.eq(c)],
    "a sum of sums": lambda a, b, c: [a.eq(b + c), b.eq(c + 1)],
}


def convert(statements):
    m, words = Module(), [Signal(4, name=name) for name in "abc"]
    m.d.comb += statements(*words)
    return rtlil.convert(m, ports=[], emit_src=False)


@pytest.mark.parametrize("statements", CYCLES.values(), ids=CYCLES)
def test_a_cycle_is_refused(statements):
    with pytest.raises(CombinationalCycle) as usual:
        convert(statements)
    with quick_checks(), pytest.raises(CombinationalCycle) as quick:
        convert(statements)
    assert str(quick.value) == str(usual.value)


@pytest.mark.parametrize("statements", NO_CYCLES.values(), ids=NO_CYCLES)
def test_what_has_no_cycle_is_written_alike(statements):
    with quick_checks():
        quick = convert(statements)
    assert quick == convert(statements)
