"""Examples of a Markdown text: commands with what they print, programs, tables."""

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tilewright import cli


def blocks(text: str, language: str) -> list[str]:
    """The content of every fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def console_examples(text: str) -> list[list[list[str]]]:
    """Every console block, there is one, as its (command line, output shown under it) pairs."""
    examples = []
    for block in blocks(text, "console"):
        parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
        examples.append([part.split("\n", 1) for part in parts])
    assert examples, "no console block"
    return examples


def torch_or_skip(command: str) -> None:
    """``search`` and ``kv`` compute with PyTorch; ``tests/torch`` runs their examples."""
    if command.split()[1] in ("search", "kv"):
        for package in ("torch", "transformers"):
            pytest.importorskip(package)


def run_examples(examples: list[list[str]], capsys: Any) -> None:
    """The output is the one shown, where `...` stands for what differs between machines."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for command, output in examples:
        program, *argv = shlex.split(command)
        assert program == "tilewright"
        assert cli.main(argv) == 0
        got = capsys.readouterr().out
        assert doctest.OutputChecker().check_output(output, got, flags), got


def run_page(text: str, name: str, capsys: Any) -> dict[str, Any]:
    """Run every ``console``, ``python`` and ``pycon`` block of a page in its order; the names left.

    Blocks of one page share their names, as when a reader types them one after the other. What a
    command or an expression gives is the one shown, where ``...`` stands for what differs. A block
    of Python that begins with ``# FILE.py`` is that file, too.
    """
    names: dict[str, Any] = {"__name__": name}
    pattern = r"^```(console|python|pycon)\n(.*?)^```$"
    for kind, block in re.findall(pattern, text, re.MULTILINE | re.DOTALL):
        if kind == "console":
            parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
            run_examples([part.split("\n", 1) for part in parts], capsys)
        elif kind == "python":
            if file := re.match(r"# (\w+\.py)\n", block):
                Path(file[1]).write_text(block)
            if "from tilewright.torch" in block:
                torch_or_skip("tilewright search")
            exec(compile(block, name, "exec"), names)
        else:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            test = doctest.DocTestParser().get_doctest(block, names, name, name, 0)
            runner = doctest.DocTestRunner(optionflags=flags)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            assert not runner.failures, "".join(report)
            names.update(test.globs)
    return names


def table(text: str, name: str) -> list[list[str]]:
    """Rows of the table after ``<!-- name -->``, without its head; cells without backquotes."""
    found = re.search(rf"^<!-- {name} -->\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found is not None, f"no table {name}"
    rows = [line.strip("|").split("|") for line in found[1].splitlines()[2:]]
    return [[cell.strip().strip("`") for cell in row] for row in rows]
