"""Operands of a vector instruction: their meaning, their ranges and their errors."""

from collections.abc import Sequence

from amaranth import Cat, Module, Value
from amaranth.lib import data

from tilewright.golden.params.machine import SCALARS, Error, Kind
from tilewright.hw.machine.ranges import Range
from tilewright.hw.machine.sequencer import Sequencer, is_one_of


class VectorOperands:
    """The operands of the instruction with ``fields``, if it is a vector instruction."""

    def __init__(self, controller: Sequencer, fields: data.View):
        self.controller, self.fields = controller, fields
        self.tensor_a = fields.a_kind == Kind.TENSOR
        self.tensor_b = controller.takes_b & (fields.b_kind == Kind.TENSOR)

    def meanings(self) -> list:
        """Assignments to the controller's outputs."""
        operation, own = self.fields.operation, self.controller.params.vector.operations
        return [
            self.controller.takes_b.eq(is_one_of(operation, [o for o in own if o.takes_b])),
            self.controller.reduces.eq(is_one_of(operation, [o for o in own if o.reduces])),
            self.controller.scalars_only.eq(~self.tensor_a & ~self.tensor_b),
        ]

    def measure(self, m: Module, ranges: Sequence[Range], rows: Value) -> None:
        """The ranges of all tensors of ``rows`` rows; one word without any."""
        x, controller = self.fields, self.controller
        with m.If(self.tensor_a):
            m.d.sync += ranges[0].covers(x.a, rows)
        with m.If(self.tensor_b):
            m.d.sync += ranges[1].covers(x.b, rows)
        with m.If(~controller.reduces & ~controller.scalars_only):
            m.d.sync += ranges[2].covers(x.destination, rows)
        with m.If(controller.scalars_only):
            m.d.sync += controller.words.eq(1)

    def scalars(self) -> Value:
        """The scalar registers that it reads or writes, a bit each."""
        x, controller = self.fields, self.controller
        used = [
            (x.a_kind == Kind.SCALAR, x.a),
            (controller.takes_b & (x.b_kind == Kind.SCALAR), x.b),
            (controller.reduces | controller.scalars_only, x.destination),
        ]
        sums = [o for o in controller.params.vector.operations if o.keeps_sum]
        if sums:
            used.append((is_one_of(x.operation, sums), x.total))
        return Cat(Cat(uses & (number == k) for uses, number in used).any() for k in range(SCALARS))

    def errors(self, over: Value, empty: Value | None = None) -> tuple[tuple[Value, Error], ...]:
        """The errors in their order; ``over``: a tensor ends beyond its memory.

        ``empty``: a size that only some operations have is 0.
        """
        x, controller = self.fields, self.controller
        own = controller.params.vector.operations
        known = is_one_of(x.operation, own)
        of_tensors = [o for o in own if o.reduces or o.keeps_sum or o.attends]
        needs_tensor = is_one_of(x.operation, of_tensors)
        attends = is_one_of(x.operation, [o for o in own if o.attends])
        kinds = [is_one_of(kind, Kind) for kind in (x.a_kind, x.b_kind)]
        scalar_destination = controller.reduces | controller.scalars_only
        bad_scalar = (
            ((x.a_kind == Kind.SCALAR) & (x.a >= SCALARS))
            | (controller.takes_b & (x.b_kind == Kind.SCALAR) & (x.b >= SCALARS))
            | (scalar_destination & (x.destination >= SCALARS))
        )
        return (
            (~known | ~kinds[0] | ~kinds[1], Error.OPERAND),
            (needs_tensor & ~self.tensor_a, Error.OPERAND),
            *([(attends & ~self.tensor_b, Error.OPERAND)] if empty is not None else []),
            ((x.elements == 0) & ~controller.scalars_only, Error.SIZE),
            *([(attends & empty, Error.SIZE)] if empty is not None else []),
            (over | bad_scalar, Error.ADDRESS),
        )
