"""Servers are data: a TOML file each in ``sim/systems``, or a user's own, and changes to one.

A file has one line for each field of :class:`Server`. A value is a number in the field's base unit,
a text with a unit (``"2.5 GHz"``), a table with ``value`` and ``source``, or, where the papers'
tables give it, the name of a constant of ``calibration.toml``. With ``based_on`` a file takes all
that it does not say from a named server.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.sim.calibration import constant, table

FOLDER = Path(__file__).with_name("systems")
NUMBER = re.compile(r"([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%][\w/%]*)?")
PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BYTES = {f"{p}B": f for p, f in PREFIXES.items()}
BYTES |= {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
UNITS: dict[str, dict[str, float]] = {
    "count": {},
    "Hz": {f"{p}Hz": f for p, f in PREFIXES.items()},
    "B": BYTES,
    "B/s": {f"{unit}/s": factor for unit, factor in BYTES.items()},
    "B/cycle": {"B/cycle": 1.0},
    "cycles": {"cycles": 1.0},
    "W": {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    "pJ/bit": {"pJ/bit": 1.0},
    "us": {"us": 1.0, "ms": 1e3, "ns": 1e-3},
    "mm2": {"mm2": 1.0},
    "fJ": {"fJ": 1.0, "pJ": 1e3},
    "fraction": {"%": 0.01},
}


@dataclass(frozen=True)
class Quantity:
    """A field of a machine: its base unit, its range and whether it is a whole number."""

    about: str
    unit: str
    low: float
    high: float
    whole: bool = False
    constant: bool = False  # whether it may name a constant of the papers' tables
    default: float | None = None  # of a field that a file may leave out


def _field(
    default: Any, about: str, unit: str, low: float, high: float, *, constant: bool = False
) -> Any:
    """A field of :class:`Server`; a whole default says that all its values are whole."""
    whole = isinstance(default, int)
    quantity = Quantity(about, unit, low, high, whole=whole, constant=constant)
    return field(default=default, metadata={"quantity": quantity})


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server of one socket; defaults are those of the DECA paper."""

    name: str
    about: str = ""
    cores: int = _field(56, "of the socket", "count", 1, 4096)
    clock: float = _field(2.5e9, "of cores", "Hz", 1e8, 1e10)
    deca_clock: float = _field(0.0, "of a DECA beside each; 0: theirs", "Hz", 0, 1e10)
    matrix_cycles: float = _field(
        16.0, "between two matrix operations; 0: no unit", "cycles", 0, 1024
    )
    vector_units: int = _field(2, "of 512 bits, of a core", "count", 1, 16)
    vector_macs: float = _field(
        32.0, "bf16 multiply-adds of a vector instruction", "count", 1, 1024
    )
    issue_width: int = _field(6, "instructions of a core in a cycle", "count", 1, 64)
    l1_lines: int = _field(2, "that a core loads or stores in a cycle", "count", 1, 16)
    l2_capacity: float = _field(2.0**21, "of a core", "B", 2**16, 2**30)
    l2_bandwidth: float | str = _field(
        "l2_bytes_per_cycle", "to a core's registers", "B/cycle", 1, 1024, constant=True
    )
    llc_bandwidth: float | str = _field(
        "far_bytes_per_cycle", "to a core's registers", "B/cycle", 0.1, 1024, constant=True
    )
    memory_channels: int = _field(8, "of a socket", "count", 1, 1024)
    channel_bandwidth: float = _field(38.4e9, "peak of a channel", "B/s", 1e8, 1e13)
    bandwidth: float = _field(MISSING, "of a socket's memory, achievable", "B/s", 1e8, 1e15)
    core_bandwidth: float = _field(17.5e9, "of it that a core's loads draw", "B/s", 1e7, 1e13)
    stream: float | str = _field(
        1.0, "share of it that weights reach", "fraction", 0.01, 1, constant=True
    )
    capacity: float = _field(MISSING, "of a socket's memory", "B", 1e8, 1e16)
    layer_time: float | str = _field(
        "layer_us", "of a layer's small kernels", "us", 0, 1e6, constant=True
    )
    design_power: float = _field(350.0, "of a socket, all units busy", "W", 1, 1e5)
    idle_power: float = _field(0.3, "share of it with no core at work", "fraction", 0, 1)
    core_power: float = _field(0.25, "share of it that cores at work add", "fraction", 0, 1)
    vector_power: float = _field(0.2, "share that busy vector units add", "fraction", 0, 1)
    matrix_power: float = _field(0.25, "share that busy matrix units add", "fraction", 0, 1)
    memory_energy: float = _field(15.0, "of a bit from memory", "pJ/bit", 0, 1000)
    memory_in_package: int = _field(0, "1 where the design power has it", "count", 0, 1)
    die_area: float = _field(0.0, "of a socket; 0: not known", "mm2", 0, 1e5)

    def __post_init__(self) -> None:
        for name, quantity in QUANTITIES.items():
            value = getattr(self, name)
            if not isinstance(value, str):
                _check(name, quantity, value)
        peak = self.memory_channels * self.channel_bandwidth
        require(
            self.bandwidth <= 1.001 * peak,
            f"bandwidth {self.bandwidth / 1e9:g} GB/s is above the peak of its channels,"
            f" {self.memory_channels} x {self.channel_bandwidth / 1e9:g} GB/s; set them too",
        )

    def rate(self, field: str) -> float:
        """Return a field that may name a constant of the papers' tables."""
        value = getattr(self, field)
        return constant(value) if isinstance(value, str) else float(value)

    def bytes_per_cycle(self, cores: int, *, loads: bool = False) -> float:
        """One core's share when ``cores`` of a socket stream; of ``loads`` what they draw of it."""
        share = self.bandwidth * self.rate("stream") / (cores * self.clock)
        return min(share, self.core_bandwidth / self.clock) if loads else share

    @property
    def deca_clocks(self) -> float:
        """Cycles of a core in one of the DECA beside it."""
        return self.clock / (self.deca_clock or self.clock)

    @property
    def layer_us(self) -> float:
        """Microseconds of a layer's small kernels but for those of each sequence.

        A constant of the papers' tables is that of their clock: one thread starts all kernels. A
        number is the machine's own.
        """
        scale = Server.clock / self.clock if isinstance(self.layer_time, str) else 1.0
        return self.rate("layer_time") * scale

    @property
    def scale(self) -> float:
        """Time of work that all cores share, over that on the server of the papers' tables."""
        return Server.cores * Server.clock / (self.cores * self.clock)

    @property
    def matrix_rate(self) -> float:
        """Matrix operations a second (MOS) of a socket."""
        require(self.matrix_cycles > 0, f"{self.name} has no matrix unit")
        return self.cores * self.clock / self.matrix_cycles

    @property
    def vector_rate(self) -> float:
        """Vector operations a second (VOS) of a socket's cores."""
        return self.cores * self.clock * self.vector_units


