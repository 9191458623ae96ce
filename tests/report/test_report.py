"""Pages of the report and their parts: true to the records, and to what is wrong."""

import json
import re
from pathlib import Path

import pytest

from tests.support.claims import claim
from tilewright import cli
from tilewright.base.records import updated_table
from tilewright.claims import facts, load_claims
from tilewright.golden.deca import expected_cycles
from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.golden.params.stream import STREAM_BLOCKS
from tilewright.report import hardware, html, plots
from tilewright.report.claims import claims_section
from tilewright.report.deca import PAPER_PARTS, coverage, cycles, live
from tilewright.report.deca.formats import tile_sizes
from tilewright.report.design import design_page
from tilewright.report.diagram import Diagram
from tilewright.report.drawings import draw_all
from tilewright.report.page import Context, Page
from tilewright.report.pages import blocks, checks, deca, sparamx
from tilewright.synth.record import SYNTHESIS, load_records, table_path
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.workload import TileJob

ROOT = Path(__file__).parents[2]


def write_records(folder, *names, **changes):
    """Committed records of synthesis into tables of ``folder``."""
    for name in names:
        record = load_records()[name] | changes
        with updated_table(table_path(SYNTHESIS, record["technology"], folder)) as table:
            table[name] = record


def test_a_stale_record_is_shown_and_strict_fails(tmp_path, monkeypatch, capsys):
    records = tmp_path / "records"
    record = load_records()["popcount.asap7"]
    write_records(records, "popcount.sky130hd")
    write_records(records, "popcount.asap7", rtlil_sha256="0" * 64)
    page = blocks.build(Context(records=records, cases=1))
    (problem,) = page.problems
    assert problem == (
        "popcount.asap7 no longer describes its block; to renew it:"
        f" tilewright synth {record['spec']} --tech asap7 --update-records"
    )
    assert page.body.count(">stale<") == 2  # beside the block and beside the record
    assert page.body.count(">fresh<") == 1
    pages = {"blocks": page}
    monkeypatch.setattr("tilewright.report.build_report", lambda *_: pages)
    assert cli.main(["report", "-o", str(tmp_path / "out")]) == 0
    assert cli.main(["report", "-o", str(tmp_path / "out"), "--strict"]) == 1
    assert f"tilewright: blocks: {problem}\n" in capsys.readouterr().err


def test_many_stale_records_are_one_line(tmp_path):
    write_records(tmp_path, "queue.asap7")
    write_records(tmp_path, "popcount.asap7", "popcount.sky130hd", rtlil_sha256="0" * 64)
    assert blocks.build(Context(records=tmp_path, cases=1)).problems == [
        "2 of 3 records no longer describe their blocks;"
        " to renew them: tilewright synth --all --stale --update-records"
    ]


