"""The code of a source: the part of its text that decides what it does."""

import ast
from threading import Lock

# ast.parse of CPython 3.11 counts its recursion in one place for all threads, and may then fail.
_PARSING = Lock()

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_of(source: str) -> str:
    """The lines of ``source`` that are neither blank, nor comments, nor docstrings.

    Lines of other strings stay, whatever they look like. Imports are taken relative to the project:
    the name it is installed under does not matter.
    """
    lines = [line.replace("from tilewright.", "from ") for line in source.splitlines()]
    in_strings: set[int] = set()  # lines that begin inside of one
    with _PARSING:
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            in_strings.update(_lines(node)[1:])
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            for k in _lines(node.body[0]):
                lines[k] = ""
    return "".join(
        f"{line}\n"
        for k, line in enumerate(lines)
        if line.strip() and (k in in_strings or not line.lstrip().startswith("#"))
    )


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno - 1, node.end_lineno or node.lineno)
