"""Import directions of docs/architecture.md, read from the syntax trees of all sources."""

import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STANDARD_LIBRARY = set(sys.stdlib_module_names)

# Folder -> what its modules may import beside the standard library; the deepest folder decides.
# Folders are named as they lie in the checkout, modules as they are imported.
GOLDEN, PARAMS = "tilewright.golden", "tilewright.golden.params"
SIM, SYNTH, HW, KERNELS = (
    "tilewright.sim",
    "tilewright.synth",
    "tilewright.hw",
    "tilewright.kernels",
)
# Modules that import nothing of the project.
CACHE, CODE = "tilewright.base.cache", "tilewright.base.code"
LAYERS = {
    "golden/params": {PARAMS},
    "golden": {GOLDEN, "numpy"},
    "golden/llm": {GOLDEN, "numpy", "gguf"},  # gguf: an optional extra
    "hw": {HW, PARAMS, "amaranth"},
    "sim": {SIM, GOLDEN, CACHE, "numpy"},
    "synth": {SYNTH, HW, PARAMS, CACHE, CODE, "amaranth", "numpy", "pyosys"},
    # PyTorch, Transformers and safetensors come with an optional extra.
    "tilewright/kernels": {KERNELS, GOLDEN, "numpy", "torch", "transformers", "safetensors"},
    "tilewright/torch": {"tilewright.torch", GOLDEN, "numpy", "torch", "transformers", "triton"},
}
# The rooms of tilewright/, from the top down: each may import those after it and what LAYERS has.
ROOMS = ("cli", "report", "studies", "verify", "base")
# Folders that may import everything but these.
TOP = {
    "tilewright": {"tests", "benchmarks"},
    "benchmarks": {"tests"},
    "docs": {"tests", "benchmarks"},
    "tests": set(),
}
# What lies at the top of the checkout and is imported as a part of tilewright.
INSIDE = ("golden", "hw", "sim", "synth")
# What several accelerators share, as folders and files, knows none of them.
SHARED = (
    *(f"golden/params/{name}.py" for name in ("arith", "block", "formats", "machine", "stream")),
    "golden/params/vector.py",
    "golden/machine/",
    *(f"golden/{name}.py" for name in ("arith", "bfp", "bits", "integer", "planes", "weights")),
    *(f"hw/{name}/" for name in ("arith", "machine", "stream")),
)
ACCELERATORS = ("anda", "deca", "harmonia", "sparamx")
BARE = {*INSIDE, "kernels", "docs"}  # names that are never imported: a second copy of every class


def module_path(module: str) -> str:
    """Where a module lies in the checkout, without its suffix."""
    first, _, rest = module.partition(".")
    is_inside = first == "tilewright" and rest.split(".")[0] in INSIDE
    return (rest if is_inside else module).replace(".", "/")


