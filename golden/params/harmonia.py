"""Parameters of Harmonia: all-layer block floating point with a compressed KV cache."""

from dataclasses import dataclass
from enum import Enum

from golden.params.block import require
from golden.params.formats import FP16, FP32, BlockFormat, FloatFormat, IntFormat

ACTIVATION_BITS = 8  # mantissas outside the cache, and the first operand of every product


class Mode(Enum):
    """What the reconfigurable element multiplies: 8-bit mantissas with one of three operands."""

    M8W4 = "m8w4"  # 4-bit integer weights with a scale per weight group: linear layers
    M8M4 = "m8m4"  # 4-bit mantissas: old tokens of the cache
    M8M8 = "m8m8"  # 8-bit mantissas, as 16 * high half + low half: recent tokens

    @property
    def operand_bits(self) -> int:
        """Magnitude or two's complement bits of the second operand."""
        return 8 if self is Mode.M8M8 else 4

    @property
    def passes(self) -> int:
        """Sub-element sums that make one group's sum."""
        return 2 if self is Mode.M8M8 else 1


@dataclass(frozen=True, kw_only=True)
class HarmoniaNumerics:
    """Everything a group's result depends on beside its operands.

    The exact integer sum of a group becomes a number of ``partial`` by the sum of both shared
    exponents; in M8W4 it is multiplied by the weight scale into fp32, else taken as fp32; it is
    added to an fp32 sum that starts at +0, group after group; the sum leaves as fp16. Every step
    rounds to nearest even.
    """

    group: int = 32
    partial: FloatFormat = FP16

    def __post_init__(self) -> None:
        require(2 <= self.group <= 64, f"group must be 2..64, not {self.group!r}")
        require(self.partial in (FP16, FP32), f"partial must be fp16 or fp32, not {self.partial}")

    @property
    def activation(self) -> BlockFormat:
        """The first operand in every mode."""
        return BlockFormat(group=self.group, mantissa_bits=ACTIVATION_BITS)

    @property
    def weight_format(self) -> IntFormat:
        return IntFormat(bits=Mode.M8W4.operand_bits)

    @property
    def group_sum_bits(self) -> int:
        """Signed: a group of 8-bit by 8-bit magnitudes."""
        return 2 * ACTIVATION_BITS + (self.group - 1).bit_length() + 1


@dataclass(frozen=True, kw_only=True)
class CacheParams:
    """Which cached token has which mantissa length, and which K channels get an offset.

    A K token is grouped along its channels, V along 32 tokens of one channel. Tokens of the
    ``initial`` and the ``local`` window have ``high_bits``, all others ``low_bits``. A V group
    keeps ``high_bits`` until all its tokens have left the local window: one group has one length.

    ``offset_channels`` is the number k of K channels that are shifted; the paper gives none. Eight
    is the number of rows of its array, so the offsets of a head fit one column of results.
    """

    group: int = 32
    initial: int = 32
    local: int = 64
    high_bits: int = 8
    low_bits: int = 4
    offset_channels: int = 8

    def __post_init__(self) -> None:
        require(self.group >= 1, f"group must be at least 1, not {self.group!r}")
        for name in ("initial", "local"):
            value = getattr(self, name)
            require(
                value >= 0 and value % self.group == 0,
                f"{name} must be a multiple of the group {self.group}, not {value!r}",
            )
        require(
            1 <= self.low_bits <= self.high_bits <= ACTIVATION_BITS,
            f"low_bits and high_bits must be 1 <= low <= high <= {ACTIVATION_BITS}, "
            f"not {self.low_bits!r} and {self.high_bits!r}",
        )
        require(
            self.offset_channels >= 0,
            f"offset_channels must be at least 0, not {self.offset_channels!r}",
        )

    @property
    def activation(self) -> BlockFormat:
        """Everything outside the cache: Q, P and the inputs of linear layers."""
        return BlockFormat(group=self.group, mantissa_bits=ACTIVATION_BITS)

    @property
    def high(self) -> BlockFormat:
        return BlockFormat(group=self.group, mantissa_bits=self.high_bits)

    @property
    def low(self) -> BlockFormat:
        return BlockFormat(group=self.group, mantissa_bits=self.low_bits)
