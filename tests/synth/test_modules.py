"""Area module by module: equal modules are one, each is mapped by itself, results are kept."""

import pytest

from tilewright.synth import modules
from tilewright.synth.flow import map_modules
from tilewright.synth.modules import area_by_modules, read_modules
from tilewright.synth.system import Area
from tilewright.synth.technology import load_technology

ASAP7 = load_technology("asap7")

pytestmark = pytest.mark.usefixtures("empty_cache")


def part(name, number, operation="$and"):
    """A module with two inputs whose names Amaranth numbered."""
    return f"""
attribute \\generator "Amaranth"
module \\top.{name}

  wire width 2 input 0 \\a${number}

  wire width 2 input 1 \\b

  wire width 2 output 2 \\y${number + 1}

  cell {operation} ${number + 2}
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 2
    parameter \\B_SIGNED 0
    parameter \\B_WIDTH 2
    parameter \\Y_WIDTH 2
    connect \\A \\a${number} [1:0]
    connect \\B \\b [1:0]
    connect \\Y \\y${number + 1}
  end

end
"""


def whole(*parts):
    """Parts side by side; the operation of the last may differ."""
    cells = "".join(
        f"""
  cell \\top.{name} \\{name}
    connect \\a${number} \\a [1:0]
    connect \\b \\b [1:0]
    connect \\y${number + 1} \\{name}__y
  end
"""
        for name, number, *_ in parts
    )
    outputs = "".join(
        f"  wire width 2 output {k + 2} \\{name}__y\n" for k, (name, *_) in enumerate(parts)
    )
    return f"""
attribute \\generator "Amaranth"
attribute \\top 1
module \\top
  wire width 2 input 0 \\a
  wire width 2 input 1 \\b
{outputs}{cells}
end
""" + "".join(part(*p) for p in parts)


TWICE = whole(("left", 3), ("right", 41))


def test_modules_that_differ_in_names_are_one():
    found = read_modules(TWICE)
    assert list(found) == ["top", "top.left", "top.right"]
    assert found["top.left"].text == found["top.right"].text
    assert found["top"].parts == ("top.left", "top.right")
    other = read_modules(whole(("left", 3), ("right", 41, "$or")))
    assert other["top.left"].text == found["top.left"].text != other["top.right"].text


def test_equal_modules_are_mapped_once_and_counted_twice(monkeypatch):
    mapped = []

    def watched(text, top, technology):
        mapped.append(text)
        return map_modules(text, top, technology)

    monkeypatch.setattr(modules, "map_modules", watched)
    area = area_by_modules(TWICE, "top", ASAP7)
    assert len(mapped) == 2  # the whole and one of its parts
    gates = map_modules(TWICE, "top", ASAP7)["top.left"]
    assert gates and area.memory == 0
    assert area.logic == pytest.approx(2 * sum(cell.area for cell in gates))
    # A design with one of the same parts: only what is new is mapped.
    area_by_modules(whole(("left", 7), ("right", 9, "$or")), "top", ASAP7)
    assert len(mapped) == 3  # the other part; the whole is equal but for its parts' contents
    assert area_by_modules(TWICE, "top", ASAP7) == area and len(mapped) == 3


def test_memories_come_from_the_model():
    memory = """
module \\top
  wire width 1 input 0 \\clk
  wire width 4 input 1 \\address
  wire width 8 input 2 \\data
  wire width 8 output 3 \\word
  cell \\sram_16x8_1r1w \\macro
    connect \\clk \\clk [0]
    connect \\write_enable 1'1
    connect \\write_address \\address [3:0]
    connect \\write_data \\data [7:0]
    connect \\read_enable 1'1
    connect \\read_address \\address [3:0]
    connect \\read_data \\word
  end
end
"""
    area = area_by_modules(memory, "top", ASAP7)
    assert area.memory == pytest.approx(ASAP7.memory.area(16, 8))
    assert area == Area(area.logic, area.memory) and area.logic < 1  # tie cells
