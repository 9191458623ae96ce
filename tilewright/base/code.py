"""The code of a source: what of its text decides what it does."""

import ast

__all__ = ["code_of"]


def code_of(source: str) -> str:
    """The lines of ``source`` that are neither blank, nor comments, nor docstrings.

    Imports are taken relative to the project: the name it is installed under does not matter.
    """
    lines = [line.replace("from tilewright.", "from ") for line in source.splitlines()]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            text = node.body[0]
            for k in range(text.lineno - 1, text.end_lineno or text.lineno):
                lines[k] = ""
    kept = (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return "".join(f"{line}\n" for line in kept)
