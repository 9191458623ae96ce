"""Strings of the command line to parameter objects."""

import pytest

from tilewright.golden.params.arith import FloatMulParams, PrefixStyle, PrefixSumParams
from tilewright.golden.params.formats import BF16, FP16, FP32, Rounding
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.golden.params.stream import QueueParams


def test_block_preset_and_fields():
    assert resolve("float_mul") == FloatMulParams()
    assert resolve("float_mul:fp16") == FloatMulParams(a=FP16, b=FP16, out=FP16)
    assert resolve("float_mul:fp16,out=fp32,latency=2,rounding=toward_zero") == FloatMulParams(
        a=FP16, b=FP16, out=FP32, latency=2, rounding=Rounding.TOWARD_ZERO
    )
    assert resolve("queue,depth=0x10") == QueueParams(depth=16)
    assert resolve("prefix_sum,style=ripple") == PrefixSumParams(style=PrefixStyle.RIPPLE)
    assert resolve("adder_tree,signed=false").signed is False
    assert resolve("adder_tree,signed=true").signed is True
    assert resolve("float_mul,a=bf16").a is BF16
    array = resolve("pe_array,pe=pe_figna:m8,rows=2,pe.stages=3")
    assert (array.rows, array.pe) == (2, resolve("pe_figna:m8,stages=3"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float_mull", "unknown block 'float_mull'; did you mean float_mul or "),
        ("xyzzy", f"unknown block 'xyzzy'; known: {', '.join(BLOCKS)}"),
        ("queue:tinny", "unknown preset of queue 'tinny'; did you mean tiny?"),
        ("queue:qqqqqq", "unknown preset of queue 'qqqqqq'; known: default, tiny, single, odd"),
        ("queue,dept=4", "unknown field of queue 'dept'; did you mean depth?"),
        ("queue,depth", "'queue,depth': expected FIELD=VALUE, not 'depth'"),
        ("queue,depth=four", "depth must be a whole number, not 'four'"),
        ("queue,depth=0", "depth must be at least 1, not 0"),
        ("float_mul,a=fp17", "unknown float format 'fp17'; known: bf16, fp16, fp32, "),
        ("float_mul,rounding=up", "rounding must be one of nearest_even, toward_zero, not 'up'"),
        ("pe_array,pe=pe_fgna", "pe: unknown block 'pe_fgna'; did you mean pe_figna "),
        ("pe_array,pe=pe_figna,pe.stage=3", "pe: unknown field of pe_figna 'stage'; did you "),
        ("pe_array,pe=pe_figna,pe.stages=9", "pe: stages must be 2..6, not 9"),
        ("pe_array,pe.stages=3", "pe.stages=3 needs pe=BLOCK"),
        ("pe_array,rows.x=3", "rows is no block: expected rows=VALUE, not 'rows.x=3'"),
        ("pe_array,pe=queue", "pe must be a processing element that holds no operands "),
        ("adder_tree,signed=1", "signed must be true or false, not '1'"),
    ],
)
def test_refusals_say_what_would_do(text, message):
    with pytest.raises(ValueError) as refusal:
        resolve(text)
    exact = not message.endswith(" ")
    got = str(refusal.value)
    assert got == message if exact else got.startswith(message)
