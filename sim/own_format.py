"""A weight format of the user's own: a class of a Python file, named as ``FILE.py:CLASS``.

Of what the class has (``tilewright.studies.pe.formats``), performance follows from ``bits``,
``scale_bits`` and ``group`` and, where a server's cores decompress, from ``vector_operations``: how
many of them, of 512 bits, turn 512 codes into bf16.
"""

import importlib.util
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require

MOST_BITS = 64
OPERATIONS = "vector_operations"


@dataclass(frozen=True, kw_only=True)
class OwnFormat:
    """What memory and cores have to do with a weight."""

    name: str
    bits: int  # of a code
    scale_bits: int
    group: int  # codes that share a scale
    vector_operations: float | None  # for 512 codes, where the class says so

    def __post_init__(self) -> None:
        for field, low, high in (
            *(("bits", 1, MOST_BITS), ("scale_bits", 0, MOST_BITS), ("group", 1, 1 << 20)),
        ):
            value = getattr(self, field)
            require(
                isinstance(value, int) and low <= value <= high,
                f"{field} of {self.name} must be {low}..{high}, not {value!r}",
            )
        count = self.vector_operations
        require(
            count is None or (isinstance(count, int | float) and isfinite(count) and count > 0),
            f"{OPERATIONS} of {self.name} must be a number above 0, not {count!r}",
        )

    @property
    def bits_per_value(self) -> float:
        """Of a code with its share of the scale."""
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


def is_own(name: str) -> bool:
    """Whether this names a class of a file."""
    return ".py:" in name


def own_class(name: str, folder: Path = Path()) -> Any:
    """Return an instance of the class that ``FILE.py:CLASS`` names, the file below ``folder``."""
    file, _, wanted = name.rpartition(":")
    path = folder / file
    require(
        path.suffix == ".py" and path.is_file(),
        f"a format of your own is FILE.py:CLASS; there is no file {file!r}",
    )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        kind: Any = getattr(module, wanted, None)
        require(kind is not None, f"{file} has no class {wanted}")
        return kind()
    except ValueError:
        raise
    except Exception as error:
        # Somebody else's file: whatever it raises is about that file.
        raise ValueError(f"{name} cannot be used: {type(error).__name__}: {error}") from None


def read_format(name: str, folder: Path = Path()) -> OwnFormat:
    """Return what ``FILE.py:CLASS`` says of its size and its decompression."""
    made = own_class(name, folder)
    needed = ("name", "bits", "scale_bits", "group")
    missing = [attribute for attribute in needed if not hasattr(made, attribute)]
    require(not missing, f"{name} has no {', '.join(missing)}; a format has {', '.join(needed)}")
    return OwnFormat(
        name=str(made.name),
        bits=made.bits,
        scale_bits=made.scale_bits,
        group=made.group,
        vector_operations=getattr(made, OPERATIONS, None),
    )
