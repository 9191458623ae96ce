"""Atomic writes: the old content or the new one, nothing else, nothing beside it."""

import os
import re

import pytest

from tilewright.base.files import MARK, replace_directory, write_atomic


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != MARK)


def test_write_replaces_and_makes_no_folder(tmp_path):
    path = tmp_path / "a" / "b.txt"
    with pytest.raises(FileNotFoundError) as refusal:
        write_atomic(path, "one")
    assert refusal.value.filename == str(path.parent)
    assert not path.parent.exists()
    path.parent.mkdir()
    write_atomic(path, "one\r\n")
    write_atomic(path, b"two\n")
    assert path.read_bytes() == b"two\n"
    assert names(path.parent) == ["b.txt"]


def test_write_has_the_permissions_of_any_new_file(tmp_path):
    write_atomic(tmp_path / "ours", "x")
    (tmp_path / "theirs").write_text("x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_a_refusal_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as refusal:
        write_atomic(tmp_path / "folder", "x")
    assert refusal.value.filename == str(tmp_path / "folder")
    assert names(tmp_path) == ["folder"]

    def no_room(**_):
        raise PermissionError(13, "Permission denied", ".x.random")

    monkeypatch.setattr("tempfile.mkstemp", no_room)
    monkeypatch.setattr("tempfile.mkdtemp", no_room)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*/a'$"):
        write_atomic(tmp_path / "a", "x")
    with (
        pytest.raises(PermissionError, match=r"Permission denied: '.*/b'$"),
        replace_directory(tmp_path / "b"),
    ):
        pass


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, interruption):
    path = tmp_path / "record.json"
    write_atomic(path, "old")

    def interrupted(source, target):
        raise interruption("in the middle")

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(interruption):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["record.json"]


def test_folder_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "out" / "report"
    for content in ("first", "second"):
        with replace_directory(target) as fresh:
            (fresh / f"{content}.html").write_text(content)
    assert names(target) == ["second.html"]
    assert names(target.parent) == ["report"]


def test_interrupted_folder_leaves_the_old_one(tmp_path):
    target = tmp_path / "report"
    with replace_directory(target) as fresh:
        (fresh / "index.html").write_text("old")
    with pytest.raises(KeyboardInterrupt), replace_directory(target) as fresh:
        (fresh / "index.html").write_text("ne")
        raise KeyboardInterrupt
    assert (target / "index.html").read_text() == "old"
    assert names(tmp_path) == ["report"]


def test_folder_interrupted_between_the_two_renames_keeps_the_old_one(tmp_path, monkeypatch):
    target = tmp_path / "report"
    with replace_directory(target) as fresh:
        (fresh / "index.html").write_text("old")
    real, calls = os.replace, []

    def interrupted(source, destination):
        calls.append(source)
        if len(calls) == 2:  # the old folder is aside, the new one not yet in place
            raise KeyboardInterrupt
        real(source, destination)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), replace_directory(target) as fresh:
        (fresh / "index.html").write_text("new")
    assert (target / "index.html").read_text() == "old"
    assert names(tmp_path) == ["report"]


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    target = tmp_path / "report"
    target.write_text("precious")
    message = f"^{re.escape(str(target))} is not a folder$"
    with pytest.raises(NotADirectoryError, match=message), replace_directory(target):
        pass
    assert target.read_text() == "precious"


def test_a_folder_of_someone_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    message = f"^{re.escape(str(tmp_path))} holds files that are not ours to replace: name another$"
    with pytest.raises(FileExistsError, match=message), replace_directory(tmp_path):
        pass
    assert names(tmp_path) == ["thesis.tex"]


def test_an_empty_folder_is_used(tmp_path):
    with replace_directory(tmp_path / "") as fresh:
        (fresh / "index.html").write_text("new")
    assert names(tmp_path) == ["index.html"]