QUANTITIES: dict[str, Quantity] = {
    f.name: f.metadata["quantity"] for f in fields(Server) if "quantity" in f.metadata
}
WORDS = ("about", "based_on")


def _check(name: str, quantity: Quantity, value: float) -> None:
    require(
        isfinite(value) and quantity.low <= value <= quantity.high,
        f"{name} must be {quantity.low:g} to {quantity.high:g} {quantity.unit}, not {value:g}",
    )
    require(
        not quantity.whole or value == int(value), f"{name} must be a whole number, not {value:g}"
    )


def in_base_unit(name: str, quantity: Quantity, value: object) -> Any:
    """Return the number of a quantity, which may be a text with a unit, or a constant's name."""
    if quantity.constant and isinstance(value, str) and value in table():
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{name} must be a number with a unit, not {value!r}")
    if isinstance(value, str):
        found, known = NUMBER.fullmatch(value.strip()), UNITS[quantity.unit]
        units = ", ".join(known) or "none"
        require(
            found is not None, f"{name} must be a number with a unit ({units}), not {value[:40]!r}"
        )
        assert found is not None
        unit = (found[2] or "").strip()
        if unit and unit not in known:
            raise ValueError(unknown(f"unit of {name}", unit, known))
        value = float(found[1]) * known.get(unit, 1.0)
    _check(name, quantity, value)
    return int(value) if quantity.whole else value


