"""The doctor's diagnosis: what is missing is named with what to type, and decides the exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright import cli
from tilewright.verify import tools
from tilewright.verify.simulators import find


@pytest.fixture
def machine(monkeypatch):
    """A machine with everything, from which a test takes something away."""

    class Machine:
        verilator = find.Simulator("verilator", Path("/v/verilator_bin"), "5.006", Path("/v"))
        icarus = find.Simulator("icarus", Path("/i/iverilog"), "11.0", Path("/i"))
        commands = ()  # what was run to install

    def run(command, **options):
        Machine.commands = (*Machine.commands, tuple(command))
        return subprocess.CompletedProcess(command, 0)

    def compiler():
        return Path("/usr/bin/c++")

    Machine.commands = ()
    monkeypatch.setattr(find, "find_verilator", lambda: Machine.verilator)
    monkeypatch.setattr(find, "find_icarus", lambda: Machine.icarus)
    monkeypatch.setattr(find, "find_compiler", compiler)
    monkeypatch.setattr(tools, "_release", lambda program: "12.2.0")
    monkeypatch.setattr(tools, "_libpython", lambda: tool("libpython", "/lib/libpython.so"))
    monkeypatch.setattr(tools, "_package", lambda name, purpose: tool(name, "Python package"))
    monkeypatch.setattr(tools.subprocess, "run", run)
    monkeypatch.setattr(find, "install_command", lambda name: f"apt-get install {name}")
    return Machine


def tool(name, path):
    return tools.Tool(name, "simulate", path, path and "1.0", True, f"pip install {name}")


def diagnose(capsys, *argv):
    code = cli.main(["doctor", "--json", *argv])
    said = json.loads(capsys.readouterr().out)
    missing = {t["name"]: t["hint"] for t in said["tools"] if t["path"] is None}
    return code, said["can_simulate"], missing


@pytest.mark.parametrize("name", ["verilator", "icarus"])
def test_one_simulator_is_enough(machine, monkeypatch, capsys, name):
    monkeypatch.setattr(machine, name, None)
    assert diagnose(capsys) == (0, True, {name: f"apt-get install {name}"})


def test_no_simulator_fails(machine, monkeypatch, capsys):
    monkeypatch.setattr(machine, "verilator", None)
    monkeypatch.setattr(machine, "icarus", None)
    code, ready, missing = diagnose(capsys)
    assert (code, ready, list(missing)) == (1, False, ["verilator", "icarus"])
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "icarus (missing), to get it: apt-get install icarus\n" in out
    assert out.endswith("not ready to simulate\n")


def test_a_simulator_that_is_too_old_does_not_count(machine, monkeypatch, capsys):
    old = find.Simulator("verilator", Path("/v/verilator_bin"), "4.038", Path("/v"))
    monkeypatch.setattr(machine, "verilator", old)
    monkeypatch.setattr(machine, "icarus", None)
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^verilator +4\.038, too old: 5\.006 needed +missing", out, re.MULTILINE)


def test_no_compiler_fails(machine, monkeypatch, capsys):
    def no_compiler():
        raise find.MissingToolError("no C++ compiler found")

    monkeypatch.setattr(find, "find_compiler", no_compiler)
    assert diagnose(capsys) == (1, False, {"c++": "apt-get install compiler"})


@pytest.mark.parametrize("part", ["_libpython", "_package"])
def test_missing_python_parts_fail(machine, monkeypatch, capsys, part):
    monkeypatch.setattr(tools, part, lambda *_: tool("absent", None))
    code, ready, missing = diagnose(capsys)
    assert (code, ready, missing) == (1, False, {"absent": "pip install absent"})


def test_install_does_what_the_hints_say(machine, monkeypatch, capsys):
    monkeypatch.setattr(machine, "verilator", None)
    monkeypatch.setattr(machine, "icarus", None)
    monkeypatch.setattr(tools, "_libpython", lambda: tool("libpython", None))
    assert diagnose(capsys, "--install")[0] == 1  # nothing has really been installed
    (pip, update, install) = machine.commands
    assert pip[1:] == ("-m", "pip", "install", "libpython")
    assert update == ("apt-get", "update")
    assert install == (
        *("apt-get", "install", "-y", "--no-install-recommends"),
        *("verilator", "icarus"),
    )


def test_install_leaves_what_needs_another_user_to_him(machine, monkeypatch, capsys):
    monkeypatch.setattr(machine, "icarus", None)
    monkeypatch.setattr(find, "install_command", lambda name: f"sudo apt-get install {name}")
    assert diagnose(capsys, "--install")[2] == {"icarus": "sudo apt-get install icarus"}
    assert machine.commands == ()


def test_install_with_nothing_missing_runs_nothing(machine, capsys):
    assert diagnose(capsys, "--install") == (0, True, {})
    assert machine.commands == ()


def test_versions_are_read_from_what_programs_say():
    assert re.fullmatch(r"\d+\.\d+(\.\d+)*", tools._release(sys.executable))


def test_packages_come_in_the_release_that_the_project_asks_for():
    assert re.fullmatch(r"pip install 'cocotb==[\d.]+'", find.package_command("cocotb"))
    assert re.fullmatch(r"pip install 'numpy>=[\d.]+'", find.package_command("numpy"))
    assert find.package_command("unheard-of") == "pip install unheard-of"
