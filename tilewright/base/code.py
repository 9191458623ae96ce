"""The code of a source: what decides what it does, whatever its comments and layout."""

import ast
from threading import Lock

# ast.parse of CPython 3.11 counts its recursion in one place for all threads, and may then fail.
_PARSING = Lock()

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def code_of(source: str) -> str:
    """The syntax tree of ``source`` without docstrings, equal in all versions of Python.

    Imports are taken relative to the project: the name it is installed under does not matter.
    """
    with _PARSING:
        return _text(ast.parse(source))


def _text(node: object) -> str:
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    if isinstance(node, ast.ImportFrom) and node.module:
        fields["module"] = node.module.removeprefix("tilewright.")
    # Versions differ in fields that are empty nearly everywhere.
    given = (f"{name}={_text(value)}" for name, value in fields.items() if value not in (None, []))
    return f"{type(node).__name__}({','.join(given)})"
