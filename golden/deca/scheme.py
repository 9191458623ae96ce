"""Compression schemes: values of codes, scales of groups, and a scheme's notation.

A scheme is a :class:`~tilewright.golden.params.deca.TileConfig` and a code book. Float formats,
integers and learnt books are all look-up tables to the hardware, and so they are here.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode, decode_int, encode
from tilewright.golden.formats import is_own
from tilewright.golden.lowbit import NF4_VALUES
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import LUT_ENTRIES, ScaleKind, TileConfig
from tilewright.golden.params.describe import parse
from tilewright.golden.params.formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    FloatFormat,
    IntFormat,
)
from tilewright.golden.params.names import unknown


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A tile configuration and the values of its codes.

    ``book`` has 2^code_bits entries, one 16-bit pattern per code: a bf16 value, or, for int8
    tiles, a byte in two's complement. It is empty for 16-bit elements, which are their own codes.
    """

    name: str
    config: TileConfig
    book: tuple[int, ...] = field(repr=False)

    def __post_init__(self) -> None:
        entries = 0 if self.config.code_bits == 16 else 1 << self.config.code_bits
        require(
            len(self.book) == entries,
            f"{self.name}: a book of {self.config.code_bits}-bit codes has {entries} entries,"
            f" not {len(self.book)}",
        )
        top = 0xFF if self.config.int8 else 0xFFFF
        for entry in self.book:
            require(0 <= entry <= top, f"{self.name}: book entry {entry:#x} leaves [0, {top:#x}]")
        if self.book:
            finite = self.values[np.isfinite(self.values)]
            require(bool(np.any(finite)), f"{self.name}: no code of the book is a nonzero number")

    @property
    def values(self) -> NDArray[np.float64]:
        """The exact value of each code before scaling."""
        patterns = np.array(self.book, np.uint16)
        if self.config.int8:
            return decode_int(IntFormat(bits=8), patterns).astype(np.float64)
        values = decode(BF16, patterns)
        if self.config.scale is not ScaleKind.NONE:
            # The scaler counts a subnormal factor as zero.
            values[np.abs(values) < 2.0**BF16.min_exponent] = 0.0
        return values

    @property
    def reach(self) -> float:
        """The magnitude that a scale maps a group's largest weight to.

        The largest that both signs have, so that neither saturates; 1 for 16-bit elements.
        """
        if not self.book:
            return 1.0
        values = self.values[np.isfinite(self.values)]
        sides = [side for side in (float(values.max()), float(-values.min())) if side > 0]
        return min(sides)

    def lut_image(self) -> NDArray[np.uint16]:
        """Contents of a 256-entry table: the book repeated, so that every sub-table has a copy."""
        if not self.book:
            return np.zeros(LUT_ENTRIES, np.uint16)
        return np.tile(np.array(self.book, np.uint16), LUT_ENTRIES // len(self.book))

    @property
    def sparsified(self) -> Self:
        """The same scheme with bitmasks."""
        return replace(self, config=replace(self.config, sparse=True))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data from which :meth:`from_dict` makes the same scheme."""
        config = asdict(self.config) | {"scale": self.config.scale.value}
        return {"name": self.name, **config, "book": list(self.book)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        config = {field.name: data[field.name] for field in fields(TileConfig)}
        config["scale"] = ScaleKind(config["scale"])
        return cls(name=data["name"], config=TileConfig(**config), book=tuple(data["book"]))


def float_book(fmt: FloatFormat) -> tuple[int, ...]:
    """Every pattern of a format of at most 8 bits, as bf16 patterns; exact."""
    return tuple(encode(BF16, decode(fmt, np.arange(1 << fmt.bits))).tolist())


def value_book(values: Sequence[float]) -> tuple[int, ...]:
    """bf16 patterns of any 2 to 256 values; the last one is repeated up to a power of two."""
    require(2 <= len(values) <= LUT_ENTRIES, f"a book has 2..256 values, not {len(values)}")
    entries = 1 << (len(values) - 1).bit_length()
    padded = [*values, *[values[-1]] * (entries - len(values))]
    return tuple(encode(BF16, np.array(padded, np.float64)).tolist())


def int_book(bits: int) -> tuple[int, ...]:
    """Two's complement integers of 1..8 bits, as bf16 patterns; exact."""
    return value_book(decode_int(IntFormat(bits=bits), np.arange(1 << bits)).tolist())


def _scheme(name: str, book: tuple[int, ...], scale: ScaleKind, *, int8: bool = False) -> Scheme:
    bits = len(book).bit_length() - 1 if book else 16
    return Scheme(name=name, config=TileConfig(code_bits=bits, scale=scale, int8=int8), book=book)


def _known_schemes() -> dict[str, Scheme]:
    none, e8m0, bf16 = ScaleKind.NONE, ScaleKind.E8M0, ScaleKind.BF16
    schemes = [
        _scheme("bf16", (), none),
        _scheme("bf8", float_book(E5M2), none),  # the DECA paper's name of e5m2
        _scheme("e5m2", float_book(E5M2), none),
        _scheme("e4m3", float_book(E4M3), none),
        _scheme("mxfp8_e5m2", float_book(E5M2), e8m0),
        _scheme("mxfp8_e4m3", float_book(E4M3), e8m0),
        _scheme("mxfp6_e3m2", float_book(E3M2), e8m0),
        _scheme("mxfp6_e2m3", float_book(E2M3), e8m0),
        _scheme("mxfp4", float_book(E2M1), e8m0),
        _scheme("nf4", value_book(NF4_VALUES), bf16),
        *(_scheme(f"int{q}", int_book(q), bf16) for q in range(1, 9)),
        *(
            # Codes of fewer than 8 bits are sign-extended to the int8 tile by the table.
            _scheme(
                f"int{q}_tile",
                tuple(int(v) & 0xFF for v in decode_int(IntFormat(bits=q), np.arange(1 << q))),
                none,
                int8=True,
            )
            for q in range(1, 9)
        ),
    ]
    return {scheme.name: scheme for scheme in schemes}


SCHEMES = _known_schemes()
_OPTIONS: dict[str, type] = {"group": int, "scale": ScaleKind, "sparse": bool}


def resolve_scheme(text: str) -> Scheme:
    """``NAME[,OPTION=VALUE]...`` as a scheme; its name is ``text``.

    Options: ``group=N``, ``scale=none|e8m0|bf16``, ``sparse=true|false``; and for the name
    ``book`` the values of the codes, ``values=V/V/...``, at least two and rounded to bf16. Or
    ``FILE.py:CLASS``, a format of the user's own (``tilewright.golden.deca.own``).
    """
    if is_own(text):
        # Imported here: own schemes are schemes of this module.
        from tilewright.golden.deca.own import own_scheme

        return own_scheme(text)
    head, *settings = text.split(",")
    options = dict(_option(text, setting) for setting in settings)
    scheme = _named(text, head, options.pop("values", None))
    changes = {key: parse(key, _OPTIONS[key], value) for key, value in options.items()}
    return replace(scheme, name=text, config=replace(scheme.config, **changes))


def _named(text: str, head: str, values: str | None) -> Scheme:
    if head == "book":
        if values is None:
            raise ValueError(f"{text!r}: a book needs values=V/V/...")
        numbers = [_number(text, word) for word in values.split("/")]
        return _scheme(head, value_book(numbers), ScaleKind.BF16)
    require(values is None, f"{text!r}: only the scheme book takes values=")
    if head not in SCHEMES:
        raise ValueError(unknown("scheme", head, [*SCHEMES, "book"]))
    return SCHEMES[head]


def _option(text: str, setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    require(bool(equals), f"{text!r}: expected OPTION=VALUE, not {setting!r}")
    known = [*_OPTIONS, "values"]
    require(key in known, f"{text!r}: unknown option {key!r}; options: {', '.join(known)}")
    return key, value


def _number(text: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{text!r}: {word!r} is not a number") from None
