"""Anda: parameters of the bit-plane compressor, the bit-serial processing unit (APU) and the MXU.

Sizes are those of the Anda paper (HPCA 2025) by default. A *group* is ``group`` activations that
share an exponent; it travels as 1 + M words of ``group`` bits, its planes: the signs, then the
mantissa bits from the most significant down, element 0 in bit 0.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tilewright.golden.params.block import (
    BlockParams,
    Field,
    Limited,
    Port,
    Timing,
    Untimed,
    require,
    signed,
    stream,
    within,
)
from tilewright.golden.params.formats import FP16, FP32, BlockFormat, FloatFormat, IntFormat

MAX_MANTISSA_BITS = 16
MANTISSA_FIELD_BITS = MAX_MANTISSA_BITS.bit_length()
PARTIAL_FORMATS = (FP16, FP32)
Group = Annotated[int, within(2, 64)]
BY_PLANES = Untimed("M + 1 cycles per group: see tilewright.golden.anda.cycles")


@dataclass(frozen=True, kw_only=True)
class AndaNumerics(Limited):
    """Everything an Anda dot product's result depends on apart from its operands.

    Per group the exact integer sum becomes a number of ``partial``, is multiplied by the weight
    scale into fp32 and added to an fp32 sum that starts at +0, group after group; the sum leaves
    as fp16. Every step rounds to nearest even.
    """

    group: Group = 64
    weight_bits: Annotated[int, within(2, 8)] = 4
    partial: FloatFormat = FP16

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.partial in PARTIAL_FORMATS,
            f"partial must be one of {', '.join(map(str, PARTIAL_FORMATS))}, not {self.partial}",
        )

    @property
    def weight_format(self) -> IntFormat:
        return IntFormat(bits=self.weight_bits)

    def block_format(self, mantissa_bits: int) -> BlockFormat:
        return BlockFormat(group=self.group, mantissa_bits=mantissa_bits)

    @property
    def plane_sum_bits(self) -> int:
        """Bits of one plane's signed sum of up to ``group`` weights."""
        return self.weight_bits + (self.group - 1).bit_length()

    @property
    def group_sum_bits(self) -> int:
        """Bits of the signed dot product of a whole group at the longest mantissa."""
        return self.plane_sum_bits + MAX_MANTISSA_BITS


@dataclass(frozen=True, kw_only=True)
class AndaCompressorParams(BlockParams):
    """``lanes`` groups of fp16 values at a time to Anda planes, one plane a cycle.

    ``i.values`` holds element k of lane l at l * group + k. ``o.words`` are the lanes' planes,
    ``first`` marks the sign words, ``last`` the least significant plane; ``exponents`` hold from
    the first to the last beat. ``saturated``: a value of these groups was infinite or NaN and
    counts as the largest finite one of its sign. ``i.mantissa`` is 1..16.
    """

    block: ClassVar[str] = "anda_compressor"
    summary: ClassVar[str] = "Anda bit-plane compressor: groups of fp16 values to planes"
    PRESETS: ClassVar = {"paper": {}, "small": {"lanes": 2, "group": 8}}

    lanes: Annotated[int, within(1, 64)] = 16
    group: Group = 64

    inputs = stream("i", mantissa=MANTISSA_FIELD_BITS, values=(FP16, "values"))
    outputs = stream(
        "o",
        first=1,
        last=1,
        words=("group", "lanes"),
        exponents=(FP16.exponent_bits, "lanes"),
        saturated=1,
    )
    # One plane a cycle, M + 1 for a set of groups, without a gap between sets.
    timing = Timing(latency=1)

    @property
    def values(self) -> int:
        return self.lanes * self.group


@dataclass(frozen=True, kw_only=True)
class AndaCompressorLaneParams(BlockParams):
    """One lane of :class:`AndaCompressorParams` with ports of its own."""

    block: ClassVar[str] = "anda_compressor_lane"
    summary: ClassVar[str] = "one lane of the Anda bit-plane compressor"
    PRESETS: ClassVar = {"paper": {}, "small": {"group": 8}, "odd": {"group": 13}}

    group: Group = 64

    inputs = stream("i", mantissa=MANTISSA_FIELD_BITS, values=(FP16, "group"))
    outputs = stream("o", first=1, last=1, word="group", exponent=FP16.exponent_bits, saturated=1)
    timing = Timing(latency=1)


