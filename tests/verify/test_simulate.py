"""``tilewright simulate`` from a user's side."""

import json
import re

import pytest

from tests.support.tables import table_rows
from tilewright.base.errors import CheckError
from tilewright.cli import main
from tilewright.studies.runs.simulation import Simulation


def run(capsys, *argv):
    code = main(["simulate", *argv])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("simulator", ["verilator", "icarus"])
def test_prints_cases_cycles_and_rate(capsys, simulator):
    code, out, err = run(capsys, "queue:tiny", "--simulator", simulator, "--cases", "1200")
    assert (code, err) == (0, "")
    name, header, row = out.splitlines()
    assert name == "queue__width_4__depth_2"
    assert header.split() == ["SIMULATOR", "RESULT", "CASES", "CYCLES", "CYCLES/S"]
    title = {"verilator": r"Verilator 5\.\d+", "icarus": r"Icarus Verilog \d+\.\d+"}[simulator]
    assert re.fullmatch(rf"{title} +passed +1,200 +\d+,\d\d\d +[\d,]+", row)


def test_json(capsys):
    code, out, _ = run(capsys, "popcount:odd", "--simulator", "icarus", "--json", "--seed", "3")
    data = json.loads(out)
    assert code == 0
    assert (data["block"], data["name"], data["seed"]) == ("popcount:odd", "popcount__width_13", 3)
    assert data["passed"] and data["cases"] == 1000 and data["cycles"] > 1000
    assert data["tests"] == [{"name": "equals_golden", "failure": None}]


def test_one_stall_replaces_the_three(capsys):
    def cycles(*options):
        _, out, _ = run(capsys, "queue", "--simulator", "icarus", "--json", *options)
        return json.loads(out)["cycles"]

    # The short passes come to about 150 cycles, one word a cycle to 1000 and a few.
    assert 1000 < cycles("--stall", "0") < 1500
    assert cycles("--stall", "0.5") > 1800
    assert cycles("--stall", "0.5", "--seed", "2") != cycles("--stall", "0.5")


REFUSALS = """
queu | unknown block 'queu'; did you mean queue?
queue --cases 0 | cases must be 1..10,000,000, not 0
queue --seed -2 | seed must be at least 0, not -2
queue --stall 1 | stall must be 0..0.95, not 1.0
queue --exhaustive | the bench of queue has no exhaustive cases
queue --m 3 | --m is an option of deca.gemm, not of queue
machine.layer --save x.npz | --save is an option of anda, harmonia, not of machine.layer
deca.gemm --cases 5 | --cases is an option of deca.cycles, not of deca.gemm
deca.gemm queue | unknown argument 'queue'; see tilewright simulate deca.gemm --help
queue --waves x.png | waves go to a .vcd file, not to 'x.png'
"""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        *table_rows(REFUSALS),
        (
            ["deca.cycles", "--exhaustive"],
            "unknown argument '--exhaustive'; see tilewright simulate deca.cycles --help",
        ),
    ],
)
def test_refusals(capsys, argv, message):
    assert run(capsys, *argv) == (2, "", f"tilewright: {message}\n")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--prefetch", "16", "deca.gemm"], "prefetch must be 0..15, not 16"),
        (["--json", "deca.gemm", "--prefetch", "16"], "prefetch must be 0..15, not 16"),
        (
            ["--block", "deca", "machine.layer"],  # the value of an option, no workload
            "models are compiled for a block anda or harmonia, not deca",
        ),
    ],
)
def test_options_may_stand_before_a_workload(capsys, argv, message):
    """A value is refused, so the options were read as the workload's own."""
    assert run(capsys, *argv) == (2, "", f"tilewright: {message}\n")


def test_a_failing_bench_is_a_result(capsys, monkeypatch):
    """Its text is on stdout, and the exit code says that a check failed."""

    def fail(self, block, bench, **options):
        raise CheckError(f"{bench}: not equal")

    monkeypatch.setattr(Simulation, "run", fail)
    bench = "tilewright.verify.machine.run: not equal\n"
    assert run(capsys, "anda") == (1, bench, "")
    bench = "deca:small: tilewright.verify.deca.cycles: not equal\n"
    assert run(capsys, "deca.cycles", "--block", "deca:small") == (1, bench, "")


def test_waves_are_written_and_named(capsys, tmp_path):
    path = tmp_path / "queue.vcd"
    argv = ["queue", "--simulator", "icarus", "--cases", "3", "--waves", str(path)]
    code, _, err = run(capsys, *argv)
    assert (code, err) == (0, f"waves in {path}\n")
    assert path.read_text().startswith("$date")
