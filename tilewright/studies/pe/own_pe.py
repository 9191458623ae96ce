"""A PE of the user's own, as Verilog: area, delay and energy by the flow and data of ours.

The top module takes ``clk``, the operands ``a`` (activations) and ``b`` (weights), element 0 in the
low bits, and optionally ``rst``, ``valid`` (always 1), ``start`` (with the first ``macs`` operands
of a dot product), ``first`` (in the first cycle of any ``macs`` operands), ``a_scale`` and
``b_scale``. As many operands as the ports are wide come at a time, each for an equal share of the
``cycles``. Outputs have any names and are not checked.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.formats import FORMATS, NumberFormat, resolve_format
from tilewright.studies.pe.energy import CLOCK_MHZ
from tilewright.studies.pe.format_accuracy import real_operands
from tilewright.studies.pe.workload import DOTS, KINDS, LENGTH, SEED, STREAMS
from tilewright.synth.activity import Simulator
from tilewright.synth.energy import energy_of
from tilewright.synth.flow import Synthesis, synthesise
from tilewright.synth.netlist import Netlist
from tilewright.synth.technology import Technology
from tilewright.synth.yosys import SynthesisError, yosys_files

MARKS = ("clk", "rst", "valid", "start", "first")
OPERANDS = ("a", "b", "a_scale", "b_scale")
RESET_CYCLES = 2


@dataclass(frozen=True, kw_only=True)
class OwnPE:
    """A module of a Verilog file, and what it does in a number of cycles."""

    path: Path
    top: str
    macs: int  # multiply-adds of ``cycles`` cycles
    cycles: int
    formats: str  # of activations and weights, such as int8xint4

    def __post_init__(self) -> None:
        if self.macs < 1 or LENGTH % self.macs:
            raise CommandError(f"macs must divide a dot product of {LENGTH}, not {self.macs}")
        if self.cycles < 1:
            raise CommandError(f"cycles must be at least 1, not {self.cycles}")


def measure_own(pe: OwnPE, technology: Technology) -> dict[str, Any]:
    """Synthesise and measure a PE; the result has the form of an energy record."""
    result = _synthesised(pe, technology)
    operands = find_formats(pe.formats)
    runs = {kind: _run(pe, result, operands, kind) for kind in KINDS}
    return {
        "spec": f"{pe.path.name}:{pe.top}",
        "technology": technology.name,
        "clock_mhz": CLOCK_MHZ,
        "formats": pe.formats,
        "units": {"area": "um2", "delay": "ps", "energy": "fJ per MAC"},
        "metrics": {"area": round(result.netlist.area, 3), "delay": round(result.delay, 1)},
        "runs": runs,
    }


def _synthesised(pe: OwnPE, technology: Technology) -> Synthesis:
    commands = [
        "read_verilog -sv own.v",
        f"hierarchy -check -top {pe.top}",
        "proc",
        "write_rtlil own.il",
    ]
    try:
        found = yosys_files(commands, {"own.v": pe.path.read_text()}, ["own.il"])
        return synthesise(found["own.il"], pe.top, technology)
    except SynthesisError as error:
        raise CommandError(f"{pe.path}: {error}") from None


def _run(
    pe: OwnPE, result: Synthesis, operands: tuple[NumberFormat, NumberFormat], kind: str
) -> dict[str, float]:
    netlist = result.netlist
    codes = _codes(operands, kind)
    lanes = _lanes(pe, netlist, operands)
    beats = pe.macs // lanes
    held = pe.cycles // beats
    simulator = Simulator(netlist, STREAMS)
    ones = simulator.ones
    counters, ignored = simulator.counters(), simulator.counters()
    quiet = {name: [0] * len(nets) for name, nets in netlist.inputs.items()}
    for _ in range(RESET_CYCLES):
        simulator.step(quiet | ({"rst": [ones]} if "rst" in quiet else {}), ignored)
    cycles = 0
    for dot in range(DOTS):
        for at in range(0, LENGTH, lanes):
            operand = {
                n: _port(codes[n], dot, at, lanes, operands, n) for n in OPERANDS if n in quiet
            }
            for cycle in range(held):
                first = at % pe.macs == 0 and cycle == 0
                high = {"valid": True, "start": at < pe.macs, "first": first}
                marks = {n: [ones if high[n] else 0] for n in high if n in quiet}
                counting = dot > 0
                cycles += counting
                simulator.step(quiet | operand | marks, counters if counting else ignored)
    activity = simulator.activity(counters, cycles)
    energy = energy_of(netlist, result.technology, activity, 1e6 / CLOCK_MHZ, result.part_of)
    macs = (DOTS - 1) * LENGTH
    return {"macs_per_cycle": pe.macs / pe.cycles, "total": round(energy.total / macs, 4)}


def _lanes(pe: OwnPE, netlist: Netlist, operands: tuple[NumberFormat, NumberFormat]) -> int:
    """Return how many operands come at a time; mismatches are refused."""
    inputs = netlist.inputs
    other = [name for name in inputs if name not in (*MARKS, *OPERANDS)]
    if other or not {"clk", "a", "b"} <= inputs.keys():
        raise CommandError(
            f"{pe.top} has the inputs {', '.join(inputs)}; a PE takes clk, a and b, and at will"
            f" {', '.join((*MARKS[1:], *OPERANDS[2:]))}"
        )
    lanes = [len(inputs[name]) / fmt.bits for name, fmt in zip("ab", operands, strict=True)]
    if lanes[0] != lanes[1] or lanes[0] != int(lanes[0]):
        raise CommandError(
            f"a and b of {pe.top} have {lanes[0]:g} values of {operands[0].bits} bits and"
            f" {lanes[1]:g} of {operands[1].bits}; they must have equally many"
        )
    count = int(lanes[0])
    if pe.macs % count or pe.cycles % (pe.macs // count):
        raise CommandError(
            f"{pe.macs} multiply-adds in {pe.cycles} cycles do not divide into operands of {count}"
        )
    for name, fmt in zip(("a_scale", "b_scale"), operands, strict=True):
        wanted = fmt.scale_bits * max(1, count // fmt.group)
        if name in inputs and len(inputs[name]) != wanted:
            raise CommandError(
                f"{name} of {pe.top} has {len(inputs[name])} bits; {fmt.name} has {wanted} for"
                f" {count} values"
            )
    return count


def _codes(operands: tuple[NumberFormat, NumberFormat], kind: str) -> dict[str, NDArray]:
    """Return codes and scales of all operands by port: (streams, dots, values)."""
    activations, weights = real_operands()
    rng = np.random.default_rng(SEED)
    found: dict[str, NDArray] = {}
    values = (activations, np.repeat(weights[:, np.newaxis], DOTS, axis=1))
    for name, fmt, real in zip("ab", operands, values, strict=True):
        codes, scales = fmt.encode(real)
        if kind == "random":
            codes = rng.integers(0, 1 << fmt.bits, codes.shape)
        elif kind == "zero":
            codes = np.zeros_like(codes)
        found[name], found[f"{name}_scale"] = codes, scales
    return found


def _port(
    codes: NDArray,
    dot: int,
    at: int,
    lanes: int,
    operands: tuple[NumberFormat, NumberFormat],
    name: str,
) -> list[int]:
    """Return one integer for each bit of a port, a bit of it for each stream."""
    fmt = operands[name.startswith("b")]
    if name.endswith("_scale"):
        first, count, bits = at // fmt.group, max(1, lanes // fmt.group), fmt.scale_bits
    else:
        first, count, bits = at, lanes, fmt.bits
    words = codes[:, dot, first : first + count]  # (streams, values)
    taken = (words[..., np.newaxis] >> np.arange(bits)) & 1
    packed = np.packbits(taken.reshape(len(words), -1).T.astype(np.uint8), 1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def find_formats(text: str) -> tuple[NumberFormat, NumberFormat]:
    """Return the formats of activations and weights that ``AxB`` names."""
    for at, letter in enumerate(text):
        if letter == "x" and _is_format(text[:at]) and _is_format(text[at + 1 :]):
            return resolve_format(text[:at]), resolve_format(text[at + 1 :])
    raise CommandError(
        f"a PE's formats are ACTIVATIONSxWEIGHTS, such as int8xint4, of {', '.join(FORMATS)} or"
        f" FILE.py:CLASS, not {text[:60]!r}"
    )


def _is_format(name: str) -> bool:
    return name in FORMATS or (".py:" in name and Path(name.rpartition(":")[0]).is_file())
