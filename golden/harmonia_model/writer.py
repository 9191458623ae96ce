"""Instructions that the programs of a model are written with: products, norms, elementwise work."""

from collections.abc import Sequence
from itertools import islice

from tilewright.golden.bits import encode
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import Instruction, Settings, groups_of
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import LAYER_INDEX, Matrix, Plan
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import Conversion, Memory, Opcode, Operand
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

__all__ = ["NORM_SHARE", "Writer", "half"]

# Mean squares are computed as this share of themselves, so that those of outlying tokens, up to
# four million, are finite in fp16; gains carry its root.
NORM_SHARE = 2.0**-6


def half(value: float) -> int:
    """The fp16 pattern nearest to a number."""
    return int(encode(FP16, value))


class Writer(Builder):
    """Writes programs of one model; its memory is not used, lines are those of the image."""

    def __init__(self, plan: Plan, lines: Lines):
        super().__init__(plan.params)
        self.plan, self.lines = plan, lines

    def configured(self, lanes: int, tokens: int) -> None:
        """Settings as they are at the beginning of a loop's body, however it was reached."""
        self._settings = Settings(lanes, tokens)
        self.emit(
            Opcode.CONFIGURE,
            lanes=lanes,
            tokens=tokens,
            dataflow=int(self._settings.dataflow),
            causal_limit=self._settings.causal_limit,
        )

    def all_lanes(self) -> None:
        self.configure(lanes=range(self.params.rows))

    # Moves, of a layer or of its cache where ``index`` names an index register.

    def bring(
        self, memory: Memory, row: int, rows: int, line: int, index: int = 0, spread: int = 0
    ) -> None:
        self.emit(
            Opcode.LOAD,
            memory=int(memory),
            row=row,
            rows=rows,
            line=line,
            line_index=index,
            spread=spread,
        )

    def keep(self, memory: Memory, row: int, rows: int, line: int, index: int = 0) -> None:
        self.emit(Opcode.STORE, memory=int(memory), row=row, rows=rows, line=line, line_index=index)

    def norm(self, source: int, gain: int, destination: int, elements: int) -> None:
        """Write a root mean square norm; the gain's row holds it times the root of NORM_SHARE."""
        self.work(
            Operation.DOT, 0, source, source, elements=elements, scale=half(NORM_SHARE / elements)
        )
        epsilon = half(self.plan.config.norm_eps * NORM_SHARE)
        for operation in (Operation.ADD, Operation.RECIPROCAL_ROOT):
            self.work(operation, 0, 0, epsilon, elements=0, a_kind=Kind.SCALAR, kind=Kind.IMMEDIATE)
        self.work(Operation.MULTIPLY, destination, source, 0, elements=elements, kind=Kind.SCALAR)
        self.work(Operation.MULTIPLY, destination, destination, gain, elements=elements)

    def activations(self, source: int, elements: int, destination: int, copies: int = 1) -> None:
        """Convert a token tile; for weights of 8 bits twice, one copy behind the other."""
        for copy in range(copies):
            self.convert(
                Conversion.ACTIVATIONS,
                source=source,
                elements=elements,
                destination=destination + copy * groups_of(self.params, elements),
            )

    # Products.

    def bring_part(self, matrix: Matrix, first: int, part: int, index: int = LAYER_INDEX) -> None:
        """Load a part in the background, into the half of its number; ``first`` is the matrix's."""
        row, line = self.plan.half_row(part % 2), first + part * matrix.part_lines
        self.bring(Memory.OPERANDS, row, matrix.part_rows, line, index)
        self.bring(Memory.SCALES, row, matrix.part_rows, line + matrix.scale_lines, index)

    def multiply_part(
        self, matrix: Matrix, half: int, source: int, destination: int, maxima: int | None = None
    ) -> None:
        row = self.plan.half_row(half)
        self.gemm(
            Operand.WEIGHTS,
            source=source,
            operands=row,
            metadata=row,
            destination=destination,
            groups=matrix.groups,
            tiles=matrix.part_tiles,
            maxima=maxima,
        )

    def product(
        self,
        name: str,
        places: list[tuple[int, int, list[int]]],
        then: str,
        beside: Sequence[Instruction] = (),
    ) -> None:
        """A layer's matrix times activations; its first part is there or on its way.

        ``places`` are, for every token tile, the rows of activations, the row of results, and the
        lanes that are written. The first part of the matrix ``then`` is brought beside the last;
        an empty name is that of the next layer's first matrix. ``beside`` are instructions of other
        units, one for each part and the others behind the last.
        """
        matrix, first = self.plan.matrices[name], self.lines.matrices[name]
        others = iter(beside)
        for part in range(matrix.parts):
            for source, destination, lanes in places:
                self.configure(lanes=lanes)
                row = destination + part * matrix.part_tiles * self.params.tile_words
                self.multiply_part(matrix, part % 2, source, row)
            # The other half is free as soon as the array has begun with this one.
            if part + 1 < matrix.parts:
                self.bring_part(matrix, first, part + 1)
            else:
                following = self.plan.matrices[then or "qkv"]
                line = self.lines.matrices[then] if then else self.lines.next_layer
                self.bring_part(following, line, 0)
            self.program += islice(others, 1)
        self.program += others
