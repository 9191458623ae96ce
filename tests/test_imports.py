"""Directions of imports, as docs/architecture.md has them and pyproject.toml declares them."""

from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]


def test_contracts(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True, no_logo=True) == 0


@pytest.mark.parametrize("name", ["golden", "hw", "sim", "synth"])
def test_top_level_folders_are_rooms_of_the_package(name):
    assert (ROOT / "tilewright" / name).resolve() == ROOT / name


def test_digests_of_rtlil_name_all_sources_that_decide_it():
    """Blocks and what writes their RTLIL reach nothing else of ours that could change it."""
    graph = grimp.build_graph("tilewright", cache_dir=None)
    own = {"tilewright.synth.emit", "tilewright.synth.signal_names"}
    own |= graph.find_descendants("tilewright.hw")
    own |= graph.find_descendants("tilewright.golden.params")
    reached = {m for module in own for m in graph.find_upstream_modules(module)} - own
    reached -= {"tilewright.hw", "tilewright.golden.params"}
    # When Python collects garbage; how Verilog is made of RTLIL, its cache and its errors.
    base = {f"tilewright.base.{name}" for name in ("cache", "errors", "files")}
    synth = {f"tilewright.synth.{name}" for name in ("collector", "netlist_checks", "yosys")}
    assert reached <= base | synth | {"tilewright", "tilewright.base", "tilewright.synth"}
