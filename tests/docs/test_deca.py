"""The pages about DECA: their tables are the declarations."""

from pathlib import Path

from tests.support.examples import table
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

DOCS = Path(__file__).parents[2] / "docs"
# All pages of DECA as one text: each table is on one of them.
DECA = "\n".join(
    (DOCS / f"{name}.md").read_text() for name in ("deca", "deca-interface", "deca-timing")
)
PRESETS = {preset: DecaParams.preset(preset) for preset in DecaParams.PRESETS}


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
    assert f"tiles to look ahead, 0..{p.max_prefetch_degree}; 0 is off" in " ".join(DECA.split())
    assert f"lies 0 to {p.max_prefetch_stride} bytes above" in " ".join(DECA.split())
    assert columns("sizes", 0, 1, 2) == [
        [preset, str(q.lanes), str(q.luts)] for preset, q in PRESETS.items()
    ]
