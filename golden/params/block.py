"""The base of every block's parameter object: ports, timing, presets and a name.

One frozen object per block serves the golden model, the RTL, synthesis, the performance model and
the command line. Its ports are the only declaration of the block's payloads: the RTL builds its
layouts from them, and benches pack and unpack numpy arrays by them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, get_type_hints

if TYPE_CHECKING:
    from tilewright.golden.params.registers import RegisterMap

T = TypeVar("T")


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


def pack_fields(declared: Iterable[Field], values: Mapping[str, int]) -> int:
    """Values of scalar fields as a word, the first field lowest."""
    word = shift = 0
    for f in declared:
        word |= values[f.name] << shift
        shift += f.bits
    return word


def unpack_fields(declared: Iterable[Field], word: int) -> dict[str, int]:
    """Undo :func:`pack_fields`; bits above the last field are ignored."""
    values = {}
    for f in declared:
        values[f.name] = word & ((1 << f.bits) - 1)
        word >>= f.bits
    return values


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
    """A port that is not a stream."""

    name: str
    bits: int
    output: bool = False


def handshake(channel: str, output: bool, **bits: int) -> tuple[Wire, ...]:
    """Wires of an AXI channel: those that its sender drives, and ``ready``."""
    driven = (Wire(f"{channel}{name}", size, output) for name, size in bits.items())
    return (*driven, Wire(f"{channel}ready", 1, not output))


def axi_lite(prefix: str, address_bits: int, data_bits: int) -> tuple[Wire, ...]:
    """Wires of an AXI4-Lite slave."""
    address = {"addr": address_bits, "prot": 3, "valid": 1}
    return (
        *handshake(f"{prefix}aw", False, **address),
        *handshake(f"{prefix}w", False, data=data_bits, strb=data_bits // 8, valid=1),
        *handshake(f"{prefix}b", True, resp=2, valid=1),
        *handshake(f"{prefix}ar", False, **address),
        *handshake(f"{prefix}r", True, data=data_bits, resp=2, valid=1),
    )


# Bits of INTERRUPT (a 1 that is written clears its bit) and of INTERRUPT_ENABLE.
INTERRUPT_FIELDS = (
    Field("done", 1),  # a program or a tile has ended, with or without an error
    Field("error", 1),  # it has ended with an error
)


class Member(NamedTuple):
    """A field of a declared stream; sizes are numbers, formats, or names of attributes."""

    bits: Any
    count: Any = None
    signed: Any = False


def signed(bits: Any, count: Any = None) -> Member:
    """A declared field of two's complement numbers."""
    return Member(bits, count, True)


class Streams:
    """Ports as a class declares them; on an object they are a tuple of :class:`Port`."""

    def __init__(self, *parts: "_Part") -> None:
        self.parts = parts

    def __add__(self, other: "Streams") -> "Streams":
        return Streams(*self.parts, *other.parts)

    def times(self, copies: Any) -> "Streams":
        """Repeat all of them ``copies`` times; ``{}`` in a name is the number of the copy."""
        return Streams((copies, tuple(s for _, streams in self.parts for s in streams)))

    def __get__(self, params: object | None, owner: type) -> Any:
        if params is None:
            return self
        return tuple(
            Port(name.format(k), tuple(_field(params, n, m) for n, m in members.items()))
            for copies, streams in self.parts
            for k in range(_resolved(params, copies))
            for name, members in streams
        )


_Part = tuple[Any, tuple[tuple[str, dict[str, Any]], ...]]  # copies of some streams


def stream(name: str, /, **members: Any) -> Streams:
    """Declare a stream and its payload, lowest field first.

    A field is declared by its bits, by (bits, count), or as ``signed``. A size is a number, a
    format, or the name of an attribute of the block; an attribute can also be the whole field.
    """
    return Streams((1, ((name, members),)))


def _resolved(params: object, size: Any) -> Any:
    value = attrgetter(size)(params) if isinstance(size, str) else size
    return value if isinstance(value, Field) else getattr(value, "bits", value)


def _field(params: object, name: str, declared: Any) -> Field:
    if not isinstance(declared, tuple):
        declared = (declared,)
    bits, *rest = (_resolved(params, size) for size in declared)
    return bits if isinstance(bits, Field) else Field(name, bits, *rest)


