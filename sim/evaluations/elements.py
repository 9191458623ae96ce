"""Which synthesised units stand for the papers' processing elements: one rule for all papers.

The fp16 baseline of every paper is the better one of our two, with fused rounding. Operand
registers are where the papers' texts have them: inside Anda's PE (double-buffered weights) and
Harmonia's (dual register files for activations), outside the bit-parallel baselines, whose
operands stream. With ``registers_outside`` Anda's is the unit whose weights wait outside too; no
other unit has records of both kinds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.golden.params.harmonia import Mode
from tilewright.sim.accelerator import harmonia_rate
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.inputs import measured
from tilewright.sim.records import area_um2, energy_fj

__all__ = ["FP16_PE", "anda_pe", "pe_area", "pe_fj", "pe_rate", "registers_outside"]

FP16_PE = "pe_fp_fp"
ANDA_GROUP = 64
LANES = 4  # multiply-adds a cycle of a bit-parallel PE
UNITS = {  # name in the claims -> unit of the records
    "fp-fp": FP16_PE,
    "fp-int": "pe_fp_int",
    "ifpu": "pe_ifpu",
    "figna": "pe_figna",
    "figna-m11": "pe_figna__mantissa_bits_11",
    "figna-m8": "pe_figna__mantissa_bits_8",
    "figna-c": "pe_figna_c",
}
_OUTSIDE: list[bool] = []


@contextmanager
def registers_outside() -> Iterator[None]:
    """Inside the ``with`` statement operand registers are no part of Anda's PE."""
    _OUTSIDE.append(True)
    try:
        yield
    finally:
        _OUTSIDE.pop()


def anda_pe() -> str:
    """Return the unit that stands for Anda's PE."""
    return "anda_apu__buffered_false" if _OUTSIDE else "anda_apu"


def _length(name: str) -> int:
    return int(name.removeprefix("anda-m"))


def pe_area(name: str) -> float:
    """Square micrometres of a PE: ``fp-fp``, ``anda-m6``, ``harmonia-m8w4``."""
    if name.startswith("anda"):
        return area_um2(anda_pe())
    return area_um2("harmonia_pe" if name.startswith("harmonia") else UNITS[name])


def pe_fj(name: str) -> float:
    """Femtojoules of a multiply-add of a PE, on a real model's data."""
    if name.startswith("anda"):
        return energy_fj(anda_pe(), _length(name))
    if name.startswith("harmonia"):
        return energy_fj("harmonia_pe", mode=name.removeprefix("harmonia-"))
    return energy_fj(UNITS[name])


def pe_rate(name: str) -> float:
    """Multiply-adds a cycle of a PE."""
    if name.startswith("anda"):
        return ANDA_GROUP / (_length(name) + 1) / measured("anda.cycles")
    if name.startswith("harmonia"):
        return harmonia_rate(Mode(name.removeprefix("harmonia-")))
    return float(LANES)


QUANTITIES = {
    "area": pe_area,
    "power": lambda name: pe_fj(name) * pe_rate(name),
    "area_efficiency": lambda name: pe_rate(name) / pe_area(name),
    "energy_efficiency": lambda name: 1 / pe_fj(name),
}


@evaluation(ClaimClass.NETLIST)
def pe_ratio(quantity: str, pe: str, over: str) -> float:
    """Area, power or efficiency of one PE over that of another, from the records."""
    of = QUANTITIES[quantity]
    return of(pe) / of(over)


@evaluation(ClaimClass.NETLIST)
def pe_area_ratio(pe: str, over: str) -> float:
    """Area of one unit of the records over that of another."""
    return area_um2(pe) / area_um2(over)
