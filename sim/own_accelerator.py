"""An accelerator of the user's own, as a TOML file: array, cycles, formats, memory, energy, area.

The file begins with ``kind = "accelerator"`` and has one line for each field of ``FIELDS``, in the
forms of files of servers. Area and energy are given, or come from a record of a PE (``pe_record``,
and ``pe_mode`` where it has several): one of this project by its name, or a file in the same folder
that ``tilewright compare pe --with ... --json`` printed, of which ``pe_mode`` names the PE. Bits of
activations and weights are given, or those of a format (``activation_format``, ``weight_format``).
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.golden.formats import resolve_format
from tilewright.golden.params.block import require
from tilewright.sim.accelerator import ANDA_BUFFER_PJ, MEGABYTE, WEIGHT_BITS, Accelerator, fixed
from tilewright.sim.records import NoRecordError, area_um2, energy_fj
from tilewright.sim.system import Quantity, named_in_errors, read_fields

KIND = "accelerator"
FORMATS = {"activation_format": "activation_bits", "weight_format": "weight_bits"}
WORDS = ("kind", "about", "pe_record", "pe_mode", *FORMATS)
FIELDS = {
    "rows": Quantity("of PEs: outputs of as many activations", "count", 1, 1 << 16, True),
    "columns": Quantity("of PEs: outputs of as many weights", "count", 1, 1 << 16, True),
    "group": Quantity("multiply-adds of a PE in group_cycles", "count", 1, 1 << 16, True),
    "group_cycles": Quantity("of a group in a PE", "cycles", 0.001, 1e6),
    "drain": Quantity("in which a tile's outputs leave", "cycles", 0, 1e6, True, default=0),
    "start": Quantity("of a row of tiles beside its tiles", "cycles", 0, 1e6, default=0),
    "activation_bits": Quantity(
        "of an activation, its share of scales in it", "count", 0.1, 64, default=16
    ),
    "weight_bits": Quantity(
        "of a weight, its share of scales in it", "count", 0.1, 64, default=WEIGHT_BITS
    ),
    "cache_bits": Quantity("of a cached value", "count", 0.1, 64, default=16),
    "attention_macs": Quantity(
        "a cycle in attention; 0: as projections", "count", 0, 1e9, default=0
    ),
    "activation_buffer": Quantity("on chip", "B", 1 << 10, 1 << 34, default=MEGABYTE),
    "weight_buffer": Quantity("on chip", "B", 1 << 10, 1 << 34, default=MEGABYTE),
    "clock": Quantity("of the array", "Hz", 1e6, 1e10),
    "bandwidth": Quantity("of its memory", "B/s", 1e6, 1e14, default=256e9),
    "capacity": Quantity("of its memory", "B", 1e6, 1e15, default=16e9),
    "mac_energy": Quantity("of a multiply-add in a PE; 0: not known", "fJ", 0, 1e6, default=0),
    "buffer_energy": Quantity("of a bit from a buffer", "pJ/bit", 0, 1000, default=ANDA_BUFFER_PJ),
    "memory_energy": Quantity("of a bit from memory", "pJ/bit", 0, 1000, default=3.9),
    "area": Quantity("of all of it; 0: not known", "mm2", 0, 1e5, default=0),
}
# Fields that a setting changes, of any accelerator.
SETTINGS = {name: FIELDS[name] for name in ("clock", "bandwidth", "capacity", "memory_energy")}


def is_accelerator(path: Path) -> bool:
    """Whether a TOML file says that it is one; invalid TOML is left to its reader."""
    try:
        return tomllib.loads(path.read_text()).get("kind") == KIND
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return False


def read_accelerator(path: Path) -> Accelerator:
    """Read the accelerator that a TOML file describes; its name is that of the file."""
    with named_in_errors(path):
        given = read_fields(path, FIELDS, WORDS)
        missing = [n for n, field in FIELDS.items() if n not in given and field.default is None]
        require(not missing, f"{', '.join(missing)} missing")
        given |= _bits(path, given)
        try:
            given |= _recorded(path, given)
        except NoRecordError as error:
            raise ValueError(str(error)) from None
    return _made(
        path.stem, {name: given.get(name, field.default) for name, field in FIELDS.items()}
    )


def _bits(path: Path, given: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for word, field in FORMATS.items():
        name = given.get(word)
        if name is not None:
            require(field not in given, f"{field} is that of {word}; give one of them")
            found[field] = resolve_format(str(name), path.parent).bits_per_value
    return found


def pe_of(path: Path) -> dict[str, Any] | None:
    """Return the row of a comparison that an accelerator's ``pe_record`` names, if it is a file."""
    data = tomllib.loads(path.read_text())
    unit = data.get("pe_record")
    if not isinstance(unit, str) or not unit.endswith(".json"):
        return None
    return _row(path.parent / unit, str(data.get("pe_mode")))


def _recorded(path: Path, given: Mapping[str, Any]) -> dict[str, float]:
    unit, mode = given.get("pe_record"), given.get("pe_mode")
    if unit is None:
        require(mode is None, "pe_mode goes with pe_record")
        return {}
    for name in ("area", "mac_energy"):
        require(name not in given, f"{name} is that of pe_record; give one of them")
    for word in (unit, str(mode)):
        require(word.isprintable(), f"{word[:40]!r} is no name of a PE or of its mode")
    pes = given["rows"] * given["columns"]
    if unit.endswith(".json"):
        row = _row(path.parent / unit, str(mode))
        return {
            "area": pes * float(row["area_um2"]) / 1e6,
            "mac_energy": float(row["energy_fj_per_mac"]),
        }
    return {"area": pes * area_um2(unit) / 1e6, "mac_energy": energy_fj(unit, mode=mode)}


def _row(path: Path, name: str) -> dict[str, Any]:
    try:
        rows = json.loads(path.read_text())["comparisons"][0]["pes"]
        (found,) = (row for row in rows if row["name"] == name)
    except (json.JSONDecodeError, KeyError, TypeError, IndexError):
        raise ValueError(f"{path.name} is not what `compare pe --json` prints") from None
    except ValueError:
        raise ValueError(f"{path.name} has no PE {name}; say which with pe_mode") from None
    assert isinstance(found, dict)
    return found


def _made(name: str, f: Mapping[str, Any]) -> Accelerator:
    rate = f["rows"] * f["columns"] * f["group"] / f["group_cycles"]
    attention = f["attention_macs"] or rate

    def watts(macs: float) -> dict[str, float]:
        return {"compute": f["mac_energy"] * 1e-15 * macs * f["clock"]} if f["mac_energy"] else {}

    same = ("rows", "columns", "group", "drain", "clock", "weight_bits", "bandwidth", "capacity")
    return Accelerator(
        name=name,
        **{field: f[field] for field in same},
        start=fixed(f["start"]),
        cycles=fixed(f["group_cycles"]),
        activation_bits=fixed(f["activation_bits"]),
        lengths=dict.fromkeys(("qkv", "o", "u", "d"), 0),
        attention_rate=fixed(attention),
        cache_bits=lambda tokens, width: 2 * tokens * width * f["cache_bits"],
        activation_buffer=int(f["activation_buffer"]),
        weight_buffer=int(f["weight_buffer"]),
        memory_pj_per_bit=f["memory_energy"],
        buffer_pj_per_bit=f["buffer_energy"],
        power=watts(rate),
        attention_power=watts(attention),
        area_mm2=f["area"] or None,
        scheme=f"{f['activation_bits']:g} x {f['weight_bits']:g} bits",
        cache_format=f"{f['cache_bits']:g} bits",
    )