def imported_modules(root: Path, path: Path) -> Iterator[str]:
    """Full names of all modules that ``path`` imports, wherever in the file it does."""
    package = path.relative_to(root).parent.parts
    package = ("tilewright", *package) if package[0] in INSIDE else package
    for node in ast.walk(ast.parse(path.read_text(), path.as_posix())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{module}.{alias.name}"
                place = root / module_path(name)
                is_module = place.is_dir() or place.with_suffix(".py").is_file()
                yield name if is_module else module


def names_an_accelerator(module: str) -> bool:
    """Whether a package or module on the way to ``module`` belongs to one accelerator."""
    return any(part.startswith(ACCELERATORS) for part in module.split("."))


def forbidden(file: str, module: str) -> bool:
    """Whether ``file`` (relative to the root) may not import ``module``."""
    top = module.split(".")[0]
    if top in BARE:
        return True
    layer = max((d for d in LAYERS if file.startswith(f"{d}/")), key=len, default=None)
    if layer is not None:
        allowed = any(f"{module}.".startswith(f"{name}.") for name in LAYERS[layer])
        if file.startswith(SHARED) and names_an_accelerator(module):
            return True
        return not allowed and top not in STANDARD_LIBRARY
    folders = file.split("/")
    is_entry = folders[-1] == "__main__.py"  # a way in, which nobody imports: it may parse
    if folders[0] == "tilewright" and folders[1] in ROOMS and not is_entry:
        above = ROOMS[: ROOMS.index(folders[1])]
        if any(f"{module}.".startswith(f"tilewright.{room}.") for room in above):
            return True
    return top in TOP.get(folders[0], set())


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
    """A new package, at the top level or in tilewright/, must be given its place above."""
    packages = {p.parent.name for p in ROOT.glob("[a-z]*/*.py")}
    assert packages <= {*LAYERS, *TOP}
    rooms = {p.parent.name for p in (ROOT / "tilewright").glob("[a-z]*/*.py")}
    assert rooms == {*ROOMS, *INSIDE, "kernels", "torch"}


def test_shared_files_exist():
    """A shared file that was renamed is no longer watched."""
    assert [name for name in SHARED if not (ROOT / name).exists()] == []


def test_top_level_folders_are_parts_of_the_package():
    for name in INSIDE:
        assert (ROOT / "tilewright" / name).resolve() == ROOT / name
        assert find_spec(f"tilewright.{name}") is not None


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("golden/params/x.py", "import numpy", "imports numpy"),
        ("golden/params/x.py", "from tilewright.golden import bits", "imports {golden}.bits"),
        ("golden/params/x.py", "from ..bits import decode", "imports {golden}.bits"),
        ("golden/x.py", "from tilewright.hw.unit import Unit", "imports tilewright.hw.unit"),
        ("golden/x.py", "def f():\n    import amaranth.sim", "imports amaranth.sim"),
        ("golden/x.py", "import tilewright.golden, scipy", "imports scipy"),
        ("golden/x.py", "from golden.bits import decode", "imports golden.bits"),
        ("golden/x.py", "from tilewright.kernels import Matrix", "imports tilewright.kernels"),
        ("hw/x.py", "from tilewright.golden.bits import decode", "imports {golden}.bits"),
        ("hw/x.py", "from tilewright.golden import bits", "imports {golden}.bits"),
        ("hw/x.py", "import numpy as np", "imports numpy"),
        (
            "golden/machine/x.py",
            "from tilewright.golden.params.anda_machine import AndaParams",
            "imports {golden}.params.anda_machine",
        ),
        (
            "golden/weights.py",
            "import tilewright.golden.params.harmonia",
            "imports {golden}.params.harmonia",
        ),
        ("hw/machine/x.py", "import tilewright.hw.deca.pe", "imports tilewright.hw.deca.pe"),
        ("sim/x.py", "if True:\n    from tilewright.synth import a", "imports tilewright.synth"),
        ("synth/x.py", "from tilewright.sim.llm import A", "imports tilewright.sim.llm"),
        ("tilewright/kernels/x.py", "import tilewright.base", "imports tilewright.base"),
        ("tilewright/torch/x.py", "import tilewright.studies", "imports tilewright.studies"),
        ("golden/x.py", "import torch", "imports torch"),
        ("tilewright/base/x.py", "import tilewright.verify", "imports tilewright.verify"),
        ("tilewright/verify/x.py", "import tilewright.studies.pe", "imports tilewright.studies.pe"),
        ("tilewright/studies/x.py", "import tilewright.report", "imports tilewright.report"),
        ("tilewright/report/x.py", "from tilewright.cli import main", "imports tilewright.cli"),
        ("tilewright/report/x.py", "from tests.support import drive", "imports tests.support"),
        ("tilewright/cli/x.py", "import kernels", "imports kernels"),
        ("tests/x.py", "import hw.unit", "imports hw.unit"),
        ("benchmarks/x.py", "import tests", "imports tests"),
    ],
)
def test_planted_bad_import_is_caught(tmp_path, file, text, complaint):
    for source in ("golden/bits.py", "golden/params/formats.py", file):
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).touch()
    (tmp_path / file).write_text(text)
    assert bad_imports(tmp_path) == [f"{file} {complaint.format(golden=GOLDEN)}"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("golden/params/x.py", "import dataclasses\nfrom tilewright.golden.params import block"),
        ("golden/x.py", "import numpy.typing\nfrom tilewright.golden.params.formats import BF16"),
        ("hw/x.py", "from tilewright.golden import params\nfrom amaranth.lib import stream"),
        ("hw/deep/x.py", "from ..stream import queue\nfrom . import y"),
        ("hw/anda_machine/x.py", "from tilewright.hw.anda.mxu import Mxu"),
        ("sim/x.py", "from tilewright.golden.arith import add"),
        ("synth/x.py", "from tilewright.hw.catalog import build\nfrom pyosys import libyosys"),
        ("tilewright/cli/x.py", "import tilewright.report, tilewright.base, tilewright.hw, rich"),
        ("tilewright/studies/x.py", "from tilewright.verify import job\nimport tilewright.sim"),
        ("tests/x.py", "from tests.support import drive"),
    ],
)
def test_allowed_imports_pass(tmp_path, file, text):
    (tmp_path / "golden/params").mkdir(parents=True)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert bad_imports(tmp_path) == []


def hidden_modules(root: Path) -> list[str]:
    """Submodules whose name their package binds to something else, such as one of its functions."""
    hidden = []
    for init in sorted(p for d in (*INSIDE, "tilewright") for p in (root / d).rglob("__init__.py")):
        parts = init.parent.relative_to(root).parts
        package = ".".join(("tilewright", *parts) if parts[0] in INSIDE else parts)
        modules = {p.stem for p in init.parent.glob("*.py")}
        packages = {p.parent.name for p in init.parent.glob("*/__init__.py")}
        for name, source in bindings(init):
            if name in modules | packages and source != f"{package}.{name}":
                hidden.append(f"{package}.{name}")
    return hidden


def bindings(init: Path) -> Iterator[tuple[str, str | None]]:
    """Names that a module binds at its top level, with the full name of what it imports as them."""
    for node in ast.parse(init.read_text(), init.as_posix()).body:
        match node:
            case ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name, f"{node.module}.{alias.name}"
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name, None
            case ast.Assign():
                yield from ((n.id, None) for n in node.targets if isinstance(n, ast.Name))


def test_no_package_hides_a_module():
    """``import a.b`` would give a function where everybody expects the module ``a/b.py``."""
    assert hidden_modules(ROOT) == []


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("from tilewright.sim.gemm import gemm", True),
        ("from tilewright.sim.tiles import gemm", True),
        ("def gemm(): ...", True),
        ("gemm = 3", True),
        ("from tilewright.sim import gemm", False),
        ("from tilewright.sim.gemm import multiply", False),
    ],
)
def test_planted_hidden_module_is_caught(tmp_path, text, hidden):
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim/gemm.py").touch()
    (tmp_path / "sim/__init__.py").write_text(text)
    assert hidden_modules(tmp_path) == ["tilewright.sim.gemm"] * hidden


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
