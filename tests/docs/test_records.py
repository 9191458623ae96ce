"""docs/reference/records.md: every committed record is listed once, with a command that exists."""

import json
import re
import shlex
import subprocess
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright.cli import command_parser
from tilewright.cli.discovery import find_command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "records.md").read_text()


def rows():
    """Patterns of files and the commands of each row."""
    table = re.search(r"<!-- records -->\n((?:\|.*\n)+)", PAGE)[1]
    for line in table.splitlines()[2:]:
        files, _, command = line.strip("|").split(" | ")
        words = re.findall(r"`([^`]+)`", command)
        yield re.findall(r"`([^`]+)`", files), [word for word in words if " " in word]


ROWS = list(rows())


def matches(file, pattern):
    """As ``fnmatch``, but a star stands for a part of one folder's or file's name."""
    return file.count("/") == pattern.count("/") and fnmatchcase(file, pattern)


@pytest.fixture(scope="module")
def committed():
    command = ["git", "ls-files", "*.json", "*.npy", "*.npz"]
    return subprocess.check_output(command, cwd=ROOT, text=True).split()


def test_every_record_is_listed_once(committed):
    assert len(committed) > 50
    for file in committed:
        found = [commands for files, commands in ROWS if any(matches(file, f) for f in files)]
        assert len(found) == 1, (file, found)


def test_every_row_has_a_record(committed):
    for files, _ in ROWS:
        for pattern in files:
            assert any(matches(file, pattern) for file in committed), pattern


@pytest.mark.parametrize("command", [command for _, commands in ROWS for command in commands])
def test_commands_exist(command):
    program, *words = shlex.split(command)
    if program == "tilewright":
        name, rest = find_command(words)
        parsed = command_parser(*name).parse_args(rest)
        assert parsed.run is not None
    elif program == "nox":
        option, session = words
        assert option == "-s"
        assert f"\ndef {session}(session: nox.Session)" in (ROOT / "noxfile.py").read_text()
    else:
        assert (program, words[0]) == ("python", "-m")
        assert find_spec(words[1]) is not None


def test_records_name_the_same_command(committed):
    """Beside the options that it was made with."""
    checked = 0
    for file in committed:
        record = json.loads((ROOT / file).read_text()) if file.endswith(".json") else None
        if isinstance(record, dict) and isinstance(record.get("command"), str):
            (listed,) = [row for files, row in ROWS if any(matches(file, f) for f in files)]
            assert record["command"].split()[:3] in [line.split()[:3] for line in listed], file
            checked += 1
    assert checked >= 10
