"""Area of whole accelerators by part."""

from pathlib import Path

import pytest
from amaranth import Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.support.claims import claim
from tilewright.golden.params.resolve import resolve
from tilewright.hw.shared import Shared, SharedModules
from tilewright.hw.sram import BlackBoxMemories, Sram
from tilewright.site.hardware import ACCELERATOR_PARTS, PAPER_AREAS, area_by_part
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import synthesise
from tilewright.synth.record import is_of_this_flow, sha256
from tilewright.synth.system import SYSTEMS, area_factor, load_system, system_area
from tilewright.synth.technology import TECHNOLOGIES, load_technology

ASAP7 = load_technology("asap7")
PORTS = wiring.Signature({"x": In(8), "y": Out(8)})


class Platform(BlackBoxMemories, SharedModules):
    pass


class Element(wiring.Component):
    """A register of the sum of its input and itself."""

    def __init__(self):
        super().__init__(PORTS)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.y.eq(self.y + self.x)
        return m


class Chain(wiring.Component):
    """``count`` equal elements and a memory."""

    def __init__(self, count: int):
        self.count = count
        super().__init__(PORTS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.array = array = Module()
        value = Signal(8)
        m.d.comb += value.eq(self.x)
        for k in range(self.count):
            array.submodules[f"element_{k}"] = element = Shared("element", PORTS, Element)
            array.d.comb += element.x.eq(value)
            value = element.y
        m.submodules.store = store = Sram(16, 8)
        m.d.comb += [
            store.write_enable.eq(1),
            store.write_data.eq(value),
            store.read_enable.eq(1),
            self.y.eq(store.read_data),
        ]
        return m


def areas(count):
    platform = Platform()
    top = rtlil.convert(Chain(count), name="top", platform=platform, emit_src=False)
    parts, macros = system_area(top + "".join(platform.modules.values()), "top", ASAP7)
    assert macros == {"sram_16x8_1r1w": 1}
    return parts


def test_equal_parts_count_as_often_as_they_occur():
    alone = rtlil.convert(Element(), name="element", emit_src=False)
    element = synthesise(alone, "element", ASAP7).netlist.area
    parts = areas(5)
    assert parts["array"].logic == pytest.approx(5 * element)
    assert parts["array"].memory == 0
    assert parts["store"].memory > 0 and parts["store"].logic < element  # tied-off pins
    assert areas(1)["store"] == parts["store"]


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", SYSTEMS)
def test_every_module_of_a_record_has_a_part(spec, technology):
    record = load_system(spec, technology)
    by_part = area_by_part(record, ACCELERATOR_PARTS[spec])
    assert all(area > 0 for area in by_part.values())
    total = sum(a["logic"] + a["memory"] for a in record["parts"].values())
    assert sum(by_part.values()) * 1e6 == pytest.approx(total)


def test_the_page_has_harmonias_area():
    ours = sum(
        area_by_part(load_system("harmonia", "asap7"), ACCELERATOR_PARTS["harmonia"]).values()
    )
    paper = claim("harmonia.area")
    scaled = paper * area_factor(PAPER_AREAS["harmonia"][1], ASAP7.node)
    page = " ".join((Path(__file__).parents[2] / "docs" / "sweeps.md").read_text().split())
    assert f"Harmonia has {ours:.2f} mm² in asap7" in page
    assert f"the paper's {paper} mm² at 28 nm are {scaled:.2f} mm² at 7 nm" in page


def test_a_module_without_a_part_is_refused():
    record = load_system("anda", "asap7")
    record["parts"]["toaster"] = {"logic": 1.0, "memory": 0.0}
    with pytest.raises(ValueError, match=r"^no part for toaster$"):
        area_by_part(record, ACCELERATOR_PARTS["anda"])


@pytest.mark.full
@pytest.mark.parametrize("spec", SYSTEMS)
def test_records_are_of_the_present_design(spec):
    """Else the command of the site's page makes them again."""
    digest = sha256(to_rtlil(resolve(spec), memory_macros=True))
    for technology in TECHNOLOGIES:
        record = load_system(spec, technology)
        assert record["system_rtlil_sha256"] == digest
        assert is_of_this_flow(record, technology)


def test_area_between_nodes():
    assert area_factor(16, 7) == pytest.approx(0.0092 / 0.03)
    assert area_factor(16, 7) * area_factor(7, 16) == pytest.approx(1)
    assert area_factor(32, 20) < area_factor(32, 28) < 1


def test_unknown_node():
    with pytest.raises(ValueError, match=r"^no scaling for 45 nm; nodes: 7, 16, 20, 28, 32, 130$"):
        area_factor(45, 7)