# Registers of a pipelined MXU: before the sum of a group, and after it in normalisation, product
# and sum.
MXU_PLANE_REGISTERS = 1
MXU_SCALE_REGISTERS = (2, 3, 3)


@dataclass(frozen=True, kw_only=True)
class AndaApuParams(BlockParams):
    """One dot product of Anda activations and integer weights, plane by plane.

    ``i0`` has one beat per plane; the first of a group is its sign word, with ``mantissa`` (1..16),
    ``exponent`` and whether the group is the ``first_group`` or ``last_group`` of its dot product.
    ``i1`` has one beat per group: the weights and their scale.

    ``buffered``: a group's signs and two groups of weights (the double buffer) are held inside.
    Otherwise they are held outside, as by the dispatchers of the MXU: a beat stays on ``i1`` until
    its group ends, and mantissa words are XORed with their group's sign word.

    ``registered``: planes pass a register of the unit too, which takes a cycle more.

    Neither of the following changes a bit or a cycle. ``weight_buffers``: with one, the next
    group's weights are loaded in the cycle in which a group ends, and ``i1.ready`` follows
    ``i0.valid`` within a cycle. ``isolated``: the last rounding sees zeros until its sum is
    complete.
    """

    block: ClassVar[str] = "anda_apu"
    summary: ClassVar[str] = "Anda bit-serial processing unit: one dot product"
    PRESETS: ClassVar = {
        "paper": {},
        "bare": {"buffered": False},
        "registered": {"registered": True},
        "small": {"group": 8},
        "fp32": {"group": 8, "partial": FP32},
        "int3": {"group": 13, "weight_bits": 3, "buffered": False},
    }

    group: int = 64
    weight_bits: int = 4
    partial: FloatFormat = FP16
    buffered: bool = True
    registered: bool = False
    weight_buffers: Annotated[int, within(1, 2)] = 2
    isolated: bool = False

    inputs = stream(
        "i0",
        mantissa=MANTISSA_FIELD_BITS,
        plane="group",
        exponent=FP16.exponent_bits,
        first_group=1,
        last_group=1,
    ) + stream("i1", weights=signed("weight_bits", "group"), scale=FP16)
    outputs = stream("o", result=FP16)
    timing = BY_PLANES

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.numerics
        require(self.buffered or not self.registered, "registered needs buffered")
        require(self.buffered or self.weight_buffers == 2, "weight_buffers needs buffered")

    @property
    def result_latency(self) -> int:
        """Cycles from a dot product's last plane to its result."""
        return 3 + self.registered  # the group's sum, scaled, accumulated

    @property
    def numerics(self) -> AndaNumerics:
        return self.shared(AndaNumerics)


