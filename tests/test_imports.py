"""Import directions of docs/architecture.md, read from the syntax trees of all sources."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Room -> what it may import besides itself and the standard library: rooms with a dot, other
# packages without; * is any other package. The deepest room decides.
ROOMS = {
    "base": "rich",
    "golden.params": "",
    "golden": ".golden.params numpy",
    "golden.llm": ".golden numpy gguf",
    "hw": ".golden.params amaranth",
    "synth": ".base .golden.params .hw amaranth klayout numpy openroad pyosys",
    "compiler": ".base .golden numpy",
    "sim": ".base .golden .compiler numpy",
    "claims": ".base .golden .compiler .sim",
    "kernels": ".golden numpy torch transformers safetensors",
    "torch": ".golden numpy torch transformers triton",
    "verify": ".base .golden .hw .synth .compiler *",
}
ROOMS["studies"] = f"{ROOMS['verify']} .sim .claims .kernels .torch .verify"
ROOMS["site"] = f"{ROOMS['studies']} .studies"
ROOMS["api"] = ROOMS["site"]
ROOMS["cli"] = f"{ROOMS['site']} .site"
INSIDE = ("golden", "hw", "sim", "synth")  # top-level folders that are imported from tilewright
# Folder -> top-level names that it may not import. A bare name makes a second copy of its classes.
BARE = {*INSIDE, "kernels", "docs"}
TOP = {name: {"tests", "benchmarks", "tools"} | BARE for name in (*INSIDE, "tilewright", "docs")}
TOP |= {name: {"tests"} | BARE for name in ("benchmarks", "tools")} | {"tests": BARE}

# In these rooms, a module without an accelerator's name imports no module with one; tables of all
# blocks may.
NEUTRAL = tuple(f"tilewright.{room}." for room in ("golden", "hw", "verify", "compiler"))
ACCELERATORS = {"anda", "deca", "harmonia", "sparamx"}
REGISTRIES = {"catalog", "resolve"}
PARAMETERS = re.compile(r"\b(Anda|Deca|Harmonia)(Axi|Tepl)?Params\b")


@cache
def sources(root: Path) -> dict[str, tuple[Path, ast.Module]]:
    """File and syntax tree of every module, by its full name."""
    found = {}
    for path in (path for folder in TOP for path in sorted((root / folder).rglob("*.py"))):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(("tilewright", *parts) if parts[0] in INSIDE else parts)
        found[name.removesuffix(".__init__")] = path, ast.parse(path.read_text(), str(path))
    return found


@cache
def imports(root: Path, module: str, deferred: bool = True) -> set[str]:
    """What a module imports, by full names; ``deferred``: in functions and for types, too."""
    path, tree = sources(root)[module]
    package = module.split(".")[: None if path.name == "__init__.py" else -1]

    def walk(parent: ast.AST) -> Iterator[str]:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) + 1 - node.level] if node.level else []
                name = ".".join([*above, *filter(None, [node.module])])
                full = (f"{name}.{alias.name}" for alias in node.names)
                yield from (n if n in sources(root) else name for n in full)
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
                if deferred or not (types_only or isinstance(node, ast.FunctionDef)):
                    yield from walk(node)

    return set(walk(tree))


def within(module: str, *packages: str) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def words(module: str) -> set[str]:
    return set(re.split(r"[._]", module))


def directions(root: Path) -> Iterator[str]:
    """Imports that a room may not have."""
    for module in sources(root):
        room = max((r for r in ROOMS if within(module, f"tilewright.{r}")), key=len, default=None)
        names = [f".{room}", *ROOMS[room].split()] if room else ["*", *(f".{r}" for r in ROOMS)]
        allowed = [f"tilewright{name}" if name[0] == "." else name for name in names]
        for target in imports(root, module) - {"tilewright"}:
            top = target.split(".")[0]
            is_foreign = top != "tilewright" and ("*" in names or top in sys.stdlib_module_names)
            is_allowed = is_foreign or within(target, *allowed)
            if not is_allowed or top in TOP[module.split(".")[0]]:
                yield f"{module} imports {target}"


def shared_modules_that_know_an_accelerator(root: Path) -> Iterator[str]:
    for module in sources(root):
        is_neutral = module.startswith(NEUTRAL) and not words(module) & ACCELERATORS
        if is_neutral and module.split(".")[-1] not in REGISTRIES:
            for target in imports(root, module):
                if within(target, "tilewright") and words(target) & ACCELERATORS:
                    yield f"{module} imports {target}"


def circles(root: Path) -> Iterator[str]:
    """The first circle of modules that import each other while they are loaded."""
    try:
        TopologicalSorter({m: imports(root, m, False) - {m} for m in sources(root)}).prepare()
    except CycleError as error:
        yield " imports ".join(sorted(set(error.args[1])))


def ladders(root: Path) -> Iterator[str]:
    """Modules that ask for an accelerator's parameter class without having its name."""
    for module, (path, tree) in sources(root).items():
        is_free = words(module) & ACCELERATORS or within(module, "tests", "benchmarks")
        for node in () if is_free or not PARAMETERS.search(path.read_text()) else ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kind]):
                    asked = ast.unparse(kind)
                case _:
                    asked = ast.unparse(node.cls) if isinstance(node, ast.MatchClass) else ""
            if PARAMETERS.search(asked):
                yield f"{module} asks for {asked}"


