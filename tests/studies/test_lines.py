"""Lines of functions that tests ran: which count, whose they are, and what the record says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lines import ROOT, lines_of, name_of, package_of, record
from tilewright.studies.evidence.lines import load_lines

SOURCE = '''"""A module."""

VALUE = 1


class Thing:
    """A class."""

    kept = VALUE

    def method(self):
        """A method."""
        if self.kept:
            return [
                n
                for n in range(3)
            ]
        return None
'''


def test_only_lines_of_functions_count(tmp_path):
    path = tmp_path / "thing.py"
    path.write_text(SOURCE)
    found = lines_of(path)
    assert {13, 18} <= found and not found & {1, 3, 6, 9, 11}


def test_files_have_one_name_and_a_package():
    linked = ROOT / "tilewright" / "golden" / "bits.py"
    assert name_of(linked) == "golden/bits.py"
    assert package_of("golden/bits.py") == "tilewright.golden"
    assert package_of("tilewright/base/files.py") == "tilewright.base"
    assert package_of("tilewright/__main__.py") == "tilewright"
    assert name_of(Path("<string>")) is None and name_of(Path(__file__)) is None


def test_lines_that_ran_are_counted_for_their_package():
    file = "tilewright/base/files.py"
    lines = lines_of(ROOT / file)
    packages = record({file: {min(lines), max(lines), 100_000}})["packages"]
    assert packages["tilewright.base"]["ran"] == 2 < packages["tilewright.base"]["lines"]
    assert {found["ran"] for name, found in packages.items() if name != "tilewright.base"} == {0}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="--lines needs Python 3.12 or later")
def test_pytest_writes_what_ran(tmp_path):
    test = tmp_path / "test_one.py"
    test.write_text(
        "from tilewright.base.files import write_atomic\n"
        "def test_one(tmp_path): write_atomic(tmp_path / 'a', 'b')\n"
    )
    plugins = ["-p", "tests.support.lines", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command = [sys.executable, "-m", "pytest", *plugins, f"--rootdir={tmp_path}", str(test)]
    path = tmp_path / "lines.json"
    subprocess.run([*command, "--lines", str(path)], cwd=ROOT, check=True, capture_output=True)
    (found,) = [line for line in load_lines(path) if line.package == "tilewright.base"]
    assert 0 < found.ran < found.lines


def test_the_record_names_packages_that_exist():
    for found in load_lines():
        assert found.ran <= found.lines and found.share <= 1
        assert (ROOT / "tilewright" / found.package.removeprefix("tilewright").lstrip(".")).is_dir()


@pytest.mark.parametrize("option", ["--lines", "--outcomes"])
def test_sessions_may_write_to_a_file_that_is_there(option, tmp_path):
    """As one word with the file; pytest would look for its options beside a file that is apart."""
    assert f'"{option}"' not in (ROOT / "noxfile.py").read_text()
    assert f'f"{option}=' in (ROOT / "noxfile.py").read_text()
    path = tmp_path / "there.json"
    path.write_text("{}")
    command = [sys.executable, "-m", "pytest", f"{option}={path}", "--markers"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "unrecognized arguments" not in done.stderr
    assert done.returncode == 0 or "needs Python 3.12" in done.stderr
