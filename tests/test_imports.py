"""Import directions of docs/architecture.md, read from the syntax trees of all sources."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STANDARD_LIBRARY = set(sys.stdlib_module_names)

# Folder -> what its modules may import beside the standard library; the deepest folder decides.
LAYERS = {
    "golden/params": {"golden.params"},
    "golden": {"golden", "numpy"},
    "golden/llm": {"golden", "numpy", "gguf"},  # gguf: an optional extra
    "hw": {"hw", "golden.params", "amaranth"},
    "sim": {"sim", "golden", "numpy"},
    "kernels": {"kernels", "golden", "numpy", "torch"},  # torch: an optional extra
    "synth": {"synth", "hw", "golden.params", "amaranth", "pyosys"},
}
# Folders that may import everything; no layer, and none of the others, imports these.
TOP = {"tilewright": {"tests", "benchmarks"}, "benchmarks": {"tests"}, "tests": set()}


def imported_modules(root: Path, path: Path) -> Iterator[str]:
    """Full names of all modules that ``path`` imports, wherever in the file it does."""
    package = path.relative_to(root).parent.parts
    for node in ast.walk(ast.parse(path.read_text(), path.as_posix())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{module}.{alias.name}"
                is_module = (root / name.replace(".", "/")).is_dir() or (
                    root / f"{name.replace('.', '/')}.py"
                ).is_file()
                yield name if is_module else module


def forbidden(file: str, module: str) -> bool:
    """Whether ``file`` (relative to the root) may not import ``module``."""
    top = module.split(".")[0]
    layer = max((d for d in LAYERS if file.startswith(f"{d}/")), key=len, default=None)
    if layer is not None:
        allowed = any(f"{module}.".startswith(f"{name}.") for name in LAYERS[layer])
        return not allowed and top not in STANDARD_LIBRARY
    return top in TOP.get(file.split("/")[0], set())


def bad_imports(root: Path) -> list[str]:
    folders = [*(d for d in LAYERS if "/" not in d), *TOP]
    paths = [p for d in folders for p in sorted((root / d).rglob("*.py"))]
    return [
        f"{file} imports {module}"
        for path in paths
        for file in [path.relative_to(root).as_posix()]
        for module in imported_modules(root, path)
        if forbidden(file, module)
    ]


def test_imports_follow_the_architecture():
    assert bad_imports(ROOT) == []


def test_every_package_is_watched():
    """A new top-level package must be given its place in the table above."""
    packages = {p.parent.name for p in ROOT.glob("[a-z]*/*.py")}
    assert packages <= {*LAYERS, *TOP}


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("golden/params/x.py", "import numpy", "imports numpy"),
        ("golden/params/x.py", "from golden import bits", "imports golden.bits"),
        ("golden/params/x.py", "from ..bits import decode", "imports golden.bits"),
        ("golden/x.py", "from hw.unit import Unit", "imports hw.unit"),
        ("golden/x.py", "def f():\n    import amaranth.sim", "imports amaranth.sim"),
        ("golden/x.py", "import golden, scipy", "imports scipy"),
        ("hw/x.py", "from golden.bits import decode", "imports golden.bits"),
        ("hw/x.py", "from golden import bits", "imports golden.bits"),
        ("hw/x.py", "import numpy as np", "imports numpy"),
        ("sim/x.py", "if True:\n    from synth import flow", "imports synth"),
        ("synth/x.py", "from sim.machine import Machine", "imports sim.machine"),
        ("kernels/x.py", "import tilewright.files", "imports tilewright.files"),
        ("golden/x.py", "from kernels import Matrix", "imports kernels"),
        ("tilewright/x.py", "from tests.support import drive", "imports tests.support"),
        ("benchmarks/x.py", "import tests", "imports tests"),
    ],
)
def test_planted_bad_import_is_caught(tmp_path, file, text, complaint):
    for source in ("golden/bits.py", "golden/params/formats.py", file):
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).touch()
    (tmp_path / file).write_text(text)
    assert bad_imports(tmp_path) == [f"{file} {complaint}"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "golden/params/x.py",
            "from dataclasses import dataclass\nfrom golden.params import block",
        ),
        ("golden/x.py", "import numpy.typing\nfrom golden.params.formats import BF16"),
        ("hw/x.py", "from golden import params\nfrom amaranth.lib import stream"),
        ("hw/deep/x.py", "from ..stream import queue\nfrom . import y"),
        ("sim/x.py", "from golden.arith import add"),
        ("synth/x.py", "from hw.catalog import build\nfrom pyosys import libyosys"),
        ("tilewright/x.py", "import hw, sim, synth, golden, rich"),
        ("tests/x.py", "from tests.support import drive"),
    ],
)
def test_allowed_imports_pass(tmp_path, file, text):
    (tmp_path / "golden/params").mkdir(parents=True)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert bad_imports(tmp_path) == []


def search_path_edits(text: str) -> list[int]:
    """Lines that change ``sys.path``; reading it is fine."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
        called = getattr(node, "func", None)
        names = [ast.unparse(n) for n in (*targets, called) if isinstance(n, ast.AST)]
        if any(f"{n}.".startswith(("sys.path.", "sys.path[")) for n in names):
            lines.append(node.lineno)
    return sorted(lines)


def test_nobody_edits_the_module_search_path():
    paths = [p for d in (*LAYERS, *TOP) for p in (ROOT / d).rglob("*.py")]
    assert [p for p in paths if search_path_edits(p.read_text())] == []


def test_planted_search_path_edit_is_caught():
    edits = "sys.path.insert(0, '.')\nsys.path += ['.']\nsys.path = []\nsys.path[0] = ''\n"
    assert search_path_edits(f"{edits}print(sys.path)\n") == [1, 2, 3, 4]