def hidden_modules(root: Path) -> Iterator[str]:
    """Submodules whose name their package binds to something else, such as one of its functions."""
    for package, (path, tree) in sources(root).items():
        for node in tree.body if path.name == "__init__.py" else ():
            bound = {name.id: "" for name in getattr(node, "targets", ()) if "id" in vars(name)}
            if isinstance(node, ast.ImportFrom):
                bound = {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound = {node.name: ""}
            full = {f"{package}.{name}": source for name, source in bound.items()}
            yield from (name for name in full if name in sources(root) and full[name] != name)


def search_path_edits(root: Path) -> Iterator[str]:
    for module, (path, tree) in sources(root).items():
        for node in ast.walk(tree) if "sys.path" in path.read_text() else ():
            changed = [
                *getattr(node, "targets", ()),
                *(vars(node).get(n) for n in ("target", "func")),
            ]
            if any(n and re.match(r"sys\.path\b", ast.unparse(n)) for n in changed):
                yield module


RULES = (directions, shared_modules_that_know_an_accelerator, circles, ladders, hidden_modules)
RULES += (search_path_edits,)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_tree(rule):
    assert sorted(rule(ROOT)) == []


def test_every_package_has_its_room():
    assert {path.parent.name for path in ROOT.glob("[a-z]*/*.py")} <= {*TOP}
    rooms = {path.parent.name for path in (ROOT / "tilewright").glob("[a-z]*/*.py")}
    assert rooms == {room.split(".")[0] for room in ROOMS}
    for name in INSIDE:
        assert (ROOT / "tilewright" / name).resolve() == ROOT / name
        assert find_spec(f"tilewright.{name}") is not None


def test_digests_of_rtlil_name_all_sources_that_decide_it():
    """Blocks and what writes their RTLIL reach nothing else of ours that could change it."""
    ahead = ["tilewright.synth.emit", *(m for m in sources(ROOT) if within(m, "tilewright.hw"))]
    found = set()
    while ahead:
        module = ahead.pop()
        if module in sources(ROOT) and module not in found:
            found.add(module)
            ahead += imports(ROOT, module)
    files = (sources(ROOT)[module][0] for module in found)
    reached = {str(f.relative_to(ROOT)) for f in files if f.name != "__init__.py"}
    in_digest = {f for f in reached if f.startswith(("hw/", "golden/params/"))}
    in_digest |= {"synth/emit.py", "synth/signal_names.py"}
    # When Python collects garbage; how Verilog is made of RTLIL, its cache and its errors.
    base = {f"tilewright/base/{name}.py" for name in ("cache", "errors", "files")}
    others = {"synth/collector.py", "synth/netlist_checks.py", "synth/yosys.py", *base}
    assert reached - in_digest == others


# File | its text | last words of the complaints.
PLANTED = {
    directions: """
        golden/params/x.py | import json, numpy | numpy
        golden/params/x.py | from ..bits import decode | tilewright.golden.bits
        golden/x.py | def f(): import amaranth.sim | amaranth.sim
        golden/x.py | from numpy import *; import golden.bits | golden.bits
        golden/x.py | from tilewright.kernels import Matrix | tilewright.kernels
        hw/x.py | from tilewright.golden import bits, params | tilewright.golden.bits
        hw/deep/x.py | from ..stream import queue; from . import y; import amaranth.lib |
        sim/x.py | if True: import tilewright.synth, tilewright.base.files | tilewright.synth
        sim/x.py | import tilewright.claims | tilewright.claims
        synth/x.py | import tilewright.sim.llm, tilewright.hw.unit | tilewright.sim.llm
        tilewright/compiler/x.py | import tilewright.base, tilewright.golden.bits, numpy |
        tilewright/compiler/x.py | import tilewright.sim.gemm, tilewright | tilewright.sim.gemm
        tilewright/base/x.py | import rich, tilewright.synth.emit | tilewright.synth.emit
        tilewright/torch/x.py | import torch, tilewright.base | tilewright.base
        tilewright/verify/x.py | import tilewright.studies.pe | tilewright.studies.pe
        tilewright/studies/a/__main__.py | import tilewright.cli.main | tilewright.cli.main
        tilewright/studies/x.py | import matplotlib, tilewright.verify, tilewright.compiler |
        tilewright/site/x.py | from tests.support import drive | tests.support
        tilewright/cli/x.py | import kernels, tilewright.site | kernels
        tests/x.py | import hw.unit, tests.support, benchmarks, tilewright.cli | hw.unit
        benchmarks/x.py | import tests | tests""",
    shared_modules_that_know_an_accelerator: """
        golden/machine/x.py | import tilewright.golden.params.anda | tilewright.golden.params.anda
        hw/standard.py | def f(): from tilewright.hw.deca import pe | tilewright.hw.deca
        tilewright/compiler/x.py | import tilewright.hw.deca_pe | tilewright.hw.deca_pe
        hw/anda_machine/x.py | import tilewright.golden.params.anda |
        hw/catalog.py | import tilewright.golden.params.anda |""",
    circles: """
        sim/gemm.py | import tilewright.sim.rows | tilewright.sim.rows
        sim/gemm.py | def f(): import tilewright.sim.rows |
        sim/gemm.py | if TYPE_CHECKING: from tilewright.sim import rows |""",
    ladders: """
        hw/x.py | isinstance(x, int or DecaParams) | DecaParams
        hw/x.py | issubclass(X, p.AndaAxiParams) | p.AndaAxiParams
        hw/deca/x.py | isinstance(x, DecaParams) |
        hw/x.py | x = isinstance(AndaParams(), int) |""",
    hidden_modules: """
        sim/__init__.py | from tilewright.sim.gemm import gemm | tilewright.sim.gemm
        sim/__init__.py | def gemm(): ... | tilewright.sim.gemm
        sim/__init__.py | gemm = 3 | tilewright.sim.gemm
        sim/__init__.py | from tilewright.sim import gemm |""",
    search_path_edits: """
        tests/x.py | sys.path.insert(0, '.'); sys.path += ['.'] | tests.x tests.x
        tests/x.py | sys.path = []; sys.path[0] = ''; print(sys.path) | tests.x tests.x""",
}
CASES = [(r, *line.split("|")) for r, text in PLANTED.items() for line in text.split("\n")[1:]]


@pytest.mark.parametrize(("rule", "file", "text", "found"), CASES)
def test_planted(tmp_path, rule, file, text, found):
    rows = "from tilewright.sim import gemm as _"
    files = {"golden/bits.py": "", "golden/params/__init__.py": "", "sim/gemm.py": ""}
    for name, content in {**files, "sim/rows.py": rows, file.strip(): text.strip()}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert [complaint.split()[-1] for complaint in rule(tmp_path)] == found.split()
