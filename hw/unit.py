"""Component base: ports come from the parameter object, so a width is declared once."""

from typing import Generic, TypeVar

from amaranth import Shape, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import BlockParams, Field, Port

P = TypeVar("P", bound=BlockParams)

# Amaranth reads the name of a signal off the code of the line that makes it. Where a comprehension
# uses one of several that are made in a line, Python 3.11 compiles that line so that no name is
# found, and later versions so that one is. This is what the signal is called without: the RTLIL,
# and with it the netlists that are recorded, is the same under every version.
UNNAMED = "$signal"


def field_shape(field: Field) -> Shape | data.ArrayLayout:
    """Shape of one field: a scalar, or an array when the field has a count."""
    element = signed(field.bits) if field.signed else unsigned(field.bits)
    return element if field.count is None else data.ArrayLayout(element, field.count)


def payload_layout(port: Port) -> data.StructLayout:
    """Payload of ``port``: its fields in order, the first one lowest."""
    return data.StructLayout({f.name: field_shape(f) for f in port.fields})


def word_layout(bits: int) -> data.StructLayout:
    """Payload of one word, as the stream blocks of the catalogue have it.

    For structs inside a block whose records must not change: a stream of the struct itself would
    give each of its fields a name in the RTLIL.
    """
    return data.StructLayout({"data": bits})


def unit_signature(params: BlockParams) -> wiring.Signature:
    """The ports of a unit: streams and other wires."""
    return wiring.Signature(
        {p.name: In(stream.Signature(payload_layout(p))) for p in params.inputs}
        | {p.name: Out(stream.Signature(payload_layout(p))) for p in params.outputs}
        | {w.name: Out(w.bits) if w.output else In(w.bits) for w in params.wires}
    )


class Unit(wiring.Component, Generic[P]):
    """A component whose ports are those of ``params``."""

    def __init__(self, params: P):
        self.params = params
        super().__init__(unit_signature(params))
