"""Number formats by name: those of the project, and classes of one's own.

A format is a class with ``bits``, ``encode`` and ``decode`` (:class:`Format`), named as
``FILE.py:CLASS`` or ``MODULE:CLASS`` wherever a format is asked for:

    class Ternary:
        bits = 2

        def encode(self, values):
            return (np.sign(values) + 1).astype(int)

        def decode(self, codes):
            return codes - 1.0

Values are float64 arrays whose last axis is a whole number of groups; codes are whole numbers below
``2 ** bits``. With scales, ``encode`` returns codes and scales, whole numbers below
``2 ** scale_bits``, one for each ``group`` of values, and ``decode`` takes both.
"""

import importlib
import importlib.util
import re
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode as decode_float
from tilewright.golden.bits import encode as encode_float
from tilewright.golden.lowbit import integer, mx_float
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BF16, E2M1, E4M3, E5M2, FP16, FloatFormat
from tilewright.golden.params.names import unknown

NEEDED = ("bits", "encode", "decode")
OPERATIONS = "vector_operations"
MOST_BITS = 64
OWN = re.compile(r"(?P<place>.+\.py|[A-Za-z_][\w.]*(?=:[A-Z_])):(?P<kind>[A-Za-z_]\w*)")


class Format(Protocol):
    """A class of one's own.

    It may have ``name``, ``scale_bits`` and ``group``, and ``vector_operations``: how many, of 512
    bits, a core takes to turn 512 codes into bf16, for the performance model of servers.
    """

    @property
    def bits(self) -> int:
        """Bits of a code."""

    def encode(self, values: NDArray) -> Any:
        """Return codes, of the shape of ``values``; or codes and scales, one for each group."""

    def decode(self, *codes_and_scales: NDArray) -> NDArray:
        """Return their values."""


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """A format by its name; codes and scales are checked against their bits."""

    name: str
    bits: int  # of a code
    scale_bits: int = 0  # of a scale; 0: there is none
    group: int = 1  # values that share a scale
    vector_operations: float | None = None  # for 512 codes, where the class says so
    own: Any = field(repr=False)  # the Format
    source: Path | None = None  # the file of its class

    def __post_init__(self) -> None:
        for name, low, high in (
            *(("bits", 1, MOST_BITS), ("scale_bits", 0, MOST_BITS), ("group", 1, 1 << 20)),
        ):
            value = getattr(self, name)
            require(
                isinstance(value, int) and low <= value <= high,
                f"{name} of {self.name} must be {low}..{high}, not {value!r}",
            )
        count = self.vector_operations
        require(
            count is None or (isinstance(count, int | float) and isfinite(count) and count > 0),
            f"{OPERATIONS} of {self.name} must be a number above 0, not {count!r}",
        )

    @property
    def bits_per_value(self) -> float:
        """Bits of a code and its share of the scale."""
        return self.bits + self.scale_bits / self.group

    @property
    def operations(self) -> float:
        """Vector operations of a core for 512 codes; refused where the class does not say."""
        require(
            self.vector_operations is not None,
            f"{self.name} does not say what a core takes to decompress it; give its class"
            f" {OPERATIONS}, of 512 bits, for 512 codes",
        )
        assert self.vector_operations is not None
        return float(self.vector_operations)

    def encode(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return codes and scales, which are empty where the format has none."""
        found = self.own.encode(values)
        codes, scales, *_ = found if isinstance(found, tuple) else (found, np.zeros(0, np.int64))
        self._check("codes", codes, self.bits, values.shape)
        if self.scale_bits:
            groups = (*values.shape[:-1], values.shape[-1] // self.group)
            self._check("scales", scales, self.scale_bits, groups)
        return codes, scales

    def decode(self, codes: NDArray, scales: NDArray) -> NDArray:
        found = self.own.decode(codes, scales) if self.scale_bits else self.own.decode(codes)
        return np.asarray(found, np.float64)

    def through(self, values: NDArray) -> NDArray:
        """Values of any shape as the format holds them, in groups along the last axis."""
        length = values.shape[-1]
        short = [(0, 0)] * (values.ndim - 1) + [(0, -length % self.group)]
        found = self.decode(*self.encode(np.pad(values.astype(np.float64), short)))
        require(
            found.shape[:-1] == values.shape[:-1] and found.shape[-1] >= length,
            f"{self.name} decodes values of shape {values.shape} to {found.shape}",
        )
        return found[..., :length]

    @property
    def digest(self) -> str:
        return sha256(self.source.read_bytes() if self.source else b"").hexdigest()

    def _check(self, what: str, found: Any, bits: int, shape: tuple[int, ...]) -> None:
        is_whole = isinstance(found, np.ndarray) and found.dtype.kind in "iu"
        require(
            is_whole and found.shape == shape and (found >= 0).all() and not (found >> bits).any(),
            f"{self.name} must give {what} that are whole numbers of {bits} bits, of shape {shape}",
        )


@dataclass(frozen=True)
class PlainFloat:
    fmt: FloatFormat

    @property
    def name(self) -> str:
        return self.fmt.name

    @property
    def bits(self) -> int:
        return self.fmt.bits

    def encode(self, values: NDArray) -> NDArray:
        return encode_float(self.fmt, values).astype(np.int64)

    def decode(self, codes: NDArray) -> NDArray:
        return decode_float(self.fmt, codes)


def is_own(name: str) -> bool:
    """Whether this names a class: presets of blocks are in small letters after their colon."""
    return OWN.fullmatch(name) is not None


def name_of(kind: type) -> str:
    """The name under which :func:`resolve_format` finds a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def resolve_format(name: str, folder: Path = Path()) -> NumberFormat:
    """Return a format of the project, or the one of a class; a file is looked for in ``folder``."""
    found = OWN.fullmatch(name)
    if found is None:
        require(name in FORMATS, unknown("format", name, FORMATS, "or FILE.py:CLASS of your own"))
        return FORMATS[name]
    place, kind = found["place"], found["kind"]
    try:
        module = module_of(place, folder)
        require(hasattr(module, kind), f"{place} has no class {kind}")
        file = getattr(module, "__file__", None)
        return _made(getattr(module, kind)(), kind, name, Path(file) if file else None)
    except ValueError:
        raise
    except Exception as error:
        # The user's file may raise anything.
        raise ValueError(f"{name} cannot be used: {type(error).__name__}: {error}") from None


def module_of(place: str, folder: Path = Path(), what: str = "a format of your own is") -> Any:
    """Return the module of a file, looked for in ``folder``, or of a name."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = folder / place
    require(path.is_file(), f"{what} FILE.py:CLASS; there is no file {place!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _made(own: Any, kind: str, named: str, source: Path | None = None) -> NumberFormat:
    missing = [attribute for attribute in NEEDED if not hasattr(own, attribute)]
    require(not missing, f"{named} has no {', '.join(missing)}; a format has {', '.join(NEEDED)}")
    given = {n: getattr(own, n) for n in ("scale_bits", "group", OPERATIONS) if hasattr(own, n)}
    name = str(getattr(own, "name", kind))
    return NumberFormat(name=name, bits=own.bits, **given, own=own, source=source)


_OURS: tuple[Any, ...] = (
    *(PlainFloat(FP16), PlainFloat(BF16)),
    *(integer(f"int{k}", k, FP16, 128, "this project") for k in (8, 6, 4)),
    *(mx_float(E4M3, "mxfp8_e4m3"), mx_float(E5M2, "mxfp8_e5m2"), mx_float(E2M1, "mxfp4")),
)
FORMATS = {form.name: _made(form, "", form.name) for form in _OURS}