def test_a_failing_check_fails_the_command(tmp_path, monkeypatch, capsys):
    pages = {"checks": Page(summary="", body=html.Markup(""), data={}, failures=["add: case 3"])}
    monkeypatch.setattr("tilewright.report.build_report", lambda *_: pages)
    assert cli.main(["report", "-o", str(tmp_path / "out"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failures"] == ["checks: add: case 3"]


def test_live_checks_notice_a_wrong_golden_model(monkeypatch):
    def wrong(a_fmt, b_fmt, out_fmt, a, b):
        good = checks.multiply(a_fmt, b_fmt, out_fmt, a, b)
        good[7] ^= 1
        return good

    check = checks._operation("multiply", checks.FP16, wrong, checks.np.multiply)
    assert re.fullmatch(r"case 7 \(0x\w+, 0x\w+\): 0x\w+, not 0x\w+", check(100)["mismatch"])


def test_live_checks_notice_wrong_rtl(monkeypatch):
    from tilewright.golden.params.arith import PopcountParams
    from tilewright.hw.arith.popcount import Popcount

    stages = Popcount.stages

    def wrong(self):
        return [*stages(self), lambda m, x: {"count": x.count ^ 1}]

    monkeypatch.setattr(Popcount, "stages", wrong)
    assert checks._check_rtl(PopcountParams())["mismatch"].startswith("case 0 (")


def test_without_records_the_page_says_so(tmp_path):
    page = blocks.build(Context(records=tmp_path, cases=1))
    assert page.summary == "There is no synthesis record yet."


def test_text_is_escaped_once():
    assert html.paragraph("a < b & c", html.code("<x>")) == (
        "<p>a &lt; b &amp; c <code>&lt;x&gt;</code></p>"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-0.0, "0"),
        (12345, "12,345"),
        (0.18954, "0.1895"),
        (2047.4, "2,047"),
        (1e38, "1e+38"),
    ],
)
def test_numbers(value, shown):
    assert html.number(value) == shown


def test_tables_put_numbers_to_the_right_and_dash_what_is_missing():
    made = html.table(("A", "B"), [("x", 1.5), ("y", None)])
    assert '<th class="number">B</th>' in made
    assert '<td class="number">\N{EN DASH}</td>' in made
    assert "<td>x</td>" in made


def test_drawings_are_the_same_every_time_and_take_the_page_colours():
    points = {"one": [("a", 1, 2), ("b", 3, 4)], "two": [("c", 10, 20)]}
    drawn = [plots.scatter("name", points, x_label="x", y_label="y") for _ in range(2)]
    assert drawn[0] == drawn[1]
    for words in ("currentColor", "var(--series-0)", "var(--series-1)", ">a<", ">b<", ">c<"):
        assert words in drawn[0]
    assert not re.search(r"#0[147]0[258]", drawn[0])


# DECA.


@pytest.fixture
def no_simulation(monkeypatch):
    """The DECA page without its tiles through the RTL, which the whole report has."""
    nothing = {"block": "deca:small", "seed": 3, "cycles": 0, "checks": []}
    monkeypatch.setattr(deca, "run_live", lambda: nothing)


def deca_page(folder):
    """On records of benches in ``folder``, without synthesis."""
    return deca.build(Context(records=folder, cases=1, measured=folder))


def cycle_row(**changes):
    return {
        "code_bits": 8,
        "scale": "none",
        "group": 32,
        "int8": False,
        "density": 0.5,
        "tiles": 123,
        "measured": 38.85,
        "model": 38.85,
        "formula": float(expected_cycles(DecaParams(), TileConfig(sparse=True), 0.5)),
    } | changes


def write_cycles(folder, *rows):
    record = {"command": "as it was made", "seed": 1, "blocks": {"deca:paper": rows}}
    (folder / "deca_cycles.json").write_text(json.dumps(record))


def test_deca_page_without_records_says_how_to_make_them(tmp_path, no_simulation):
    page = deca_page(tmp_path)
    assert page.failures == []
    assert [problem.partition(";")[0] for problem in page.problems] == [
        "no record of cycles",
        "no record of coverage",
    ]
    for command in (
        cycles.COMMAND,
        coverage.COMMAND,
        "tilewright synth deca:paper --update-records",
    ):
        assert html.code(command) in page.body


def test_deca_page_shows_measured_cycles_beside_the_papers(tmp_path, no_simulation):
    write_cycles(tmp_path, cycle_row())
    page = deca_page(tmp_path)
    (row,) = page.data["cycles_per_tile"]
    assert row["paper"] == claim("deca.cycles_per_tile.w32l8")["50"]
    for shown in ("38.85", "38.84", "123", "as it was made"):
        assert shown in page.body
    assert page.failures == []
    assert not any("formula" in problem for problem in page.problems)


def test_deca_page_fails_where_measured_cycles_differ_from_the_model(tmp_path, no_simulation):
    write_cycles(tmp_path, cycle_row(measured=38.875))
    assert deca_page(tmp_path).failures == [
        "deca:paper, 8-bit codes, density 50%: measured 38.875, the model says 38.85"
    ]


def test_deca_page_notices_a_record_of_another_formula(tmp_path, no_simulation):
    write_cycles(tmp_path, cycle_row(formula=38.9))
    assert deca_page(tmp_path).problems[0] == (
        "the record deca_cycles has another formula for deca:paper, 8-bit codes, density 50%;"
        f" to renew it: {cycles.COMMAND}"
    )


@pytest.mark.parametrize(
    ("preset", "config", "density", "figure"),
    [
        ("paper", TileConfig(code_bits=8), 1.0, ("w32l8", "100")),
        ("small", TileConfig(sparse=True), 0.05, ("w8l4", "5")),
        ("large", TileConfig(sparse=True), 0.3, ("w64l64", "30")),
        ("paper", TileConfig(code_bits=7), 1.0, ("dense", "7")),
        ("small", TileConfig(code_bits=7), 1.0, None),
        ("paper", TileConfig(int8=True), 1.0, None),
        ("paper", TileConfig(sparse=True), 0.25, None),
    ],
)
def test_cycles_of_the_paper(preset, config, density, figure):
    shown = cycles.paper_cycles(load_claims("deca"), DecaParams.preset(preset), config, density)
    assert shown == (figure and claim(f"deca.cycles_per_tile.{figure[0]}")[figure[1]])


def test_bytes_per_tile_are_the_papers():
    for row in tile_sizes(load_claims("deca")):
        assert abs(row["compressed"] - row["formula"]) < 1  # whole bytes, rounded up
        assert row["paper"] in (None, pytest.approx(row["formula"]))


def test_deca_page_names_holes_of_coverage(tmp_path, no_simulation):
    model = Coverage({"format": ["8 bit", "4 bit"], "squash": ["rows are read", "undisturbed"]})
    for squash, tiles in (("undisturbed", 31), ("rows are read", 17)):
        for _ in range(tiles):
            model.hit(format="8 bit", squash=squash)
    record = {"command": "it was made so", "blocks": {"deca:paper": model.as_dict()}}
    (tmp_path / "deca_coverage.json").write_text(json.dumps(record))
    body = deca_page(tmp_path).body
    for shown in ("2 holes", "8 bit, 4 bit", ">48<", ">17<", "it was made so"):
        assert shown in body


def finished_job(number, **changes):
    rows = [number * 100 + row for row in range(16)]
    job = TileJob(0, {}, rows, cycles=5, done_at=5 * number)
    job.got_rows = dict(enumerate(rows))
    for name, value in changes.items():
        setattr(job, name, value)
    return job


def test_live_tiles_with_other_bits_or_cycles_are_noticed():
    jobs = [finished_job(k) for k in range(4)]
    assert live.check_tiles(TileConfig(sparse=True), jobs)["mismatch"] is None
    late = [*jobs[:3], finished_job(3, done_at=16)]
    assert live.check_tiles(TileConfig(sparse=True), late)["mismatch"] == (
        "cycles [5, 6], the model says [5, 5]"
    )
    jobs[1].got_rows[2] ^= 1
    assert live.check_tiles(TileConfig(sparse=True), jobs)["mismatch"] == (
        "tile 1, row 2: 0x67, not 0x66"
    )


def deca_record(**changes):
    return {
        "block": "deca",
        "spec": "deca:paper",
        "parameters": DecaParams().as_dict(),
        "technology": "asap7",
        "goal": "fastest",
        "rtlil_sha256": "",
        "liberty_sha256": "",
        "tools": {},
        "metrics": {
            name: {"value": value, "unit": "", "better": "lower"}
            for name, value in {
                "area": 41234.5,
                "memory_area": 23456.0,
                "cells": 98765,
                "register_bits": 4321,
                "memory_bits": 1234,
                "delay": 395.0,
            }.items()
        },
        "clock_gating": True,
        "longest_path": {"start": "here", "end": "there", "cells": 2},
        "area_by_part": {
            "loader0.load_unit": 1000.0,
            "loader1.data_queue": 4000.0,
            "loader1.window": 500.0,
            "tout0": 2000.0,
            "pipeline.lut": 1500.0,
            "pipeline": 900.0,
            "": 100.0,
        },
    } | changes


def test_area_is_divided_as_the_paper_does():
    assert hardware.area_by_group(deca_record(), PAPER_PARTS, "rest") == {
        "buffers": 7000.0,
        "lut": 1500.0,
        "rest": 1500.0,
    }
    assert hardware.area_by_group(deca_record(area_by_part={}), PAPER_PARTS, "rest") is None


def test_deca_page_shows_synthesis_beside_the_paper(tmp_path, no_simulation):
    with updated_table(table_path(SYNTHESIS, "asap7", tmp_path)) as table:
        table["deca.asap7"] = deca_record()
    context = Context(records=tmp_path, cases=1, measured=tmp_path)
    context.__dict__["stale"] = {"deca.asap7": "a command"}
    body = deca.build(context).body
    paper, share = claim("deca.area.per_pe"), claim("deca.area.share")
    for value in (41234.5, 98765, 395.0, 7000.0, paper, paper * share["lut"] / 100):
        assert html.number(value) in body
    for shown in (">stale<", ">here<", ">there<", ">tout0<"):
        assert shown in body
    assert "tilewright synth deca:paper " not in body


def test_claims_of_a_page():
    made = claims_section(facts("deca"))
    clock, shares = (claim(f"deca.{name}") for name in ("clock", "area.share"))
    words = ", ".join(f"{name} {value}" for name, value in shares.items())
    for shown in (">deca.clock<", f">{clock}<", ">GHz<", words):
        assert shown in made
    assert claims_section([]) == ""


def test_a_design_without_records_says_how_to_make_them(tmp_path):
    claims = load_claims("deca").values()
    page = design_page(Context(records=tmp_path, cases=1), "words", ("stream",), claims=claims)
    assert {block["block"] for block in page.data["blocks"]} == {cls.block for cls in STREAM_BLOCKS}
    assert page.data["claims"]["deca.clock"] == claim("deca.clock")
    for shown in (
        "tilewright synth queue:default --update-records",
        "first-in first-out queue",
        ">deca.clock<",
    ):
        assert shown in page.body


def test_a_design_with_records_shows_them(tmp_path):
    blocks_of_streams = {cls.block for cls in STREAM_BLOCKS}
    records = load_records()  # of the others nobody asks whether they are stale
    write_records(tmp_path, *(n for n, r in records.items() if r["block"] in blocks_of_streams))
    page = design_page(Context(records=tmp_path, cases=1), "words", ("stream",))
    assert "--update-records" not in page.body.replace("tilewright synth --update-records", "")
    (record,) = [r for n, r in page.data["synthesis"].items() if n == "queue.asap7"]
    assert html.number(record["metrics"]["area"]["value"]) in page.body
    assert record["longest_path"]["start"] in page.body


def test_long_words_of_a_table_may_be_broken():
    rows = [(1, "short"), (2, "many words " * 9), (3, "some words " * 3)]
    made = html.table(("a", "b" * 99), rows)
    assert made.count('class="words"') == 1
    assert '<td class="phrase">some words ' in made
    assert '<td class="words">many words ' in made


@pytest.mark.parametrize(("top", "labels"), [(1000, "100 200 500"), (170, "60 70 80 90 100")])
def test_a_logarithmic_axis_has_enough_numbers(top, labels):
    line = {"a": [(0, 60), (1, top)]}
    drawn = plots.curves("name", line, line, x_label="x", y_label="y", logarithmic=True)
    assert {f">{label}<" for label in labels.split()} <= set(re.findall(r">\d+<", drawn))
    assert ">300<" not in drawn


def test_areas_relative_to_a_reference():
    def record(spec, technology, goal, area, delay):
        values = {"area": {"value": area}, "delay": {"value": delay}}
        return {"spec": spec, "technology": technology, "goal": goal, "metrics": values}

    records = {
        "a": record("queue", "asap7", "area", 200.0, 50.0),
        "b": record("queue:tiny", "asap7", "area", 50.0, 40.0),
        "c": record("queue:tiny", "asap7", "fastest", 60.0, 30.0),  # no reference
        "d": record("queue:tiny", "sky130hd", "area", 3.0, 3.0),  # no reference
    }
    assert hardware.relative_figures(records, "queue:default") == [
        {"spec": "queue", "technology": "asap7", "goal": "area", "area": 1.0, "delay": 1.0},
        {"spec": "queue:tiny", "technology": "asap7", "goal": "area", "area": 0.25, "delay": 0.8},
    ]


# SparAMX.


def race(**axes):
    """Rows of three contestants that differ in speed."""
    common = {"inputs": 64, "outputs": 32, "batch": 1, "sparsity": 0.5, "threads": 2} | axes
    return [
        common | {"kernel": kernel, "seconds": seconds, "bytes": 1, "bytes_per_second": 1 / seconds}
        for kernel, seconds in (("sparse bf16", 4e-6), ("stock bf16", 7e-6), ("read", 2e-6))
    ]


def kernel_record():
    surface = {"scheme": "bf8", "density": 0.5, "kernel": "DECA tiles", "predicted": 3e5}
    return {
        "machine": {"processor": "A processor", "compiler": "cc 1", "numpy": "2", "torch": None},
        "roofs": {"threads": 2, "read_bytes": 91e9, "matrix": 1e9},
        "plan": {"working_set": 960_000_000},
        "layers": race(),
        "sparsity": [*race(sparsity=0.0), *race(sparsity=0.5)],
        "batch": [*race(batch=1), *race(batch=4)],
        "threads": race(),  # of one number: no curve
        "roof_surface": [surface | {"tiles_per_second": 2.5e5}],
        "attention": race(),
    }


def show(monkeypatch, records):
    """Let the page find one record of each kind."""
    found = {kind: {"machine": record} for kind, record in records.items()}
    monkeypatch.setattr(sparamx, "load_records", lambda kind: found.get(kind, {}))


def test_sparamx_page_shows_a_record(tmp_path, monkeypatch):
    show(monkeypatch, {"": kernel_record()})
    page = sparamx.build(Context(records=tmp_path, cases=1))
    assert page.summary == "Sparse kernels on real processors: measured on A processor."
    for shown in (
        "91.0 GB/s",
        ">1.75<",
        ">50<",
        "64x32",
        "bf8 50%",
        "tilewright/kernels/records/machine",
    ):
        assert shown in page.body
    assert page.body.count("<svg") == 3  # sparsity, batch, surface


def test_sparamx_page_shows_a_whole_model(tmp_path, monkeypatch):
    parts = {"linear layers": 0.06, "head": 0.004, "norms": 0.001}
    operators = [
        {"model": model, "batch": 1, "operator": part, "seconds": factor * seconds}
        for model, factor in (("stock bf16", 3), ("sparse bf16", 1))
        for part, seconds in parts.items()
    ]
    record = {
        "command": "make it",
        "machine": {"torch": "2.9", "processor": "some processor"},
        "plan": {"num_hidden_layers": 32, "context": 128, "tokens": 4, "rounds": 5},
        "packing": [{"seconds": 30, "peak_bytes": 11, "model_bytes": 10}],
        "decode": [
            {"model": "stock bf16", "batch": 1, "seconds": 0.2},
            {"model": "sparse bf16", "batch": 1, "seconds": 0.08},
        ],
        "operators": operators,
        "sparsity": [
            {"model": "stock bf16", "sparsity": None, "seconds": 0.2},
            {"model": "sparse bf16", "sparsity": 0.5, "seconds": 0.08},
            {"model": "sparse bf16", "sparsity": 0.7, "seconds": 0.06},
        ],
        "long_context": [{"model": "sparse bf16", "attention": "pruned", "seconds": 0.0875}],
    }
    record["plan"]["long_context"] = 16384
    rows = [{"program": "other", "type": "q4", "batch": 1, "part": "tokens", "milliseconds": 71.5}]
    rows.append({"program": "other", "type": "q9", "batch": 1, "part": "tokens", "failed": "no"})
    rivals = {"command": "python run_others.py", "rows": rows}
    show(monkeypatch, {"models": record, "rivals": rivals})
    body = sparamx.build(Context(records=tmp_path, cases=1)).body
    assert body.count("<svg") == 2 and "16384 tokens" in body and ">87.5<" in body
    assert "run_others.py" in body and ">71.5<" in body and "failed" in body
    assert "Whole models" in body and "1.10 times" in body and ">2.5<" in body
    assert "64.0 ms of sparse bf16" in body


def test_sparamx_page_without_a_record_says_how_to_make_one(tmp_path, monkeypatch):
    show(monkeypatch, {})
    page = sparamx.build(Context(records=tmp_path, cases=1))
    assert page.summary == "Sparse kernels on real processors: not measured yet."
    assert html.code(sparamx.COMMAND) in page.body


# Drawings.


@pytest.mark.parametrize("name", draw_all())
def test_drawings_of_the_documentation_are_those_of_the_report(name):
    committed = (ROOT / "docs" / f"{name}.svg").read_text()
    assert committed == draw_all()[name].file(), "run python -m tilewright.report.drawings"


def test_a_drawing_escapes_its_words_and_needs_no_page():
    drawing = Diagram("d", "a < b", 10, 10)
    drawing.box(0, 0, 5, 5, "x & y", "small", kind="memory")
    drawing.arrow((0, 0), (5, 5), both=True)
    inside, alone = drawing.svg(), drawing.file()
    assert 'aria-label="a &lt; b"' in inside
    assert ">x &amp; y<" in inside
    assert inside.count("url(#d-head)") == 2
    assert "<style>" not in inside
    assert "--series-0" in alone and "xmlns=" in alone


def test_curves_draw_lines_and_points():
    drawn = plots.curves(
        "c",
        {"one": [(0, 1), (1, 10)], "two": [(0, 2), (1, 3)]},
        {"one": [(0.5, 5)]},
        x_label="x",
        y_label="y",
        logarithmic=True,
    )
    assert "var(--series-0)" in drawn and "var(--series-1)" in drawn
    assert ">one<" in drawn and ">two<" in drawn
