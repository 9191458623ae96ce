"""Weights in packages: parts are joined, checked by sha256, and asked for by name."""

import sys
from hashlib import sha256

import pytest

from tilewright.cli import main
from tilewright.golden.llm.model import ModelError
from tilewright.site.accuracy import model_records
from tilewright.studies.accuracy.checkpoints import PACKAGED, Packaged, model_path, packaged_path

PIECES = [b"GGUF" + bytes(range(100)), b"second", b"third"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Three packages with a piece each; what they are together."""
    for k, piece in enumerate(PIECES, 1):
        data = tmp_path / "site" / f"toy_model_part{k}" / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").touch()
        (data / f"part{k}.bin").write_bytes(piece)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = b"".join(PIECES)
    made = Packaged("toy-model-part", 3, "1.0", "toy.gguf", len(whole), sha256(whole).hexdigest())
    yield made
    for k in range(1, 4):
        sys.modules.pop(f"toy_model_part{k}", None)


def test_parts_are_joined_once(installed, tmp_path):
    path = packaged_path("toy", {"toy": installed})
    assert path.read_bytes() == b"".join(PIECES) and path.name == "toy.gguf"
    for piece in (tmp_path / "site").glob("*/data/*"):
        piece.unlink()
    assert packaged_path("toy", {"toy": installed}) == path
    assert list(path.parent.iterdir()) == [path]


def test_other_bytes_are_refused(installed, tmp_path):
    (tmp_path / "site" / "toy_model_part2" / "data" / "part2.bin").write_bytes(b"Second")
    with pytest.raises(ModelError, match=r"^toy: the joined parts have sha256 \w{16}\.\.\., not "):
        packaged_path("toy", {"toy": installed})
    assert not list((tmp_path / "cache").rglob("*.*"))


@pytest.mark.parametrize("name", PACKAGED)
def test_what_is_not_installed_says_what_to_install(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tilewright.golden.llm.load.find_spec", lambda _: None)
    with pytest.raises(ModelError, match=r"part1 is not installed; in bash, pip install --no"):
        model_path(name)
    assert main(["search", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_records_are_of_these_files():
    records = model_records()
    for name, model in PACKAGED.items():
        said = records[name]["model"]
        assert (said["file"], said["bytes"], said["digest"]) == (
            *(model.file, model.bytes),
            model.digest,
        )
