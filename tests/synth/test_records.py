"""The committed records: fresh, complete, reproducible, and within what the tables promise."""

import json
from collections import Counter
from math import exp, log

import pytest

from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.stream import STREAM_BLOCKS
from tilewright.synth.deviation import DEVIATION_RECORD
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import DEFAULT_GOAL, Goal, synthesise
from tilewright.synth.liberty import to_liberty
from tilewright.synth.record import (
    RECORDS,
    UNGATED,
    block_record,
    load_records,
    record_path,
    record_text,
    sha256,
    stale_records,
    tool_versions,
)
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import TECHNOLOGIES, load_technology

ALL = load_records()


def test_no_record_is_stale():
    stale = stale_records() | stale_records(UNGATED)
    assert not stale, "renew with `tilewright synth --all --stale --update-records`: " + ", ".join(
        stale
    )


def test_every_record_stands_for_its_block():
    for name, record in ALL.items():
        params = resolve(record["spec"])
        technology = load_technology(record["technology"])
        assert RECORDS / name == record_path(params, technology, Goal(record["goal"]))
        assert record["parameters"] == params.as_dict()
        assert record["clock_gating"]


def test_records_without_clock_gates_stand_beside_those_with_them():
    """Of the same blocks, with the same registers."""
    ungated = load_records(UNGATED)
    assert {"deca.asap7.fastest.json", "harmonia_pe.asap7.json"} <= ungated.keys()
    for name, record in ungated.items():
        assert not record["clock_gating"] and record["metrics"]["clock_gates"]["value"] == 0
        for key in ("rtlil_sha256", "flow_sha256", "goal"):
            assert record[key] == ALL[name][key], name
        registers = (r["metrics"]["register_bits"]["value"] for r in (record, ALL[name]))
        assert len(set(registers)) == 1, name


def test_both_technologies_have_every_unit():
    """Systems, which take minutes, may be of the technology their paper speaks of."""
    units = {cls.block for cls in (*STREAM_BLOCKS, *ARITH_BLOCKS)}
    recorded = [record for record in ALL.values() if record["block"] in units]
    counts = Counter((record["spec"], record["goal"]) for record in recorded)
    assert set(counts.values()) == {len(TECHNOLOGIES)}
    assert {f"{cls.block}:{p}" for cls in (*STREAM_BLOCKS, *ARITH_BLOCKS) for p in cls.PRESETS} == {
        spec for spec, goal in counts if goal == DEFAULT_GOAL.value
    }


def test_parts_are_the_whole():
    for record in ALL.values():
        if record["area_by_part"]:
            area = record["metrics"]["area"]["value"]
            assert sum(record["area_by_part"].values()) == pytest.approx(area, abs=1e-3)


def test_every_metric_knows_unit_and_direction():
    for record in ALL.values():
        assert {"area", "cells", "register_bits", "leakage", "delay"} <= record["metrics"].keys()
        for metric in record["metrics"].values():
            assert metric.keys() == {"value", "unit", "better"}
            assert metric["better"] in ("lower", "higher")


def test_records_are_of_these_tools():
    assert {json.dumps(record["tools"]) for record in ALL.values()} == {json.dumps(tool_versions())}


@pytest.mark.parametrize(("goal", "option"), [("area", ""), ("fastest", " --goal fastest")])
def test_a_changed_block_is_noticed(goal, option, tmp_path):
    name, record = next(iter(ALL.items()))
    changed = {**record, "goal": goal, "rtlil_sha256": "0" * 64}
    (tmp_path / name).write_text(record_text(changed))
    spec, technology = record["spec"], record["technology"]
    command = f"tilewright synth {spec} --tech {technology}{option} --update-records"
    assert stale_records(tmp_path) == {name: command}


@pytest.mark.parametrize("changed", ["flow_sha256", "liberty_sha256", "tools"])
def test_a_changed_flow_is_noticed(changed, tmp_path):
    name, record = next(iter(ALL.items()))
    (tmp_path / name).write_text(record_text({**record, changed: None}))
    assert stale_records(tmp_path).keys() == {name}


def test_memories_are_named():
    """Every macro of a netlist, none of it in registers."""
    for record in ALL.values():
        macros = {k: n for k, n in record["cells_by_kind"].items() if k.startswith("sram_")}
        memories = record["memories"]
        assert {name: entry["count"] for name, entry in memories.items()} == macros
        bits = sum(entry["count"] * entry["bits"] for entry in memories.values())
        assert bits == record["metrics"]["memory_bits"]["value"]
        for entry in memories.values():
            assert 0 < entry["read_fj"] < entry["write_fj"] and entry["access_ps"] > 0
            assert isinstance(entry["published_size"], bool)


def test_other_goals_have_their_own_files():
    params, technology = resolve("popcount"), load_technology("asap7")
    names = [record_path(params, technology, goal).name for goal in Goal]
    assert names == [
        "popcount.asap7.json",
        "popcount.asap7.balanced.json",
        "popcount.asap7.fastest.json",
    ]
    assert record_path(params, technology) == record_path(params, technology, DEFAULT_GOAL)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", ["popcount:odd", "queue:tiny"])
def test_synthesis_gives_the_record_again(spec, technology, empty_cache):
    params = resolve(spec)
    cells = load_technology(technology)
    rtlil = to_rtlil(params)
    record = block_record(spec, params, rtlil, synthesise(rtlil, params.slug, cells))
    assert record_text(record) == record_path(params, cells).read_text()


DEVIATION = json.loads(DEVIATION_RECORD.read_text())


def within(ratio, limit):
    return 1 - limit <= ratio <= 1 + limit


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_tables_stay_close_to_the_full_library(technology):
    """Area within 5%, delay within 10%, on at least four designs with the default goal.

    Delay on one and the same netlist keeps within 10% on all of them.
    """
    designs = DEVIATION[technology]["designs"]
    assert designs.keys() == REFERENCE_DESIGNS.keys()
    assert all(within(d["area_ratio"], 0.05) for d in designs.values())
    assert all(within(d["delay_ratio_same_netlist"], 0.10) for d in designs.values())
    assert sum(within(d["delay_ratio"], 0.10) for d in designs.values()) >= 4
    mean = exp(sum(log(d["delay_ratio"]) for d in designs.values()) / len(designs))
    assert within(mean, 0.05)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_deviation_is_of_the_liberty_made_now(technology):
    record = DEVIATION[technology]
    assert record["liberty_sha256"] == sha256(to_liberty(load_technology(technology)))
    assert record["tools"] == tool_versions()


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("design", ["multiplier", "barrel_shifter"])
def test_deviation_record_can_be_made_again(design, technology):
    from amaranth.back import rtlil

    text = rtlil.convert(REFERENCE_DESIGNS[design](), name=design, emit_src=False)
    known = DEVIATION[technology]["designs"][design]
    assert known["rtlil_sha256"] == sha256(text)
    result = synthesise(text, design, load_technology(technology))
    assert known["compact"] == {
        "area_um2": round(result.netlist.area, 3),
        "delay_ps": round(result.delay, 1),
    }
