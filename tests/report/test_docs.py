"""The documentation builds, its links lead somewhere, its examples run, its tables are true."""

from pathlib import Path

import pytest

from tests.support.examples import blocks, console_examples, run_examples, table
from tilewright.base.errors import CommandError
from tilewright.golden.deca import expected_cycles
from tilewright.golden.params.block import Field, Port
from tilewright.golden.params.deca import (
    AXI_TOUT,
    CONFIG_FIELDS,
    LOADER_STRIDE,
    STATUS_FIELDS,
    TILE_BYTES,
    DecaParams,
    LoaderRegister,
    Register,
    TileConfig,
    TileError,
)
from tilewright.report.docs import build_docs

ROOT = Path(__file__).parents[2]
DECA = (ROOT / "docs" / "deca.md").read_text()
PRESETS = {preset: DecaParams.preset(preset) for preset in DecaParams.PRESETS}


def build(tmp_path, **files):
    source = tmp_path / "docs"
    source.mkdir()
    for name, content in files.items():
        (source / f"{name}.md").write_text(content)
    return build_docs(source, tmp_path / "html")


def test_the_documentation_of_the_project_builds(tmp_path):
    pages = build_docs(ROOT / "docs", tmp_path / "html")
    assert "index.html" in pages
    html = (tmp_path / "html" / "index.html").read_text()
    assert 'href="architecture.html"' in html
    assert 'src="spine.svg"' in html
    assert (tmp_path / "html" / "spine.svg").exists()


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_links_of_the_pages_beside_docs(tmp_path):
    assert {"README.html", "CONTRIBUTING.html"} <= set(build_docs(ROOT, tmp_path / "html"))


def test_links_between_pages_become_html(tmp_path):
    build(tmp_path, index="# A\n[b](b.md#the-end)\n", b="# B\n## The end!\n[x](../docs/index.md)\n")
    assert '<a href="b.html#the-end">' in (tmp_path / "html" / "index.html").read_text()
    page = (tmp_path / "html" / "b.html").read_text()
    assert '<h2 id="the-end">' in page
    assert '<a href="index.html">' in page


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("# A\n[x](gone.md)", "gone.md does not exist"),
        ("# A\n![x](gone.svg)", "gone.svg does not exist"),
        ("# A\n[x](#nowhere)", "#nowhere: no such heading"),
        ("# A\n[x](../src.py)", "../src.py does not exist"),
    ],
)
def test_broken_links_are_named(tmp_path, content, problem):
    with pytest.raises(CommandError, match=r"^broken links\n.*index\.md: ") as refusal:
        build(tmp_path, index=content)
    assert str(refusal.value).endswith(f"index.md: {problem}")
    assert not (tmp_path / "html").exists()


def test_a_page_needs_a_heading(tmp_path):
    with pytest.raises(CommandError, match=r"index\.md has no heading$"):
        build(tmp_path, index="words\n")


def test_a_folder_without_pages_is_refused(tmp_path):
    with pytest.raises(CommandError, match=r"^no Markdown file in "):
        build(tmp_path)


# DECA.


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


def test_registers_of_the_deca_page():
    assert columns("registers", 0, 1) == [[r.name, f"0x{r.value:03x}"] for r in Register]
    assert columns("loader registers", 0, 1) == [
        [r.name, f"0x{r.value:02x}"] for r in LoaderRegister
    ]
    assert f"those of loader k start {LOADER_STRIDE:#x} bytes further each" in DECA


def test_fields_of_the_deca_page():
    assert columns("configuration", 0, 1) == bit_ranges(CONFIG_FIELDS)
    assert columns("status", 0, 1) == bit_ranges(STATUS_FIELDS)


def test_errors_of_the_deca_page():
    assert columns("errors", 0, 1) == [[str(e.value), e.name] for e in TileError]


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
