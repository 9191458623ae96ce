"""The commands are thin: a command parses, calls and prints; all else can be called from Python."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "tilewright"
MOST_LINES = 90  # of one function


def sources(*rooms: str) -> dict[str, str]:
    """Every source file of the rooms, by its path in ``tilewright/``."""
    paths = (path for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def knows_argparse(text: str) -> bool:
    """Whether a source imports ``argparse`` or takes its parsed arguments under another name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and "argparse" in {alias.name for alias in node.names}:
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "argparse":
            return True
        if isinstance(node, ast.FunctionDef) and "args" in {arg.arg for arg in node.args.args}:
            return True
    return False


def test_functions_of_commands_are_short():
    found = {
        f"{file}: {node.name}"
        for file, text in sources("cli").items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= MOST_LINES
    }
    assert found == set()


def test_studies_and_benches_do_not_parse():
    found = {file for file, text in sources("studies", "verify").items() if knows_argparse(text)}
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        "import argparse",
        "def f():\n    from argparse import Namespace",
        "def f(args):\n    return args.model",
    ],
)
def test_planted_parsing_is_caught(text):
    assert knows_argparse(text)
    assert not knows_argparse("def f(*args, model):\n    import json\n    return json")
