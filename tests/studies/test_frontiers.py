"""Frontiers: which designs are best, what is recorded, and what the site shows of it."""

import json
from functools import partial

import pytest

from tests.support.claims import claim
from tilewright.cli import main
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve
from tilewright.site import hardware
from tilewright.site.problems import find_problems
from tilewright.studies.sweeps import frontiers
from tilewright.studies.sweeps import sweep as sweeps
from tilewright.studies.sweeps.frontiers import (
    FRONTIER,
    FRONTIERS,
    Design,
    frontier_record,
    jobs_of,
    load_frontier,
    load_frontier_record,
    pareto,
)
from tilewright.studies.sweeps.sweep import Failure, Result
from tilewright.synth.emit import to_rtlil
from tilewright.synth.liberty import to_liberty
from tilewright.synth.record import flow_sha256, sha256, store_record, table_path, tool_versions
from tilewright.synth.technology import load_technology

RECORDED = [(name, t) for name, f in FRONTIERS.items() for t in f.technologies]


def design(area, throughput):
    return Design(f"popcount,width={area}", "area", area, None, throughput, "")


def test_best_designs():
    """Equal area: only the faster; equal throughput: only the smaller; dominated: never."""
    best = [design(1, 1), design(3, 2), design(9, 5)]
    others = [design(1, 0.5), design(4, 2), design(5, 1.5), design(10, 5)]
    assert pareto([*others, *best]) == best
    assert pareto([]) == []


def test_throughput_of_deca_is_that_of_the_cycle_model():
    """Never more than the lanes give; bubbles of short tables cost some of it."""
    rate = FRONTIERS["deca"].throughput
    slow, paper, large = (DecaParams.preset(name) for name in ("small", "paper", "large"))
    assert rate(slow, {}) < 8 < rate(paper, {}) < 32 < rate(large, {}) < 64
    cycles = claim("deca.cycles_per_tile.w32l8")
    assert 512 / cycles["100"] < rate(paper, {}) < 512 / cycles["5"]


def test_deca_is_swept_over_all_powers_of_two():
    """As many tables as lanes at most, from eight lanes on."""
    swept = {(p.lanes, p.luts) for p in map(resolve, FRONTIERS["deca"].specs)}
    sizes = [1 << k for k in range(7)]
    assert swept == {(w, luts) for w in sizes[3:] for luts in sizes if luts <= w}


def test_papers_designs_are_designs_of_the_frontier():
    for frontier in FRONTIERS.values():
        swept = {resolve(job.spec) for job in jobs_of(frontier)}
        assert {resolve(spec) for spec in frontier.papers} <= swept
    assert len(FRONTIERS["deca"].papers) == 3 and len(FRONTIERS["harmonia"].papers) == 1


def result_of(job, area, delay):
    return Result(
        spec=job.spec,
        technology=job.technology,
        goal=job.goal,
        parameters={},
        metrics={"area": {"value": area}, "delay": {"value": delay}},
        rtlil_sha256=sha256(job.spec),
    )


@pytest.fixture
def made_up(tmp_path):
    """Records of one frontier in one technology, in a folder of their own."""
    frontier = FRONTIERS["harmonia"]
    jobs = [job for job in jobs_of(frontier) if job.technology == "asap7"]
    results = [result_of(job, 100.0 + 7 * k, 50.0) for k, job in enumerate(jobs)]
    write(tmp_path, frontier_record(frontier, "asap7", results))
    return tmp_path


def write(folder, record):
    store_record(FRONTIER, "asap7", "harmonia", record, folder)


def test_record_and_back(made_up):
    designs = load_frontier("harmonia", "asap7", made_up)
    assert len(designs) == 12
    assert {d.throughput for d in designs} == {16.0, 32.0}
    assert [d.throughput for d in pareto(designs)] == [16.0, 32.0]
    assert load_frontier("harmonia", "sky130hd", made_up) is None


def test_tables_show_the_best_and_those_of_papers(made_up, monkeypatch):
    monkeypatch.setattr(hardware, "load_frontier", partial(load_frontier, folder=made_up))
    assert hardware.recorded_frontiers() == [("harmonia", "asap7")]
    table = hardware.frontier_designs("harmonia", "asap7")
    assert table.column("Best").count(True) == 2
    assert any("Sections IV-B and V-C" in place for place in table.column("Paper"))
    (drawing,) = hardware.frontiers()
    assert drawing.count("<svg") == 1


def test_a_record_of_another_flow_is_a_problem(made_up):
    said = (
        "frontier harmonia in asap7 was made with other cells, tools or flow; to renew it:"
        " tilewright sweep --frontier harmonia --update-records"
    )
    assert said not in find_problems(made_up)
    write(made_up, load_frontier_record("harmonia", "asap7", made_up) | {"tools": {}})
    assert said in find_problems(made_up)


def test_a_failed_design_leaves_the_record_as_it_is(capsys, monkeypatch, made_up):
    def fails(job):
        if job.spec.endswith("fold=4"):
            return Failure(job.spec, job.technology, job.goal, "too large")
        return result_of(job, 9.0, 9.0)

    monkeypatch.setattr(frontiers, "store_record", partial(store_record, folder=made_up))
    monkeypatch.setattr(frontiers.load_frontier, "__defaults__", (made_up,))
    monkeypatch.setattr(sweeps, "work_out", fails)
    path = table_path(FRONTIER, "asap7", made_up)
    before = path.read_text()
    argv = ["sweep", "--frontier", "harmonia", "--tech", "asap7", "--jobs", "1", "--update-records"]
    assert main(argv) == 1
    out = capsys.readouterr().out
    assert path.read_text() == before
    assert "2 of 12 failed:" in out and "fold=4 in asap7: too large" in out


@pytest.mark.parametrize(("name", "technology"), RECORDED)
def test_records_are_of_this_flow(name, technology):
    command = f"tilewright sweep --frontier {name} --update-records"
    record = load_frontier_record(name, technology)
    assert record["tools"] == tool_versions(), command
    assert record["liberty_sha256"] == sha256(to_liberty(load_technology(technology))), command
    assert record["flow_sha256"] == flow_sha256(technology), command
    jobs = [job for job in jobs_of(FRONTIERS[name]) if job.technology == technology]
    assert [d["spec"] for d in record["designs"]] == [job.spec for job in jobs], command


def check_rtlil(name):
    for technology in FRONTIERS[name].technologies:
        for spec, recorded in {
            d.spec: d.rtlil_sha256 for d in load_frontier(name, technology)
        }.items():
            assert sha256(to_rtlil(resolve(spec), memory_macros=True)) == recorded, spec


@pytest.mark.parametrize("name", ["prefix_sum", "adder_tree"])
def test_records_are_of_these_blocks(name):
    check_rtlil(name)


@pytest.mark.full
@pytest.mark.parametrize("name", ["deca", "harmonia"])
def test_records_of_large_blocks_are_of_these_blocks(name):
    check_rtlil(name)


def test_command_prints_and_refuses(capsys, tmp_path, monkeypatch):
    assert main(["sweep", "--frontier", "prefix_sum", "--tech", "asap7", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["designs"]
    assert any(row["pareto"] for row in rows) and not all(row["pareto"] for row in rows)
    assert main(["sweep", "--frontier", "prefix_sum"]) == 0
    assert " *" in capsys.readouterr().out