@dataclass(frozen=True, kw_only=True)
class AndaMxuParams(BlockParams):
    """``rows`` x ``columns`` APUs, output stationary: a tile of a GEMM.

    ``i0`` has one beat per plane, as for an APU, with one word and one exponent per row. ``i1``
    has ``weight_beats`` beats per group: ``planes`` are the bit planes of the columns' weights,
    the most significant (the sign) first, plane p of a beat for column c at p * columns + c;
    ``scales`` count on a group's first beat. ``o`` gives the tile row by row.

    ``pipelined``, for FPGAs: registers before the APUs, and where a group's sum is scaled and
    added. Results are the same, but later; groups of few planes wait for their predecessors.

    ``row_groups``: parts of equally many rows that can have weights of their own. A beat of ``i1``
    then has all planes of ``beat_tiles`` tiles, one after the other, and their scales; a group has
    beats to the ``last`` one. A tile is that of 2^``span`` row groups, the lowest ones first; row
    groups that get none use what they had.
    """

    block: ClassVar[str] = "anda_mxu"
    summary: ClassVar[str] = "Anda matrix unit: an output-stationary array of APUs"
    PRESETS: ClassVar = {
        "paper": {},
        "small": {"rows": 2, "columns": 2, "group": 8},
        "oblong": {"rows": 3, "columns": 2, "group": 5, "weight_bits": 3, "planes_per_beat": 3},
        "fp32": {"rows": 2, "columns": 1, "group": 8, "partial": FP32},
        "pipelined": {"rows": 2, "columns": 2, "group": 16, "pipelined": True},
        "shared": {"rows": 8, "columns": 2, "group": 8, "row_groups": 4, "beat_tiles": 2},
    }

    rows: Annotated[int, within(1, 64)] = 16
    columns: Annotated[int, within(1, 64)] = 16
    group: int = 64
    weight_bits: int = 4
    planes_per_beat: int = 2
    partial: FloatFormat = FP16
    pipelined: bool = False
    row_groups: int = 1
    beat_tiles: int = 1

    _operands = stream(
        "i0",
        mantissa=MANTISSA_FIELD_BITS,
        planes=("group", "rows"),
        exponents=(FP16.exponent_bits, "rows"),
        first_group=1,
        last_group=1,
    ) + stream("i1", planes=("group", "beat_planes"), scales=(FP16, "beat_columns"))
    outputs = stream("o", row="row_bits", values=(FP16, "columns"), last=1)
    timing = BY_PLANES

    @property
    def inputs(self) -> tuple[Port, ...]:
        planes, weights = self._operands
        if self.row_groups == 1:
            return planes, weights
        more = Field("span", self.span_bits), Field("last", 1)
        return planes, Port(weights.name, (*weights.fields, *more))

    @property
    def spans(self) -> range:
        """Logarithms of the numbers of row groups that can share a tile."""
        return range(self.row_groups.bit_length())

    @property
    def span_bits(self) -> int:
        return (len(self.spans) - 1).bit_length()

    @property
    def beat_columns(self) -> int:
        return self.beat_tiles * self.columns

    @property
    def beat_planes(self) -> int:
        planes = self.planes_per_beat if self.row_groups == 1 else self.weight_bits
        return planes * self.beat_columns

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.numerics
        require(
            self.row_groups in (1, 2, 4, 8, 16) and self.rows % self.row_groups == 0,
            f"row_groups must be 1, 2, 4, 8 or 16 and divide the {self.rows} rows, not"
            f" {self.row_groups!r}",
        )
        require(
            self.beat_tiles >= 1 and self.row_groups % self.beat_tiles == 0,
            f"beat_tiles must divide the {self.row_groups} row groups, not be {self.beat_tiles!r}",
        )
        require(
            self.planes_per_beat >= 1 and self.weight_bits % self.planes_per_beat == 0,
            f"planes_per_beat must divide the {self.weight_bits} weight bits,"
            f" not be {self.planes_per_beat!r}",
        )

    @property
    def numerics(self) -> AndaNumerics:
        return self.shared(AndaNumerics)

    @property
    def scale_cycles(self) -> int:
        """Cycles in which a group's sum is scaled and accumulated."""
        return MXU_PLANE_REGISTERS + sum(MXU_SCALE_REGISTERS) + 1 if self.pipelined else 1

    @property
    def result_latency(self) -> int:
        """Cycles from a tile's last plane to its results."""
        return 2 + self.scale_cycles

    @property
    def weight_beats(self) -> int:
        """Beats, and rows of a buffer, of a tile's weights for a group; without row groups."""
        return self.weight_bits // self.planes_per_beat

    @property
    def common_beats(self) -> int:
        """Beats of a group whose weights all rows share."""
        return self.weight_beats if self.row_groups == 1 else 1

    @property
    def group_rows(self) -> int:
        """Rows of a row group."""
        return self.rows // self.row_groups

    @property
    def row_bits(self) -> int:
        return max(1, (self.rows - 1).bit_length())


ANDA_BLOCKS = (AndaCompressorParams, AndaCompressorLaneParams, AndaApuParams, AndaMxuParams)
