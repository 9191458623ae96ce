"""The vector unit of the programmable accelerators: operations, tables, ports.

One beat carries a word of the activation buffer: ``group / 16`` fp16 values of every row. The
three approximated functions share one datapath, linear interpolation in tables of 64 segments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from math import log2, sqrt
from typing import Annotated, ClassVar, NamedTuple

from tilewright.golden.params.block import (
    BlockParams,
    Field,
    Port,
    Timing,
    at_least,
    one_of,
    require,
    stream,
    within,
)
from tilewright.golden.params.formats import FP16

SCALAR_BITS = FP16.bits


class Operation(IntEnum):
    """Operations of the vector unit on a beat; the codes of the instruction set."""

    COPY = 0  # a, every bit
    ADD = 1  # a + b
    SUBTRACT = 2  # a - b
    MULTIPLY = 3  # a * b
    MAXIMUM = 4  # the larger of a and b; +0 is larger than -0, NaN wins
    EXPONENTIAL = 5  # e^a, approximated
    RECIPROCAL = 6  # 1 / a, approximated
    RECIPROCAL_ROOT = 7  # 1 / sqrt(a), approximated
    SUM = 8  # of a along the row, times scale
    DOT = 9  # sum of a * b along the row, times scale
    LARGEST = 10  # the largest a of the row
    POWERS = 11  # e^(a - b), approximated, and their sum along the row, times scale
    DOTS = 12  # dot products of several parts of a with b, times scale, an element each
    WEIGH = 13  # sums of words of a, each times an element of b

    @property
    def reduces(self) -> bool:
        """Whether it gives one value for a row and nothing else."""
        return self in (Operation.SUM, Operation.DOT, Operation.LARGEST)

    @property
    def keeps_sum(self) -> bool:
        """Whether it gives a value for every element and one for the row."""
        return self is Operation.POWERS

    @property
    def attends(self) -> bool:
        """Whether it gives several sums, each of many beats: scores, or values by their weights."""
        return self in (Operation.DOTS, Operation.WEIGH)

    @property
    def takes_b(self) -> bool:
        return self in (
            Operation.ADD,
            Operation.SUBTRACT,
            Operation.MULTIPLY,
            Operation.MAXIMUM,
            Operation.DOT,
            Operation.POWERS,
            Operation.DOTS,
            Operation.WEIGH,
        )

    @property
    def takes_scale(self) -> bool:
        return self in (Operation.SUM, Operation.DOT, Operation.POWERS, Operation.DOTS)


OPERATION_BITS = 4
PIPELINED_BEAT_CYCLES = 4  # of vector units in accelerators for FPGAs

# Tables of the approximations.

SEGMENT_BITS = 6  # 64 segments of the argument's range
STEP_BITS = 10  # bits of the argument below the segment's number
ARGUMENT_BITS = SEGMENT_BITS + STEP_BITS
VALUE_FRACTION = 16  # table values are multiples of 2^-16, below 2
VALUE_BITS = VALUE_FRACTION + 1
SLOPE_BITS = 12  # signed; the rise over a whole segment, a multiple of 2^-16
# log2(e) with 20 fraction bits: over the whole range of e^x its error moves a result by less than
# a hundredth of its last place.
LOG2_E = round(2**20 / 0.6931471805599453)
LOG2_E_FRACTION = 20


class Segment(NamedTuple):
    """value = base + floor(slope * step / 2^STEP_BITS), in units of 2^-VALUE_FRACTION."""

    base: int
    slope: int


def _segments(function: Callable[[float], float]) -> tuple[Segment, ...]:
    """``function`` over 64 equal parts of [0, 1).

    A chord of a convex function lies above it, most in the middle: half of that distance is
    subtracted. Half a unit is added for the final truncation.
    """
    count = 1 << SEGMENT_BITS
    unit = 1 << VALUE_FRACTION
    segments = []
    for k in range(count):
        low, middle, high = (function((k + part) / count) for part in (0, 0.5, 1))
        slope = round((high - low) * unit)
        bulge = (low + high) / 2 - middle
        segments.append(Segment(round((low - bulge / 2) * unit + 0.5), slope))
    return tuple(segments)


def _root_argument(u: float) -> float:
    """[0, 1) to [1, 4): the upper half of the segments is for odd exponents."""
    return 1 + 2 * u if u < 0.5 else 4 * u


TABLES = {
    Operation.EXPONENTIAL: _segments(lambda u: 2**u),
    Operation.RECIPROCAL: _segments(lambda u: 1 / (1 + u)),
    Operation.RECIPROCAL_ROOT: _segments(lambda u: 1 / sqrt(_root_argument(u))),
}


def levels(lanes: int) -> int:
    """Levels of a tree of pairs over ``lanes`` lanes, a power of two."""
    return lanes.bit_length() - 1


@dataclass(frozen=True, kw_only=True)
class VectorParams(BlockParams):
    """``rows`` rows of ``group / 16`` fp16 lanes: element by element, or reduced along the row.

    A beat of a reduction gives, in every lane of a row, the reduction of that row since the beat
    marked ``first``. Each lane sums its own elements in fp32 from +0, the lanes of a row are then
    added in a balanced tree in fp32, and the sum times ``scale`` is rounded to fp16 once. Elements
    that are not ``active`` do not count in reductions and give +0 elsewhere.

    A unit that is ``fused`` has one operation more, POWERS: a beat gives e^(a - b), a - b rounded
    to fp16, and in ``sums`` the sum of the powers of every row, rounded to fp16 each, as SUM would
    give it of them.

    A unit that ``attends`` has two more. A beat of DOTS gives what one of DOT does. A beat of
    WEIGH gives in every lane that lane's own sum of a * b in fp32 since the beat marked ``first``,
    rounded to fp16.

    ``beat_cycles``, for FPGAs: a beat stays in every stage for so many cycles, with registers
    inside the stages, and before the first one. Results are the same.
    """

    # Name and summary are part of the emitted Verilog; the unit was Anda's first.
    block: ClassVar[str] = "anda_vector"
    summary: ClassVar[str] = "Anda vector unit: fp16 lanes, approximated functions, reductions"
    # Small: the accelerator builds its own size; what differs between sizes is the tree of a row.
    PRESETS: ClassVar = {
        "default": {},
        "rows": {"rows": 2, "group": 16},
        "fused": {"rows": 2, "group": 64, "fused": True},
        "attends": {"rows": 2, "group": 64, "attends": True},
        "paced": {"rows": 2, "group": 32, "attends": True, "beat_cycles": 3},
        "paced_fused": {"rows": 2, "group": 32, "fused": True, "beat_cycles": 3},
    }

    rows: Annotated[int, at_least(1)] = 1
    group: Annotated[int, one_of(16, 32, 64, 128, 256)] = 32
    fused: bool = False
    attends: bool = False
    beat_cycles: Annotated[int, within(1, 4)] = 1

    inputs = stream(
        "i",
        operation=OPERATION_BITS,
        first=1,
        active=(1, "row_lanes"),  # the same elements of every row
        scale=SCALAR_BITS,
        a=(FP16, "lanes"),  # row by row
        b=(FP16, "lanes"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not (self.fused and self.attends), "a vector unit is fused or attends, not both")

    @property
    def row_lanes(self) -> int:
        """fp16 values in one word of ``group`` bits."""
        return self.group // FP16.bits

    @property
    def lanes(self) -> int:
        return self.rows * self.row_lanes

    @property
    def latency(self) -> int:
        """Cycles from a beat to what it gives."""
        return self.stages * self.beat_cycles + (self.beat_cycles > 1)

    @property
    def stages(self) -> int:
        """Those of the lanes, one for each level of a row's tree, one at the end."""
        return (4 if self.fused else 2) + levels(self.row_lanes) + 1

    @property
    def suffix(self) -> str:
        """A suffix for names of parts that take several cycles a beat."""
        return f"_in{self.beat_cycles}" if self.beat_cycles > 1 else ""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of this unit."""
        return tuple(
            o
            for o in Operation
            if (self.fused or not o.keeps_sum) and (self.attends or not o.attends)
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        sums = (Field("sums", FP16.bits, self.rows),) if self.fused else ()
        return (Port("o", (Field("values", FP16.bits, self.lanes), *sums)),)

    @property
    def timing(self) -> Timing:
        return Timing(latency=self.latency, interval=Fraction(self.beat_cycles))


def exponent_range() -> tuple[int, int]:
    """Smallest and largest exponent that an approximation gives to its table's value."""
    lowest_input = FP16.min_exponent - FP16.mantissa_bits
    # e^x: |x| < 32, so |x| log2(e) < 64.
    bound = 1 << int(log2(32 / 0.6931471805599453) + 1)
    return min(-bound, -FP16.max_exponent), max(bound - 1, -lowest_input)


VECTOR_BLOCKS: tuple[type[BlockParams], ...] = (VectorParams,)
