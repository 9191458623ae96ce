"""Fields, ports, names and presets, which all parameter objects have."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import pytest

from tilewright.golden.params.block import BlockParams, Field, Port
from tilewright.golden.params.formats import BF16, FP16, FloatFormat


class Colour(Enum):
    RED = "red"
    DARK_BLUE = "dark blue"


@dataclass(frozen=True, kw_only=True)
class ExampleParams(BlockParams):
    block: ClassVar[str] = "example"
    summary: ClassVar[str] = "an example"
    PRESETS: ClassVar = {"plain": {}, "wide": {"width": 64}}

    width: int = 8
    colour: Colour = Colour.RED
    format: FloatFormat = BF16
    limit: int | None = None
    fast: bool = False


def test_slug_names_what_differs_from_the_default():
    assert ExampleParams().slug == "example"
    changed = ExampleParams(width=9, colour=Colour.DARK_BLUE, format=FP16, limit=3, fast=True)
    assert changed.slug == "example__width_9__colour_dark_blue__format_fp16__limit_3__fast_true"
    assert changed.slug.isidentifier()


def test_first_preset_is_the_default_and_changes_apply_on_top():
    assert ExampleParams.preset() == ExampleParams.preset("plain") == ExampleParams()
    assert ExampleParams.preset("wide", fast=True) == ExampleParams(width=64, fast=True)


def test_unknown_preset_is_refused():
    message = r"^block example has no preset 'huge'; presets: plain, wide$"
    with pytest.raises(ValueError, match=message):
        ExampleParams.preset("huge")


def test_as_dict_is_plain_data():
    assert ExampleParams(colour=Colour.DARK_BLUE).as_dict() == {
        "width": 8, "colour": "dark blue", "format": "bf16", "limit": None, "fast": False,
    }  # fmt: skip


def test_parameters_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ExampleParams().width = 9


def test_field_and_port_widths():
    port = Port("i", (Field("a", 3), Field("b", 5, 4), Field("c", 2, 1, signed=True)))
    assert [f.total_bits for f in port.fields] == [3, 20, 2]
    assert port.bits == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", 0), "field a: bits must be at least 1, not 0"),
        (("a", 3, 0), "field a: count must be at least 1, not 0"),
    ],
)
def test_field_refusals(arguments, message):
    with pytest.raises(ValueError) as refusal:
        Field(*arguments)
    assert str(refusal.value) == message
