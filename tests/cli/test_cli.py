"""The command line as a user meets it: exit codes, one-line refusals, JSON, what gets imported."""

import importlib.metadata
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from tilewright import __version__, cli
from tilewright.base.errors import CommandError
from tilewright.cli.commands import GROUPS


def run(capsys, *argv):
    """Exit code, stdout and stderr of one command line."""
    try:
        code = cli.main(argv)
    except SystemExit as leave:  # how argparse ends --help
        code = leave.code
    out, err = capsys.readouterr()
    return code, out, err


def modules_after(*argv):
    """Names of the modules that one command line imports, in a process of its own."""
    script = (
        "import atexit, sys; from tilewright.cli import main;"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr));"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("words", cli.all_commands(), ids=" ".join)
def test_every_command_follows_the_contract(capsys, words):
    command = cli.load_command(*words)
    assert words[-1] == command.NAME
    assert command.EXAMPLE.startswith(f"tilewright {' '.join(words)}")
    code, out, err = run(capsys, *words, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: tilewright {' '.join(words)} [-h]")
    assert command.EXAMPLE in out
    assert "--json" in out
    for name in cli.command_names(*words):
        about = re.escape(cli.load_command(*words, name).HELP[:20])
        assert re.search(rf"^ +{name} +{about}", out, re.M)


def test_help_names_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for name in cli.command_names():
        assert cli.load_command(name).HELP.split()[0] in out
        assert f"\n  {name} " in out


def test_every_command_is_in_one_group():
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(cli.command_names())


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_every_command_and_its_options(capsys, shell):
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0
    assert all(name in out for name in cli.command_names())
    assert "liberty" in out  # an option of synth


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert (code, out) == (0, f"tilewright {__version__}\n")


def test_a_checkout_needs_no_metadata_of_its_own(capsys, monkeypatch):
    """`python -m tilewright` where the package was not installed."""

    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", not_installed)
    assert run(capsys, "list", "float_mul")[0] == 0
    assert run(capsys, "--version")[0] == 0


def test_no_command_is_a_usage_error(capsys):
    required = "the following arguments are required: COMMAND"
    assert run(capsys) == (2, "", f"tilewright: {required}; see tilewright --help\n")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (CommandError("no simulator"), 2, "tilewright: no simulator\n"),
        (ValueError("bad value"), 2, "tilewright: bad value\n"),
        (
            PermissionError(13, "Permission denied", "x.v"),
            2,
            "tilewright: x.v: Permission denied\n",
        ),
        (FileExistsError("not ours"), 2, "tilewright: not ours\n"),
        (KeyboardInterrupt(), 130, "tilewright: interrupted\n"),
    ],
)
def test_errors_of_a_command_become_exit_codes(capsys, monkeypatch, error, code, text):
    def fail(args):
        raise error

    monkeypatch.setattr(cli.load_command("list"), "run", fail)
    assert run(capsys, "list") == (code, "", text)


def test_traceback_on_request(capsys):
    with pytest.raises(ValueError, match="unknown block"):
        cli.main(["list", "nothing", "--traceback"])


def test_a_mistake_in_the_program_keeps_its_traceback(monkeypatch):
    def fail(args):
        raise TypeError("a bug")

    monkeypatch.setattr(cli.load_command("list"), "run", fail)
    with pytest.raises(TypeError, match="a bug"):
        cli.main(["list"])


def test_reader_that_leaves_early_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m tilewright list | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        executable="/bin/bash",
    )
    assert (done.stdout, done.stderr) == ("F", "")


def test_interrupt_leaves_no_half_written_file(tmp_path):
    """A real SIGINT at the worst moment: between writing a file and putting it in its place."""
    script = (
        "import os, signal, sys; from tilewright.cli import main;"
        "from tilewright.base import files;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # background jobs ignore it
        "files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGINT);"
        "sys.exit(main(['verilog', 'queue', '-o', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tilewright: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argv", [["list"], ["list", "float_mul"], ["--help"], ["--version"]])
def test_light_commands_import_nothing_heavy(argv):
    imported = modules_after(*argv)
    assert "tilewright.cli" in imported
    assert not {"amaranth", "matplotlib", "numpy", "pyosys", "cocotb", "rich"} & imported


def test_list_json_has_every_block(capsys):
    from tilewright.golden.params.resolve import BLOCKS

    code, out, _ = run(capsys, "list", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {row["block"] for row in rows} == set(BLOCKS)
    for row in rows:
        assert row["presets"] == list(BLOCKS[row["block"]].PRESETS)


def test_list_one_block(capsys):
    code, out, _ = run(capsys, "list", "float_mul:fp16,lanes=2", "--json")
    about = json.loads(out)
    values = {field["name"]: field["value"] for field in about["fields"]}
    assert code == 0
    assert (values["a"], values["lanes"]) == ("fp16", 2)
    assert about["inputs"] == [
        {
            "name": "i",
            "bits": 64,
            "fields": [
                {"name": name, "bits": 16, "count": 2, "signed": False} for name in ("a", "b")
            ],
        }
    ]
    assert about["timing"] == {"latency_cycles": 0, "interval_cycles": 1, "note": None}
    code, text, _ = run(capsys, "list", "float_mul:fp16,lanes=2")
    assert code == 0
    for words in ("float_mul__lanes_2__a_fp16", "nearest_even|toward_zero", "latency 0"):
        assert words in text


def test_every_preset_can_be_listed(capsys):
    from tilewright.golden.params.resolve import BLOCKS

    for name, cls in BLOCKS.items():
        for preset in cls.PRESETS:
            assert run(capsys, "list", f"{name}:{preset}")[0] == 0


def test_verilog_of_all_blocks(capsys, monkeypatch, tmp_path):
    from tilewright.golden.params import resolve

    monkeypatch.setattr(resolve, "BLOCKS", {"queue": resolve.BLOCKS["queue"]})
    code, out, _ = run(capsys, "verilog", "--all", "-o", str(tmp_path), "--json")
    slugs = {cls.preset(name).slug for cls in resolve.BLOCKS.values() for name in cls.PRESETS}
    assert code == 0
    assert len(json.loads(out)) == len(slugs)
    assert {path.name for path in tmp_path.iterdir()} == {
        "lint_waivers.vlt",
        *(f"{slug}{end}" for slug in slugs for end in (".v", "_pkg.sv", ".json", ".core")),
    }
    code, out, _ = run(capsys, "verilog", "--all", "-o", str(tmp_path))
    assert sorted(out.split()) == sorted(map(str, tmp_path.iterdir()))  # each once
