"""The committed records: fresh, complete, reproducible, and within what the tables promise."""

import json
from concurrent.futures import ThreadPoolExecutor
from math import exp, log

import pytest

from tests.support.claims import claim
from tilewright.base.records import load_table, table_text, updated_table
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES, DecaParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.deviation import DEVIATION_RECORD
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import synthesise
from tilewright.synth.liberty import to_liberty
from tilewright.synth.record import (
    RECORDS,
    SYNTHESIS,
    block_record,
    committed_form,
    find_record,
    load_records,
    sha256,
    stale_records,
    store_record,
    store_synthesis,
    table_path,
    tool_versions,
)
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import TECHNOLOGIES, load_technology

ALL = load_records()


def test_no_record_is_stale():
    stale = stale_records() | stale_records(gating=False)
    assert not stale, "renew with `tilewright synth --all --stale --update-records`: " + ", ".join(
        stale
    )


def test_records_without_clock_gates_stand_beside_those_with_them():
    """Records of the same blocks, with the same registers."""
    ungated = load_records(gating=False)
    assert {"deca.asap7.fastest.ungated", "harmonia_pe.asap7.ungated"} <= ungated.keys()
    for name, record in ungated.items():
        gated = ALL[name.removesuffix(".ungated")]
        assert not record["clock_gating"] and record["metrics"]["clock_gates"]["value"] == 0
        for key in ("rtlil_sha256", "flow_sha256", "goal"):
            assert record[key] == gated[key], name
        registers = (r["metrics"]["register_bits"]["value"] for r in (record, gated))
        assert len(set(registers)) == 1, name


def write(folder, name, record):
    with updated_table(table_path(SYNTHESIS, record["technology"], folder)) as table:
        table[name] = record


@pytest.mark.parametrize(("goal", "option"), [("area", ""), ("fastest", " --goal fastest")])
def test_a_changed_block_is_noticed(goal, option, tmp_path):
    name, record = next(iter(ALL.items()))
    write(tmp_path, name, {**record, "goal": goal, "rtlil_sha256": "0" * 64})
    spec, technology = record["spec"], record["technology"]
    command = f"tilewright synth {spec} --tech {technology}{option} --update-records"
    assert stale_records(tmp_path) == {name: command}


@pytest.mark.parametrize("changed", ["flow_sha256", "liberty_sha256", "tools"])
def test_a_changed_flow_is_noticed(changed, tmp_path):
    name, record = next(iter(ALL.items()))
    write(tmp_path, name, {**record, changed: None})
    assert stale_records(tmp_path).keys() == {name}


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", ["popcount:odd", "queue:tiny"])
def test_synthesis_gives_the_record_again(spec, technology, empty_cache):
    params = resolve(spec)
    cells = load_technology(technology)
    rtlil = to_rtlil(params)
    record = block_record(spec, params, rtlil, synthesise(rtlil, params.slug, cells))
    proof = {"proof": find_record(params, technology)["proof"]}
    assert committed_form(record) | proof == find_record(params, technology)


def test_a_proof_stays_with_its_netlist(tmp_path):
    path = {"start": "a", "end": "b", "cells": ["INV", "INV"]}
    record = ALL["popcount.asap7"] | {"longest_path": path, "cells_by_kind": {"INV": 2}}
    proof = record.pop("proof")

    def stored():
        return load_records(tmp_path)["popcount.asap7"]

    store_synthesis(record, proof, tmp_path)
    assert stored() == ALL["popcount.asap7"] | {"longest_path": path | {"cells": 2}}
    store_synthesis(record | {"flow_sha256": "f"}, folder=tmp_path)
    assert stored()["proof"] == proof and stored()["flow_sha256"] == "f"
    store_synthesis(record | {"netlist_sha256": "n"}, folder=tmp_path)
    assert "proof" not in stored()


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.*.json")), ids=lambda path: path.name)
def test_an_update_changes_nothing_else(path):
    if "records" in json.loads(path.read_text()):
        assert table_text(load_table(path)) == path.read_text()


def test_writers_of_one_table_wait_for_each_other(tmp_path):
    """Each one reads what the others have written."""

    def write_some(thread):
        for k in range(8):
            store_record("kind", "asap7", f"{thread}.{k}", {"technology": "asap7"}, tmp_path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_some, range(4)))
    assert len(load_table(table_path("kind", "asap7", tmp_path))) == 32


DEVIATION = load_table(DEVIATION_RECORD)


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


DECA = {name: record for name, record in load_records().items() if record["block"] == "deca"}
FASTEST = DECA["deca.asap7.fastest"]
WITH_TEPL = load_records()["deca_tepl.asap7.fastest"]
PAPER = DecaParams.preset("paper")


def metric(record, name):
    return record["metrics"][name]["value"]


@pytest.mark.parametrize("record", [FASTEST, WITH_TEPL], ids=lambda record: record["block"])
def test_the_clock_of_the_paper_is_met(record):
    """2.5 GHz, every path: from inputs, between registers, to outputs."""
    period = 1000 / claim("deca.clock")  # ps
    assert record["parameters"] == PAPER.as_dict()
    assert metric(record, "delay") <= period
    kinds = [name for name in record["metrics"] if name.startswith("delay_")]
    assert len(kinds) == 4
    assert max(metric(record, name) for name in kinds) == metric(record, "delay")
    assert record["longest_path"]["cells"] > 0


@pytest.mark.parametrize("name", DECA)
def test_memories_are_macros(name):
    """SQQ lines with their error bit, TOut, every sub-table; nothing of them became registers."""
    record = DECA[name]
    lines = PAPER.loaders * PAPER.sqq_lines * (PAPER.line_bits + 1)
    tiles = PAPER.loaders * 8 * TILE_BYTES
    tables = PAPER.luts * LUT_ENTRIES * 16
    assert metric(record, "memory_bits") == lines + tiles + tables
    macros = sum(memory["count"] for memory in record["memories"].values())
    assert macros == PAPER.loaders * 2 + 4 * PAPER.luts
    assert 0 < metric(record, "memory_area") < metric(record, "area")