def parse_settings(text: str) -> dict[str, str]:
    """Return the fields and values of ``cores=86,clock=2.0GHz,...``."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        require(
            bool(name and equals and value),
            f"settings are FIELD=VALUE,..., such as cores=86,clock=2.0GHz, not {part[:40]!r}",
        )
        require(name.isprintable(), f"{name[:40]!r} is no name of a field")
        require(name not in found, f"{name} is set twice")
        found[name] = value
    return found


def settings_in_base_units(
    kind: str, quantities: Mapping[str, Quantity], settings: Mapping[str, str]
) -> dict[str, Any]:
    """Return the numbers of settings; ``kind`` of machine is for messages."""
    for name in settings:
        if name not in quantities:
            raise ValueError(unknown(f"field of {kind}", name, quantities))
    return {name: in_base_unit(name, quantities[name], value) for name, value in settings.items()}


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """A ValueError inside the ``with`` statement begins with the file's name."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from None


def read_fields(
    path: Path, quantities: Mapping[str, Quantity], words: Collection[str]
) -> dict[str, Any]:
    """Return the fields of a TOML file, numbers in base units, without their sources."""
    try:
        data = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    found: dict[str, Any] = {}
    for name, value in data.items():
        if name not in quantities and name not in words:
            raise ValueError(unknown("field", name, (*words, *quantities)))
        if isinstance(value, dict):
            other = sorted(value.keys() - {"value", "source"})
            require(
                not other and "value" in value, f"{name} takes value and source, not {other[:3]}"
            )
            value = value["value"]
        if name in words:
            require(isinstance(value, str), f"{name} must be text, not {value!r}")
            found[name] = value
        else:
            found[name] = in_base_unit(name, quantities[name], value)
    return found


def read_server(path: Path) -> Server:
    """Read the server that a TOML file describes; its name is that of the file."""
    with named_in_errors(path):
        values = read_fields(path, QUANTITIES, WORDS)
        base = values.pop("based_on", None)
        if base is not None:
            if base not in servers():
                raise ValueError(unknown("system", base, servers()))
            return replace(servers()[base], name=path.stem, **values)
        missing = [name for name in ("bandwidth", "capacity") if name not in values]
        require(not missing, f"{', '.join(missing)} missing; give it, or based_on")
        return Server(name=path.stem, **values)


@cache
def servers() -> dict[str, Server]:
    """Return the servers of ``sim/systems`` by name, those of the DECA paper first."""
    paths = sorted(FOLDER.glob("*.toml"), key=lambda p: (not p.stem.startswith("spr"), p.stem))
    return {path.stem: read_server(path) for path in paths}


@cache
def sources(name: str) -> dict[str, str]:
    """Return where each number of a shipped server comes from."""
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    return {field: entry["source"] for field, entry in data.items() if isinstance(entry, dict)}


def changed_server(server: Server, settings: Mapping[str, str]) -> Server:
    """Return the server with some fields set."""
    values = settings_in_base_units("a server", QUANTITIES, settings)
    if "bandwidth" in values and not values.keys() & {"channel_bandwidth", "memory_channels"}:
        # Somebody who sets the bandwidth alone means another memory: as many faster channels.
        least = values["bandwidth"] / server.memory_channels
        values["channel_bandwidth"] = max(server.channel_bandwidth, least)
    return replace(server, **values)
