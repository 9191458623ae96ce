"""Energy of a whole DECA: its netlist on tiles of real weights, the record, the page."""

import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.golden.deca import decode_tiles
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve
from tilewright.studies import deca_energy
from tilewright.studies.deca_energy import (
    IDLE,
    SAMPLES,
    Case,
    case_tiles,
    run_cases,
    sampled,
)
from tilewright.studies.pe.energy import is_measured_now, load_energy
from tilewright.synth.activity import measure
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.record import load_records
from tilewright.synth.technology import load_technology
from tilewright.synth.yosys import SynthesisError
from tilewright.verify.netlist_bench import NetlistBench, run_program
from tilewright.verify.streams import StreamDriver, StreamMonitor

ASAP7 = load_technology("asap7")
PAPER = DecaParams.preset("paper")
RECORD = load_energy("deca", ASAP7)
WORDS = [0x00, 0xFF, 0x0F, 0x0F, 0x80, 0x00]


@pytest.fixture(scope="module")
def queue():
    params = resolve("queue:tiny")
    return synthesise(to_rtlil(params), params.slug, ASAP7).netlist


# A netlist under the parts of a bench.


def send(netlist, words):
    """The words that come out, and what was counted from the first to the last cycle."""
    clock = NetlistBench(netlist)
    driver, monitor = (
        make(clock.dut, name) for make, name in ((StreamDriver, "i"), (StreamMonitor, "o"))
    )
    run_program(clock.reset([driver, monitor]))
    clock.count()
    driver.send(words)
    run_program(clock.run(lambda: len(monitor.words) == len(words)))
    return monitor.words, clock.counted()


def test_a_netlist_runs_under_a_bench(queue):
    words = [word & ((1 << len(queue.inputs["i__payload"])) - 1) for word in WORDS]
    given, activity = send(queue, words)
    assert given == words
    beats = [[word >> k & 1 for k in range(len(queue.inputs["i__payload"]))] for word in words]
    elsewhere = measure(queue, 1, {"i": beats}, range(len(beats)))
    for net in queue.inputs["i__payload"]:
        assert activity.toggles[net] == elsewhere.toggles[net]


def test_a_payload_that_is_not_valid_costs_nothing(queue):
    """The driver puts random bits there once its last word is taken."""
    _, activity = send(queue, [0])
    assert all(activity.toggles[net] == 0 for net in queue.inputs["i__payload"])


def test_nothing_counts_but_what_is_asked_for(queue):
    clock = NetlistBench(queue)
    run_program(clock.reset())
    clock.count()
    for _ in range(3):
        clock.step()
    assert clock.counted().cycles == 3
    clock.step()
    clock.count()
    assert clock.counted().cycles == 0


def test_a_program_that_waits_for_something_else_is_refused():
    class Never:
        def __await__(self):
            yield

    async def program():
        await Never()

    with pytest.raises(
        RuntimeError, match=r"^the program waits for something other than the clock$"
    ):
        run_program(program())


def test_cocotb_is_not_needed():
    script = "import sys; sys.modules['cocotb'] = None; import tilewright.studies.deca_energy"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Tiles.


@pytest.mark.full
def test_weights_can_be_taken_from_the_model_again():
    smollm2_or_skip()
    np.testing.assert_array_equal(sampled(), np.load(SAMPLES))


@pytest.mark.parametrize("scheme,density", [("mxfp4", None), ("bf8", 0.5)])
def test_data_differ_in_nothing_but_codes(scheme, density):
    real, random, zero = (
        decode_tiles(case_tiles(Case(scheme, density, data))[0])
        for data in ("real", "random", "zero")
    )
    for other in (random, zero):
        assert np.array_equal(other.mask, real.mask)
        assert np.array_equal(other.scales, real.scales)
    assert not zero.codes.any()
    assert np.mean(random.codes != real.codes) > 0.3
    assert not random.codes[~real.mask].any()


# The record.


def test_the_record_is_of_the_present_element():
    """That the synthesis record is fresh is another test."""
    fresh = is_measured_now(RECORD, deca_energy._workload())
    assert fresh, "tilewright synth deca --energy --update-records"
    synthesis = load_records()["deca.asap7.fastest"]
    for key in ("parameters", "rtlil_sha256", "goal", "flow_sha256"):
        assert RECORD[key] == synthesis[key], key
    for name, value in RECORD["metrics"].items():
        assert value == synthesis["metrics"][name]["value"]


# Refusals.


def test_a_clock_out_of_reach_is_refused(monkeypatch):
    monkeypatch.setattr(deca_energy, "to_rtlil", lambda *_, **__: "")
    monkeypatch.setattr(deca_energy, "synthesise", lambda *_, **__: SimpleNamespace(delay=512.34))
    message = (
        "deca:small in asap7: its longest path takes 512.3 ps;"
        " energy is at the paper's clock, 400 ps"
    )
    with pytest.raises(SynthesisError, match=f"^{re.escape(message)}$"):
        deca_energy.deca_energy_record("deca:small", ASAP7)


# The small PE, from RTL to energy.


@pytest.mark.full
def test_the_small_pe_from_rtl_to_energy():
    params = DecaParams.preset("small")
    result = synthesise(to_rtlil(params, memory_macros=True), params.slug, ASAP7, Goal.FASTEST)
    cases = (Case("mxfp4"), Case("mxfp4", data="zero"))
    runs = dict(run_cases(params, result, cases))
    real, zero, idle = (runs[name]["power"]["total"] for name in (*map(str, cases), IDLE))
    assert real > zero > idle
    # A netlist that computes something else is noticed: every row is compared.
    broken = [
        replace(i, pins=i.pins | {"A": "0"}) if "scaler" in part and "A" in i.pins else i
        for i, part in zip(result.netlist.instances, result.part_of, strict=True)
    ]
    wrong = replace(result, netlist=replace(result.netlist, instances=broken))
    with pytest.raises(AssertionError, match="expected"):
        dict(run_cases(params, wrong, cases[:1]))
