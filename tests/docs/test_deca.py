"""The page about DECA: its examples run, its tables are the declarations."""

from pathlib import Path

import pytest

from tests.support.examples import blocks, console_examples, run_examples, table
from tilewright.golden.deca import expected_cycles
from tilewright.golden.params.block import Field, Port
from tilewright.golden.params.deca import (
    AXI_TOUT,
    CONFIG_FIELDS,
    STATUS_FIELDS,
    TILE_BYTES,
    DecaParams,
    TileConfig,
)

ROOT = Path(__file__).parents[2]
DECA = (ROOT / "docs" / "deca.md").read_text()
PRESETS = {preset: DecaParams.preset(preset) for preset in DecaParams.PRESETS}


@pytest.mark.parametrize("examples", console_examples(DECA), ids=lambda block: block[0][0])
def test_commands_of_the_deca_page(examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_examples(examples, capsys)


def test_programs_of_the_deca_page():
    """One after the other, as a reader would type them."""
    names = {}
    for program in blocks(DECA, "python"):
        exec(compile(program, "docs/deca.md", "exec"), names)
    assert len(names["rows"]) == 16


def columns(name, *numbers):
    return [[row[k] for k in numbers] for row in table(DECA, name)]


def bit_ranges(fields: tuple[Field, ...]) -> list[list[str]]:
    rows, at = [], 0
    for field in fields:
        last = at + field.bits - 1
        rows.append([field.name, str(at) if field.bits == 1 else f"{at}..{last}"])
        at += field.bits
    return rows


def payload(port: Port) -> str:
    return ", ".join(f"{field.name} {field.bits}" for field in port.fields)


def test_ports_of_the_deca_page():
    p = DecaParams()
    ways = {"in": p.inputs, "out": p.outputs}
    assert columns("ports", 0, 1, 2) == [
        [port.name, way, payload(port)] for way, ports in ways.items() for port in ports
    ]


def test_tepl_ports_of_the_deca_page():
    p = DecaParams()
    command = payload(Port("", p.command_fields))
    ways = {"in": p.tepl_inputs, "out": p.tepl_outputs}
    assert columns("tepl", 0, 1, 2) == [
        [port.name, way, payload(port).replace(command, "and a command's fields")]
        for way, ports in ways.items()
        for port in ports
    ]


def test_fields_of_the_deca_page():
    assert columns("configuration", 0, 1) == bit_ranges(CONFIG_FIELDS)
    assert columns("status", 0, 1) == bit_ranges(STATUS_FIELDS)


def test_lookups_of_the_deca_page():
    assert table(DECA, "lookups") == [
        [preset, *(str(p.lookups(bits)) for bits in (8, 7, 6, 16))] for preset, p in PRESETS.items()
    ]
    assert {p.lookups(1) - p.lookups(6) for p in PRESETS.values()} == {0}


def test_axi_offsets_of_the_deca_page():
    offsets = [0, *(AXI_TOUT + k * TILE_BYTES for k in range(DecaParams.loaders))]
    assert columns("axi", 0) == [[f"0x{offset:04x}"] for offset in offsets]


def test_cycles_of_the_deca_page():
    rows = table(DECA, "cycles")
    assert len(rows) > 3
    for density, *shown in rows:
        share = float(density.rstrip("%")) / 100
        config = TileConfig(code_bits=8, sparse=share < 1)
        assert shown == [
            f"{float(expected_cycles(p, config, share)):.2f}" for p in PRESETS.values()
        ]


def test_limits_of_the_deca_page():
    p = DecaParams()
    assert f"tiles to look ahead, 0..{p.max_prefetch_degree}; 0 is off" in DECA
    assert f"lies 0 to {p.max_prefetch_stride} bytes above" in DECA
    assert columns("sizes", 0, 1, 2) == [
        [preset, str(q.lanes), str(q.luts)] for preset, q in PRESETS.items()
    ]
