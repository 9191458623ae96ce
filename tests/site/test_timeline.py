"""The drawing of units: lanes of those that work, as long as they do, within its cycles."""

import xml.etree.ElementTree as ET
from pathlib import Path

from tilewright.compiler.count import timeline
from tilewright.compiler.machine import machine_of
from tilewright.golden.harmonia_machine.isa import assemble
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import UnitOfWork
from tilewright.site.timeline import decoder_layer, draw

PROGRAM = """
load fp16, row=0, rows=16, line=0
add r512, r512, #1, elements=64
store fp16, row=0, rows=4, line=99
halt
"""


def test_a_program_as_lanes():
    work = timeline(machine_of(HarmoniaParams()), assemble(PROGRAM), 5, streamed=False)
    assert [w.unit for w in work] == [UnitOfWork.LOAD, UnitOfWork.VECTOR, UnitOfWork.STORE]
    load, add, store = work
    assert add.begin < load.end == store.begin  # the store waits for the region of the load
    end = max(w.end for w in work)
    picture = ET.fromstring(draw(work, range(end), "a program"))
    texts = [x.text for x in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[-3:] == ["load", "store", "vector"]
    titles = [x.text for x in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "a program",
        f"instruction 0, load: cycles {load.begin} to {load.end - 1}",
        f"instruction 2, store: cycles {store.begin} to {store.end - 1}",
        f"instruction 1, vector: cycles {add.begin} to {add.end - 1}",
    ]
    later = draw(work, range(store.begin, end), "the end")
    assert "instruction 2" in later and "instruction 0" not in later


def test_the_documented_picture_is_a_whole_layer():
    """All units work in it, and the page has the picture as it is drawn."""
    work, cycles = decoder_layer()
    inside = [w for w in work if w.begin < cycles.stop and w.end > cycles.start]
    assert {w.unit for w in inside} == set(UnitOfWork)
    text = (Path(__file__).parents[2] / "docs" / "harmonia-timeline.svg").read_text()
    assert draw(work, cycles, ET.fromstring(text)[0].text) == text
    page = (Path(__file__).parents[2] / "docs" / "harmonia-timing.md").read_text()
    assert f"{len(cycles):,} cycles of a layer" in " ".join(page.split())
