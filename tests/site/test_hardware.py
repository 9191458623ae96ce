"""Tables of synthesis: every figure of a record is in its place."""

import pytest

from tilewright.kernels.records import load_records as load_kernels
from tilewright.site import hardware, pes, sparamx
from tilewright.studies.pe.compare import compare
from tilewright.synth.record import load_records
from tilewright.synth.technology import TECHNOLOGIES, load_technology


def test_every_figure_of_a_record_is_shown():
    tables = {title: hardware.blocks(title) for title in hardware.families()}
    rows = {row[0]: row for table in tables.values() for row in table.rows}
    assert len(rows) == len(hardware.variants())
    for record in load_records().values():
        name = record["spec"]
        name += f" ({record['goal']})" if record["goal"] != "area" else ""
        row = rows[hardware.code(name)]
        for metric in ("area", "delay", "cells"):
            assert record["metrics"][metric]["value"] in row


def test_netlists_are_counted():
    assert sum(hardware.proofs().column("Netlists")) == len(load_records())


@pytest.mark.parametrize("block", hardware.ACCELERATOR_PARTS)
def test_areas_of_an_accelerator_add_up(block):
    table = hardware.accelerator_area(block)
    for name in table.header[1:]:
        *parts, whole, _ = table.column(name)
        if None not in parts:
            assert sum(parts) == pytest.approx(whole, abs=0.3 if "%" in name else 1e-3)


def test_pes_are_those_of_the_comparison():
    result = compare([load_technology(name) for name in TECHNOLOGIES])
    for comparison in result.comparisons:
        table = pes.compared(comparison.technology)
        assert table.column("Area, µm²") == [pe.area_um2 for pe in comparison.pes]
        assert "Harmonia m8m8" in table.column("PE")
        statements = pes.statements().column(f"Ours, {comparison.technology}")
        assert statements == [claim.measured for claim in comparison.claims]
    changed = [c for c in result.survival.energy_efficiency if c.outcome == "changes"]
    shown = pes.survivals()["the change of node"]
    assert shown.column("Kind").count("order by TOPS/W") == len(changed)
    drawings = (*pes.efficiencies(), pes.drawn_arrays(), pes.accuracy_frontier())
    assert all(drawing.count("<svg") == 1 for drawing in drawings)


def test_search_and_arrays_of_pes():
    table = pes.search()
    assert len(table.rows) == 2 * len({*table.column("PE")}) == 22
    assert max(table.column("Area x energy, %")) <= 0 > min(table.column("Area x energy, %"))
    assert "Anda m8" in pes.arrays("asap7").column("Array")
    kinds = {"FP-INT", "FIGNA", "FIGNA-C", "iFPU", "Anda", "Harmonia"}
    assert {*pes.precisions().column("PE")} == kinds


def test_times_of_kernels_are_the_records():
    models = load_kernels("models")[sparamx.MACHINE]
    times = sparamx.tokens().column("Time of a token, ms")
    assert times == [1e3 * row["seconds"] for row in models["decode"]]
    rivals = load_kernels("rivals")[sparamx.MACHINE]["rows"]
    table = sparamx.rivals()
    gains = zip(rivals, table.column("Our time, ms"), table.column("Ours faster, x"), strict=True)
    for row, ours, gain in gains:
        assert gain == pytest.approx(row["milliseconds"] / ours)
    assert len(list(sparamx.layer_curves())) == 3
    assert sparamx.roof_surface().count("<svg") == 1
