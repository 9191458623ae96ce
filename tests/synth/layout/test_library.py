"""LEF files of several forms become one library; what is missing is named."""

import gzip
from pathlib import Path

import pytest

from tilewright.base.errors import CommandError
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.layout import library
from tilewright.synth.layout.library import layout_table, library_of
from tilewright.synth.liberty import to_liberty
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.memory import find_macros
from tilewright.synth.technology import TECHNOLOGIES, load_technology

ASAP7 = load_technology("asap7")


def macro(name: str) -> str:
    return f"MACRO {name}\n  CLASS CORE ;\n  SOURCE USER ;\n  SIZE 0.1 BY 0.27 ;\nEND {name}\n\n"


def layers(text: str = "") -> str:
    names = layout_table("asap7")["wires"]
    return "VERSION 5.8 ;\n" + "".join(f"LAYER {n}\n  TYPE ROUTING ;\nEND {n}\n" for n in names)


def cells() -> list[str]:
    table = layout_table("asap7")
    return [*ASAP7.cells, *table["fillers"], table["tap"]["cell"]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """LEF of ASAP7: layers, one cell apart and compressed, all others in one file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lef = tmp_path / "lef"
    (lef / "more").mkdir(parents=True)
    (lef / "tech.tlef").write_text(layers())
    first, *others = cells()
    (lef / "more" / "first.lef.gz").write_bytes(
        gzip.compress(f"VERSION 5.5 ;\n{macro(first)}".encode())
    )
    site = "SITE asap7sc7p5t\n CLASS CORE ;\n SIZE 0.054 BY 0.270 ;\nEND asap7sc7p5t\n\n"
    text = "VERSION 5.8 ;\n" + site + "".join(map(macro, [*others, "UNKNOWNx1"])) + "END LIBRARY\n"
    (lef / "others.lef").write_text(text)
    return lef


def test_one_file_of_layers_and_one_of_cells(folder):
    found = library_of(ASAP7, lef=[folder])
    tech, all_cells = (Path(path).read_text() for path in found.lef)
    assert tech == layers()
    assert all_cells.startswith("VERSION 5.7 ;\n") and all_cells.count("VERSION") == 1
    assert all_cells.count("\nMACRO ") == len(cells()) and "UNKNOWNx1" not in all_cells
    assert "SITE asap7sc7p5t" in all_cells and "SOURCE" not in all_cells
    assert library_of(ASAP7, lef=[folder / "tech.tlef", folder]).folder == found.folder


def test_memories_come_with_stubs(folder):
    macros = find_macros(to_rtlil(resolve("figna_aligner"), memory_macros=True))
    found = library_of(ASAP7, macros, [folder])
    assert len(found.lef) == 2 + len(macros) and len(found.liberty) == 1 + len(macros)


def test_what_is_missing_is_named(folder):
    text = (folder / "others.lef").read_text().replace("MACRO TAPCELL", "MACRO NOCELL")
    (folder / "others.lef").write_text(text)
    with pytest.raises(CommandError, match=r"^no LEF of TAPCELL_ASAP7_75t_R found: give .* --lef"):
        library_of(ASAP7, lef=[folder])
    (folder / "tech.tlef").unlink()
    with pytest.raises(CommandError, match=r"^no LEF with the layers of asap7 found"):
        library_of(ASAP7, lef=[folder])
    with pytest.raises(CommandError, match=r"missing: no such file or folder$"):
        library_of(ASAP7, lef=[folder / "missing"])


def test_two_files_of_layers_are_one_too_many(folder):
    (folder / "max.tlef").write_text(layers())
    with pytest.raises(CommandError, match=r"have the layers of asap7: max.tlef, tech.tlef; give"):
        library_of(ASAP7, lef=[folder])


def test_the_package_serves_where_the_user_names_files_of_another_technology(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(library, "package_files", lambda *what: asked.append(what) or [])
    with pytest.raises(CommandError, match=r"^no LEF with the layers of sky130hd found"):
        library_of(load_technology("sky130hd"), lef=[folder])
    assert asked == [("sky130hd", "lef")]


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_the_table_knows_cells_and_layers(technology):
    cells, table = load_technology(technology), layout_table(technology)
    assert table["buffer"] in cells.cells
    wires = table["wires"].keys()
    used = {*table["routing"], *table["clock_routing"], *table["pin_layers"]}
    used |= {layer for use in ("signal", "clock") for layer in table[f"{use}_wire"].split()}
    assert used <= wires
    assert used <= table["tracks"].keys() | table.get("row_tracks", {}).keys()
    power = {layer for pair in table["supply"]["connect"] for layer in pair}
    assert power == {*table["supply"]["rails"], *table["supply"]["straps"]}


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_liberty_with_clock_gates(technology, tmp_path):
    """The same cells, and the gates with what other tools know them by."""
    table = load_technology(technology)
    plain, gated = to_liberty(table), to_liberty(table, gates=True)
    assert "clock_gating_integrated_cell" not in plain
    assert gated.count("clock_gating_integrated_cell : latch_posedge;") == len(table.clock_gates)
    assert gated.count("clock_gate_out_pin : true;") == len(table.clock_gates)
    assert gated.startswith(plain[:1000])
    path = tmp_path / "gated.lib"
    path.write_text(gated)
    read = read_liberty([path])
    for name in table.clock_gates:
        ours, theirs = table.cells[name], read.cells[name]
        assert theirs.inputs == pytest.approx(ours.inputs)
        assert theirs.setup == pytest.approx(ours.setup)
