"""A block in a shell as a bitstream: mapped, placed and routed, and packed."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tilewright.base.cache import get_or_make
from tilewright.golden.params.resolve import resolve
from tilewright.synth.fpga.devices import DEFAULT_DEVICE, Device, find_device
from tilewright.synth.fpga.route import (
    DEFAULT_SEED,
    NETLIST,
    REPORT,
    map_to_cells,
    run_nextpnr,
    run_tool,
)
from tilewright.synth.fpga.shells import SHELL, Shell, shell_of
from tilewright.synth.yosys import SynthesisError

BOARD_MHZ = 25.0  # at the clock pin of the shells' board
_PACKERS = {"synth_ecp5": "ecppack"}  # the family's synthesis -> the tool that packs
_PINS, _CONFIG, _BITS = "pins.lpf", "routed.config", "routed.bit"


@dataclass(frozen=True)
class Bitstream:
    """A device's configuration, and the highest clock of the routed design."""

    spec: str
    device: Device
    shell: Shell
    clock_mhz: float  # at the clock pin
    mhz: float  # highest of the routed design
    data: bytes


def make_bitstream(
    spec: str,
    device: str = DEFAULT_DEVICE,
    *,
    speed_grade: str | None = None,
    seed: int = DEFAULT_SEED,
    clock_mhz: float = BOARD_MHZ,
    constraints: str | None = None,
    watch: Callable[[str], None] = lambda doing: None,
) -> Bitstream:
    """The block ``spec`` in its shell as a bitstream of ``device``.

    ``constraints`` (LPF) replace those for the shells' board. Raises ``SynthesisError`` where the
    family has no packer here, the design does not fit, or it misses the clock: no bitstream is made
    that is too slow for its board.
    """
    chosen = find_device(device)
    packer = _PACKERS.get(chosen.family.synthesis)
    if packer is None:
        raise SynthesisError(f"bitstreams are made for ECP5 only, not for {device}")
    grade = chosen.slowest if speed_grade is None else speed_grade
    options = [*chosen.options, *chosen.speed_options(grade), "--seed", str(seed)]
    options += ["--freq", f"{clock_mhz:g}", "--lpf", _PINS]
    params = resolve(spec)
    chosen.family.require()
    watch(f"{spec}: mapping")
    shell = shell_of(params, clock_mhz)
    # Mapped by plain ABC: ABC9 knows delays better, but Yosys 0.70 fails an assertion when it
    # reads back the result for accelerators in their shell.
    netlist = map_to_cells(shell.files, SHELL, chosen, " -noabc9")
    watch(f"{spec}: place, route and pack")
    pins = shell.constraints(clock_mhz) if constraints is None else constraints

    def make() -> dict[str, str | float]:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
            folder = Path(name)
            (folder / NETLIST).write_text(netlist)
            (folder / _PINS).write_text(pins)
            wanted = ["--json", NETLIST, "--textcfg", _CONFIG, "--report", REPORT]
            run_nextpnr(chosen, [*options, *wanted], folder)
            run_tool(chosen, packer, ["--compress", _CONFIG, _BITS], folder)
            report = json.loads((folder / REPORT).read_text())
            clocks = [clock["achieved"] for clock in report["fmax"].values()]
            return {"mhz": min(clocks), "bits": (folder / _BITS).read_bytes().hex()}

    tool = f"{chosen.family.package} {chosen.family.nextpnr_version} {packer}"
    found = get_or_make((tool, netlist, pins, *options), make)
    mhz = float(found["mhz"])
    if mhz < clock_mhz:
        raise SynthesisError(
            f"{spec} on {device} holds {mhz:.1f} MHz, less than the {clock_mhz:g} MHz of its clock"
            " pin: take a slower --clock or another --seed"
        )
    data = bytes.fromhex(str(found["bits"]))
    return Bitstream(spec, chosen, shell, clock_mhz, mhz, data)
