"""The table of benches, and what is said when a bench and its block disagree."""

from importlib import import_module

import numpy as np
import pytest

from tilewright.golden.params.describe import family
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.verify import bench_of, stream_bench_of
from tilewright.verify.bench import Bench, StreamBench, checked_columns
from tilewright.verify.benches import BENCHES
from tilewright.verify.stream_tests import prepare


def test_every_block_has_a_bench_and_every_bench_a_block():
    assert set(BENCHES) == set(BLOCKS)


def test_files_of_benches_are_the_families():
    """One file per family, accelerators with their units; those with AXI ports share one."""
    for block, place in BENCHES.items():
        name = place.partition(":")[0].rpartition(".")[2]
        of = family(BLOCKS[block])
        shared = of.endswith("_machine") and block.endswith("_axi")
        assert name == ("machine_axi" if shared else of.removesuffix("_machine"))


def test_every_file_of_benches_holds_benches_of_the_table():
    """A class derived from Bench that no block uses is a base or a mistake."""
    used = {type(bench_of(cls())) for cls in BLOCKS.values()}
    for name in {place.partition(":")[0] for place in BENCHES.values()}:
        module = import_module(name)
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == name and issubclass(value, Bench):
                assert any(issubclass(bench, value) for bench in used), value


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


class Misnamed(StreamBench):
    """Reads a field that leading_zeros has and int_to_float has not."""

    def expected(self, params, columns):
        return {"o": {"y": columns["i"]["x"]}}


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


def test_a_wrong_name_in_a_bench_is_told_with_block_and_port(monkeypatch):
    params = resolve("int_to_float")
    monkeypatch.setattr("tilewright.verify.stream_tests.stream_bench_of", lambda _: Misnamed())
    inputs = {"i": {"a": np.zeros((3, params.lanes), np.int64)}}
    with pytest.raises(
        ValueError, match=r"^block int_to_float, port i has no field 'x'; fields: a$"
    ):
        prepare(params, inputs)
