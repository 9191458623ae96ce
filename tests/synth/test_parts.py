"""Area of parts, hierarchy kept or not."""

import pytest
from amaranth import Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.hw.sram import BlackBoxMemories, Sram
from tilewright.synth.flow import synthesise
from tilewright.synth.parts import part_names
from tilewright.synth.technology import load_technology

ASAP7 = load_technology("asap7")


class Counter(wiring.Component):
    """Counts what its memory says; has a part of its own."""

    step: In(8)
    count: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Sram(8, 8)
        m.d.comb += [table.read_enable.eq(1), table.read_address.eq(self.step[:3])]
        m.d.sync += self.count.eq(self.count + table.read_data)
        return m


class Product(wiring.Component):
    a: In(8)
    y: Out(16)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.y.eq(self.a * self.a)
        return m


class Design(wiring.Component):
    x: In(8)
    y: Out(16)

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = Counter()
        m.submodules.product = product = Product()
        m.d.comb += [
            counter.step.eq(self.x),
            product.a.eq(counter.count),
            self.y.eq(product.y ^ counter.count.any().replicate(16)),
        ]
        return m


TEXT = rtlil.convert(Design(), name="top", platform=BlackBoxMemories(), emit_src=False)
TABLE = ASAP7.memory.area(8, 8)


@pytest.fixture(scope="module")
def flattened():
    return synthesise(TEXT, "top", ASAP7)


@pytest.fixture(scope="module")
def kept():
    return synthesise(TEXT, "top", ASAP7, keep_hierarchy=True)


def test_parts_are_the_whole(flattened, kept):
    for result in (flattened, kept):
        areas = result.area_by_part
        assert list(areas) == ["", "counter", "counter.table", "product"]
        assert sum(areas.values()) == pytest.approx(result.netlist.area)
        assert areas["counter.table"] == pytest.approx(TABLE, rel=0.01)  # and its tie cells


def test_gates_count_for_the_register_they_feed(flattened, kept):
    """The square is by far the largest logic; nothing of it goes to the counter or the top."""
    for part in ("counter", "product"):
        assert flattened.area_by_part[part] == pytest.approx(kept.area_by_part[part], rel=0.15)
    registers = [i for i in flattened.netlist.instances if i.cell.state and not i.cell.memory_bits]
    own = sum(i.cell.area for i in registers if i.name.startswith("product."))
    assert flattened.area_by_part["product"] > 2 * own


def test_a_module_with_the_name_of_a_signal():
    """Amaranth numbers it; the part is still called as the source calls it."""

    class Twice(Design):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            product = Signal(8)
            m.d.sync += product.eq(self.x)
            m.d.comb += m.submodules.counter.step.eq(product)
            return m

    text = rtlil.convert(Twice(), name="top", platform=BlackBoxMemories(), emit_src=False)
    assert any("$" in name for name in part_names(text, "top"))
    assert "product" in synthesise(text, "top", ASAP7).area_by_part


def test_logic_alone_tells_no_part():
    class Logic(wiring.Component):
        x: In(4)
        y: Out(1)

        def elaborate(self, platform):
            m = Module()
            m.submodules.inside = inside = Module()
            inside.d.comb += self.y.eq(self.x.xor())
            return m

    text = rtlil.convert(Logic(), name="top", emit_src=False)
    assert synthesise(text, "top", ASAP7).area_by_part == {}
