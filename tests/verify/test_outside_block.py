"""A block from outside the catalogue: known to Python, to every command and to their children."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.support.drive import simulate
from tests.support.mutate import mutant_of
from tests.support.outside import NAME, outside_block, outside_environment
from tilewright.golden.params import resolve as resolving
from tilewright.golden.params.resolve import BLOCKS, MODULES_VARIABLE, resolve
from tilewright.hw.catalog import CATALOG
from tilewright.verify import stream_bench_of
from tilewright.verify.benches import BENCHES
from tilewright.verify.stimuli.dots import beats_of

PRESETS = (NAME, f"{NAME}:small")


@pytest.fixture
def block():
    with outside_block() as module:
        yield module


def tilewright(*words):
    """Run one command in a process that knows the block by the environment alone."""
    command = [sys.executable, "-m", "tilewright", *words]
    return subprocess.run(command, env=outside_environment(), capture_output=True, text=True)


def test_the_block_is_gone_afterwards():
    with outside_block():
        assert NAME in BLOCKS and NAME in CATALOG and NAME in BENCHES
        assert os.environ[MODULES_VARIABLE] == NAME
    assert NAME not in BLOCKS and NAME not in CATALOG and NAME not in BENCHES


def test_a_name_of_the_catalogue_is_refused(block):
    class Other(block.IntIntParams):
        block = "queue"

    message = r"^block queue is already that of tilewright\.golden\.params\.stream$"
    with pytest.raises(ValueError, match=message):
        resolving.register(Other)


def test_registering_again_changes_nothing(block):
    resolving.register(block.IntIntParams)
    assert os.environ[MODULES_VARIABLE] == NAME
    assert BLOCKS[NAME] is block.IntIntParams


@pytest.mark.parametrize("spec", PRESETS)
def test_golden_equals_float32_of_numpy(block, spec):
    """The third source: sums of this size are exact in float32, so numpy rounds as golden does."""
    params = resolve(spec)
    columns = stream_bench_of(params).stimulus(params, np.random.default_rng(5), 400)
    x = beats_of(columns["i"])
    got = block.int_int_dot(params, *(x[n] for n in ("activation", "weight", "scale", "group_end")))
    with np.errstate(all="ignore"):
        scale = x["scale"].astype(np.uint16).view(np.float16).astype(np.float32)
        for case, y in enumerate(got):
            total, accumulator = 0, np.float32(0)
            for beat, end in enumerate(x["group_end"][case]):
                total += int(x["activation"][case, beat] @ x["weight"][case, beat])
                if end:
                    accumulator += np.float32(total) * scale[case, beat]
                    total = 0
            want = np.float16(accumulator)
            assert (y == 0x7E00) if np.isnan(want) else (y == want.view(np.uint16))


@pytest.mark.parametrize("spec", PRESETS)
def test_rtl_equals_golden(block, spec):
    simulate(resolve(spec), cases=60, stalls=(0.0, 0.3))


def test_planted_error_is_caught(block):
    params = resolve(f"{NAME}:small")
    broken = mutant_of(params, "carried + products", "carried - products")
    with pytest.raises((AssertionError, TimeoutError)):
        simulate(params, cases=60, dut=broken)
    assert BLOCKS[NAME] is block.IntIntParams  # the mutant's module registered nothing anew


def test_commands_know_the_block(tmp_path):
    listed = json.loads(tilewright("list", NAME, "--json").stdout)
    assert listed["block"] == NAME
    made = tilewright("verilog", f"{NAME}:small", "-o", str(tmp_path))
    assert made.returncode == 0, made.stderr
    words = ("simulate", f"{NAME}:small", "--simulator", "icarus", "--cases", "60", "--json")
    run = json.loads(tilewright(*words).stdout)
    assert run["passed"] and run["cases"] == 60


def test_the_block_enters_the_comparison_by_its_bench():
    """Its netlist gives the golden results on the shared tensors, or there would be no figures."""
    done = tilewright("compare", "pe", "--tech", "asap7", "--block", NAME, "--json")
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    rows = {pe["name"]: pe for pe in comparison["pes"]}
    found = rows[NAME]
    assert found["spec"] == NAME and found["macs_per_cycle"] == 4
    assert found["zero_fj_per_mac"] < found["energy_fj_per_mac"]
    # Integers of 8 bits: no alignment, so smaller than fp16 x fp16; longer than int4.
    assert rows["FIGNA-M8"]["area_um2"] < found["area_um2"] < rows["FP-FP"]["area_um2"]


def test_a_module_that_is_not_there_is_named():
    environment = outside_environment() | {MODULES_VARIABLE: "no_such_module"}
    command = [sys.executable, "-m", "tilewright", "list", "queue"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    message = "TILEWRIGHT_BLOCKS names 'no_such_module': No module named 'no_such_module'"
    assert done.stderr == f"tilewright: {message}\n"