@dataclass(frozen=True)
class Timing:
    """Timing without stalls, which benches measure.

    ``latency``: cycles from accepting the (last needed) input to its result on the output; 0 is
    combinational. ``interval``: average cycles between results when neither side ever waits, or
    between beats of the input where the user chooses how many of them make a result.
    """

    latency: int
    interval: Fraction = Fraction(1)


class Untimed:
    """The timing of a block whose cycles depend on its data: a NotImplementedError says how."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __get__(self, params: object | None, owner: type) -> Any:
        if params is None:
            return self
        raise NotImplementedError(self.reason)


class Limit(NamedTuple):
    """The values that a field of :class:`Limited` may have: ``Annotated[int, Limit]``."""

    text: str  # after "must be"
    holds: Callable[[Any], bool]


def within(least: int, most: int) -> Limit:
    return Limit(f"{least}..{most}", lambda value: least <= value <= most)


def at_least(least: int) -> Limit:
    return Limit(f"at least {least}", lambda value: value >= least)


def one_of(*choices: Any) -> Limit:
    text = " or ".join([", ".join(map(str, choices[:-1])), str(choices[-1])])
    return Limit(text, lambda value: value in choices)


class Limited:
    """Base of dataclasses that check the limits in their fields' annotations."""

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, limit in _limits(cls):
            value = getattr(self, name)
            said = value if hasattr(value, "bits") else repr(value)  # formats by their names
            require(limit.holds(value), f"{name} must be {limit.text}, not {said}")

    def shared(self, cls: Callable[..., T], **changes: Any) -> T:
        """A ``cls`` whose fields are this object's of the same name, except ``changes``."""
        known: Any = cls
        own = {f.name: getattr(self, f.name) for f in fields(known) if hasattr(self, f.name)}
        return cls(**{**own, **changes})


@cache
def _limits(cls: type) -> tuple[tuple[str, Limit], ...]:
    """Limits by field; a field that a subclass declares again inherits those of its base."""
    limits = {
        name: limit
        for base in reversed(cls.__mro__)
        for name, hint in get_type_hints(base, include_extras=True).items()
        for limit in getattr(hint, "__metadata__", ())
        if isinstance(limit, Limit)
    }
    return tuple((f.name, limits[f.name]) for f in fields(cls) if f.name in limits)


@dataclass(frozen=True, kw_only=True)
class BlockParams(Limited):
    """Base of every block's parameters; subclasses are frozen, keyword-only dataclasses."""

    block: ClassVar[str]  # the name the command line uses
    summary: ClassVar[str]  # one line for `tilewright list`
    PRESETS: ClassVar[dict[str, dict[str, Any]]]  # the first one is the default
    # Ports of the emitted Verilog, if the block has registers; a name in ``n`` is active low.
    clock: ClassVar[str] = "clk"
    reset: ClassVar[str] = "rst"

    @property
    def inputs(self) -> tuple[Port, ...]:
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Port, ...]:
        raise NotImplementedError

    @property
    def wires(self) -> tuple[Wire, ...]:
        """Ports that are not streams."""
        return ()

    @property
    def registers(self) -> "RegisterMap":
        return ()

    @property
    def timing(self) -> Timing:
        """The timing, if it is fixed; else a NotImplementedError names the model that has it."""
        raise NotImplementedError

    @classmethod
    def preset(cls, name: str | None = None, **changes: Any) -> Self:
        """The preset ``name`` (default: the first) with some fields changed."""
        name = name or next(iter(cls.PRESETS))
        if name not in cls.PRESETS:
            known = ", ".join(cls.PRESETS)
            raise ValueError(f"block {cls.block} has no preset {name!r}; presets: {known}")
        return cls(**{**cls.PRESETS[name], **changes})

    @property
    def slug(self) -> str:
        """The name of files, modules and records: the block and every non-default field."""
        changed = [
            f"{f.name}_{_token(getattr(self, f.name))}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return "__".join([self.block, *changed])

    def as_dict(self) -> dict[str, Any]:
        """Every field; a field that is a block is its name, its own fields follow as FIELD.NAME."""
        values: dict[str, Any] = {}
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            values[name] = _plain(value)
            if isinstance(value, BlockParams):
                values |= {f"{name}.{inner}": x for inner, x in value.as_dict().items()}
        return values


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (int, str, bool, type(None))):
        return value
    return value.block if isinstance(value, BlockParams) else str(value)


def _token(value: Any) -> str:
    value = value.slug if isinstance(value, BlockParams) else value
    return "".join(c if c.isalnum() else "_" for c in str(_plain(value)).lower())
