"""From ``--vary name=a,b,c`` to the variants of a block."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tilewright.base.errors import CommandError
from tilewright.golden.params.resolve import UnknownNameError, resolve

__all__ = ["Axis", "Variants", "expand", "parse_axis"]


@dataclass(frozen=True)
class Axis:
    """A field and the values it takes."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Variants:
    """What a block can be asked for, and what its parameters refuse."""

    specs: tuple[str, ...]
    left_out: dict[str, str]  # spec -> why


MOST_VALUES = 100_000  # of a range: more than any sweep ends with
LONGEST = 18  # digits of a number


def parse_axis(text: str) -> Axis:
    """``name=a,b,c``; ``a..b`` among the values stands for all whole numbers of that range."""
    name, equals, values = text.partition("=")
    parts = values.split(",")
    if not name.isidentifier() or not equals or not all(parts):
        raise CommandError(f"--vary takes NAME=VALUE,VALUE,..., not {text!r}")
    found = [value for part in parts for value in _range(part)]
    if len(set(found)) < len(found):
        raise CommandError(f"--vary {name}: a value is given twice in {values!r}")
    return Axis(name, tuple(found))


def _range(text: str) -> list[str]:
    low, dots, high = text.partition("..")
    if not dots:
        return [text]
    if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise CommandError(f"a range is LOW..HIGH of whole numbers, not {text!r}")
    if len(high) > LONGEST or int(high) - int(low) >= MOST_VALUES:
        raise CommandError(f"a range has at most {MOST_VALUES} values, unlike {text[:40]!r}")
    return [str(k) for k in range(int(low), int(high) + 1)]


def expand(block: str, axes: Sequence[Axis]) -> Variants:
    """Every combination that the block's parameters accept.

    A name that does not exist is refused, and so is a value that no combination accepts; a
    combination that is refused although its values occur in others is left out.
    """
    resolve(block)
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise CommandError(f"--vary names {max(names, key=names.count)} more than once")
    specs, left_out, used = [], {}, set()
    for values in product(*(axis.values for axis in axes)):
        settings = list(zip(names, values, strict=True))
        spec = ",".join([block, *(f"{name}={value}" for name, value in settings)])
        try:
            resolve(spec)
        except UnknownNameError:
            raise
        except ValueError as error:
            left_out[spec] = str(error)
        else:
            specs.append(spec)
            used.update(settings)
    for axis in axes:
        for value in axis.values:
            if (axis.name, value) not in used:
                reason = next(
                    why for spec, why in left_out.items() if f",{axis.name}={value}" in f"{spec},"
                )
                raise CommandError(f"--vary {axis.name}={value}: {reason}")
    return Variants(tuple(specs), left_out)
