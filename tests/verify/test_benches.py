"""The table of benches, and what is said when a bench and its block disagree."""

import pytest

from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.verify import bench_of, stream_bench_of
from tilewright.verify.bench import checked_columns
from tilewright.verify.benches import BENCHES


def test_every_block_has_a_bench_and_every_bench_a_block():
    assert set(BENCHES) == set(BLOCKS)


def test_a_bench_has_cocotb_tests():
    for cls in BLOCKS.values():
        tests = bench_of(cls()).tests
        assert tests and all(name.startswith("tilewright.verify.") for name in tests)


@pytest.mark.parametrize("name", ["axi", "coverage", "streams"])
def test_a_module_of_the_framework_is_no_bench(name):
    class Unheard:
        block = name

    with pytest.raises(ValueError, match=f"^block {name} has no bench; see "):
        bench_of(Unheard())


def test_a_system_has_no_streams_to_drive():
    with pytest.raises(ValueError, match=r"^the bench of deca has more than streams around"):
        stream_bench_of(resolve("deca"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"i": {"x": 1}}, "block int_to_float, port i has no field 'x'; fields: a"),
        ({"i": {}}, "block int_to_float, port i: the bench gives no field 'a'"),
        ({}, "block int_to_float, port i: the bench gives no columns"),
        ({"i": {"a": 1}, "j": {}}, "block int_to_float has no port 'j'; ports: i"),
    ],
)
def test_wrong_columns_are_named(columns, message):
    params = resolve("int_to_float")
    with pytest.raises(ValueError, match=f"^{message}$"):
        checked_columns(params, params.inputs, columns)
