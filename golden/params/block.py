"""What every block's parameter object shares: ports, timing, presets and a name.

One frozen object per block serves the golden model, the RTL, synthesis, the performance model and
the command line. Its ``ports`` are the only declaration of the block's stream payloads: the RTL
builds its layouts from them and the benches pack and unpack numpy arrays by them.
"""

from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Self


def require(condition: bool, message: str) -> None:
    """Refuse a parameter; the message names the offending value."""
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class Field:
    """``count`` elements of ``bits`` bits in a payload, element 0 lowest.

    A field with ``count`` None is a scalar; one with a number is a vector even when it is 1.
    """

    name: str
    bits: int
    count: int | None = None
    signed: bool = False

    def __post_init__(self) -> None:
        require(self.bits >= 1, f"field {self.name}: bits must be at least 1, not {self.bits!r}")
        require(
            self.count is None or self.count >= 1,
            f"field {self.name}: count must be at least 1, not {self.count!r}",
        )

    @property
    def total_bits(self) -> int:
        return self.bits * (self.count or 1)


@dataclass(frozen=True)
class Port:
    """A valid/ready stream whose payload is ``fields``, the first one lowest."""

    name: str
    fields: tuple[Field, ...]

    @property
    def bits(self) -> int:
        return sum(f.total_bits for f in self.fields)


@dataclass(frozen=True)
class Wire:
    """A port that is no stream."""

    name: str
    bits: int
    output: bool = False


@dataclass(frozen=True)
class Timing:
    """What a bench measures without stalls.

    ``latency``: cycles from accepting the (last needed) input to its result on the output; 0 is
    combinational. ``interval``: average cycles between results when neither side ever waits, or
    between beats of the input where the user chooses how many of them make a result.
    """

    latency: int
    interval: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class BlockParams:
    """Base of every block's parameters; subclasses are frozen, keyword-only dataclasses."""

    block: ClassVar[str]  # the name the command line uses
    summary: ClassVar[str]  # one line for `tilewright list`
    PRESETS: ClassVar[dict[str, dict[str, Any]]]  # the first one is the default

    @property
    def inputs(self) -> tuple[Port, ...]:
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Port, ...]:
        raise NotImplementedError

    @property
    def wires(self) -> tuple[Wire, ...]:
        """Ports beside the streams."""
        return ()

    @property
    def timing(self) -> Timing:
        """The timing where it is fixed; otherwise a NotImplementedError says which model has it."""
        raise NotImplementedError

    @classmethod
    def preset(cls, name: str | None = None, **changes: Any) -> Self:
        """The preset ``name``, by default the first, with some fields changed."""
        name = name or next(iter(cls.PRESETS))
        if name not in cls.PRESETS:
            known = ", ".join(cls.PRESETS)
            raise ValueError(f"block {cls.block} has no preset {name!r}; presets: {known}")
        return cls(**{**cls.PRESETS[name], **changes})

    @property
    def slug(self) -> str:
        """Names files, modules and records: the block and every field that is not its default."""
        changed = [
            f"{f.name}_{_token(getattr(self, f.name))}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return "__".join([self.block, *changed])

    def as_dict(self) -> dict[str, Any]:
        """Every field as plain JSON data."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (int, str, bool, type(None))):
        return value
    return str(value)


def _token(value: Any) -> str:
    """A value as a piece of an identifier."""
    return "".join(c if c.isalnum() else "_" for c in str(_plain(value)).lower())
