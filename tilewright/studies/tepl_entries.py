"""How many entries a TEPL queue needs, and what they cost: a record.

Cycles from tile to tile are those of the golden cycle model, for the tiles that need the longest
queue: bf8 at 5% density from a core's share of HBM. Areas are those of the TEPL unit alone, mapped
for the least delay in ``asap7`` with clock gates. ``python -m tilewright.studies.tepl_entries``
makes the record again, in a few minutes.
"""

from dataclasses import dataclass, replace
from typing import Any

from amaranth.back import rtlil

from tilewright.golden.params.deca import DecaTeplParams
from tilewright.hw.deca.tepl import TeplUnit
from tilewright.studies.measured import write_measured
from tilewright.studies.runs.deca_rates import DEEP, rate_cases
from tilewright.studies.runs.deca_stream import model_stream
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.liberty import to_liberty
from tilewright.synth.record import flow_sha256, sha256, tool_versions
from tilewright.synth.signal_names import names_of_pairs
from tilewright.synth.technology import load_technology

__all__ = ["ENTRIES", "RECORD", "TeplEntries", "make_record", "model_cycles", "unit_rtlil"]

RECORD = "tepl_entries"
ENTRIES = range(DecaTeplParams().tepl_entries, DEEP + 1)
STREAM = "hbm bf8_5%"
TECHNOLOGY, GOAL = "asap7", Goal.FASTEST


@dataclass(frozen=True, kw_only=True)
class TeplEntries:
    """A size of the queue: what the model says of it and what synthesis finds."""

    entries: int
    model_cycles_per_tile: float
    area_um2: float  # of the TEPL unit alone
    rtlil_sha256: str


def model_cycles(entries: int) -> float:
    """Cycles from tile to tile with a queue and a core that renames registers of this number."""
    _, _, stream = rate_cases()[STREAM]
    stream = replace(stream, core=replace(stream.core, registers=entries))
    return model_stream(DecaTeplParams(tepl_entries=entries), stream).interval


def unit_rtlil(entries: int) -> str:
    """Return the TEPL unit alone; its top module is called ``tepl``."""
    unit = TeplUnit(DecaTeplParams(tepl_entries=entries))
    with names_of_pairs():
        return rtlil.convert(unit, name="tepl", emit_src=False)


def make_record() -> dict[str, Any]:
    """Run the model and synthesis for every size."""
    technology = load_technology(TECHNOLOGY)
    rows = []
    for entries in ENTRIES:
        text = unit_rtlil(entries)
        area = synthesise(text, "tepl", technology, GOAL).netlist.area
        rows.append(
            TeplEntries(
                entries=entries,
                model_cycles_per_tile=model_cycles(entries),
                area_um2=round(area, 5),
                rtlil_sha256=sha256(text),
            )
        )
    return {
        "command": "python -m tilewright.studies.tepl_entries",
        "stream": STREAM,
        "technology": TECHNOLOGY,
        "goal": GOAL.value,
        "liberty_sha256": sha256(to_liberty(technology)),
        "flow_sha256": flow_sha256(TECHNOLOGY),
        "tools": tool_versions(),
        "sizes": rows,
    }


if __name__ == "__main__":
    write_measured(RECORD, make_record())
