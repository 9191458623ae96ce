"""Deviation of a compact cell table from its full library, on the reference designs.

Two libraries lead the mapper to two netlists, which may differ more than the libraries do, so the
compact netlist is also timed with the full tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from tilewright.synth.flow import DEFAULT_GOAL, Synthesis, synthesise
from tilewright.synth.liberty import to_liberty
from tilewright.synth.liberty_reader import read_liberty, read_text
from tilewright.synth.record import RECORDS, sha256, tool_versions
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import Technology, load_technology
from tilewright.synth.timing import longest_paths

DEVIATION_RECORD = RECORDS / "technology_deviation.json"


def technology_deviation(
    name: str,
    paths: Sequence[Path],
    dont_use: Sequence[str] = (),
    done: Callable[[str], None] = lambda design: None,
) -> dict[str, Any]:
    """Compare the table ``name`` with Liberty files; ``done`` is told of each finished design."""
    compact = load_technology(name)
    full = read_liberty(paths, dont_use=dont_use, like=compact)
    designs = {}
    for design, component in REFERENCE_DESIGNS.items():
        text = rtlil.convert(component(), name=design, emit_src=False)
        by_compact, by_full = (synthesise(text, design, t, gating=False) for t in (compact, full))
        designs[design] = {
            "rtlil_sha256": sha256(text),
            "compact": _figures(by_compact),
            "full": _figures(by_full),
            "area_ratio": round(by_compact.netlist.area / by_full.netlist.area, 4),
            "delay_ratio": round(by_compact.delay / by_full.delay, 4),
            "delay_ratio_same_netlist": round(by_compact.delay / _retimed(by_compact, full), 4),
        }
        done(design)
    command = [f"tilewright synth --tech {name} --update-records"]
    command += [f"--dont-use '{pattern}'" for pattern in dont_use]
    command += ["--check-technology", *(path.name for path in paths)]
    return {
        "command": " ".join(command),
        "full_library": [path.name for path in paths],
        "full_library_sha256": [sha256(read_text(path)) for path in paths],
        "dont_use": list(dont_use),
        "liberty_sha256": sha256(to_liberty(compact)),
        "goal": DEFAULT_GOAL.value,
        "tools": tool_versions(),
        "designs": designs,
    }


def _retimed(result: Synthesis, technology: Technology) -> float:
    instances = [
        replace(instance, cell=technology.cells[instance.cell.name])
        for instance in result.netlist.instances
    ]
    paths = longest_paths(replace(result.netlist, instances=instances), technology)
    return max(path.delay for path in paths.values())


def _figures(result: Synthesis) -> dict[str, float]:
    return {"area_um2": round(result.netlist.area, 3), "delay_ps": round(result.delay, 1)}
