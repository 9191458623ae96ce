"""Which synthesised units stand for the papers' processing elements: one rule for all papers.

The fp16 baseline of every paper is the better one of our two, with fused rounding. Every PE has the
best of its arrangements, by one search and one rule for all (``tilewright.studies.pe.points``).
Operands are in registers inside every PE, as the texts of Anda and Harmonia (dual register files)
have theirs. Anda's text has two groups of weights there, the search takes one.
``OPEN`` of ``tilewright.sim.calibration`` has the other ways to decide each of these.
"""

import re

from tilewright.golden.params.harmonia import Mode
from tilewright.sim.accelerator import harmonia_rate
from tilewright.sim.calibration import chosen, measured
from tilewright.sim.records import area_um2, energy_fj

ANDA_GROUP = 64
OURS = ("anda", "harmonia")  # the others are baselines
LANES = 4  # multiply-adds a cycle of a bit-parallel PE
INSIDE = "__registered_true"
BOUNDED = "__bounded_true"
SHORT = f"__stages_3{BOUNDED}"
CARRY_SAVE = f"__stages_3__adder_carry_save{BOUNDED}"
CHAIN = f"__stages_3__adder_chain{BOUNDED}"
MERGED = "__merged_true"
DISCRETE = "__isolated_true__form_discrete"
ONE_SUB_PE = "harmonia_pe__sub_elements_1__fold_1"
M11, M8 = "__mantissa_bits_11", "__mantissa_bits_8"
UNITS = {  # name in the claims -> units of the records, operands inside and outside
    "anda": (f"anda_apu{INSIDE}__weight_buffers_1", "anda_apu__buffered_false"),
    "harmonia": (
        f"{ONE_SUB_PE}{INSIDE}__stages_3{BOUNDED}{MERGED}__isolated_true",
        f"{ONE_SUB_PE}{SHORT}{MERGED}",
    ),
    "fp-fp": (
        f"pe_fp_fp{INSIDE}__adder_carry_save",
        "pe_fp_fp__isolated_true__stages_2__adder_carry_save",
    ),
    "fp-fp discrete": (f"pe_fp_fp{INSIDE}{DISCRETE}", f"pe_fp_fp{DISCRETE}"),
    "fp-int": (f"pe_fp_int{INSIDE}__stages_4{BOUNDED}", f"pe_fp_int__stages_4{BOUNDED}"),
    "ifpu": (f"pe_ifpu{INSIDE}{CARRY_SAVE}", f"pe_ifpu{CARRY_SAVE}"),
    "figna": (f"pe_figna{INSIDE}{SHORT}", f"pe_figna{CHAIN}"),
    "figna-m11": (f"pe_figna{INSIDE}{CHAIN}{M11}", f"pe_figna{SHORT}{M11}"),
    "figna-m8": (f"pe_figna{INSIDE}{SHORT}{M8}", f"pe_figna{SHORT}{M8}"),
    "figna-c": (f"pe_figna_c{INSIDE}{SHORT}{MERGED}", f"pe_figna_c{SHORT}{MERGED}"),
}
ARRANGEMENT = re.compile(
    r"__(stages_\d|adder_[a-z_]+|(bounded|merged|isolated)_true|sub_elements_1|fold_1"
    r"|weight_buffers_1)(?=__|$)"
)


def pe_unit(name: str) -> str:
    """Return the unit of the records that stands for a PE: ``fp-fp``, ``anda-m6``."""
    family = name.partition("-")[0] if name.startswith(OURS) else name
    discrete = " discrete" if family == "fp-fp" and chosen("discrete") else ""
    unit = UNITS[family + discrete][chosen("outside")]
    return ARRANGEMENT.sub("", unit) if chosen("plain") else unit


def _length(name: str) -> int:
    return int(name.removeprefix("anda-m"))


def pe_area(name: str) -> float:
    """Square micrometres of a PE: ``fp-fp``, ``anda-m6``, ``harmonia-m8w4``."""
    return area_um2(pe_unit(name))


def pe_fj(name: str) -> float:
    """Femtojoules of a multiply-add of a PE, on a real model's data.

    The power of a netlist is measured, so a PE of ours that took more cycles would take more.
    """
    if name.startswith("anda"):
        return anda_fj(_length(name))
    if name.startswith("harmonia"):
        mode = name.removeprefix("harmonia-")
        return measured("harmonia.cycles", energy_fj(pe_unit(name), mode=mode))
    return energy_fj(pe_unit(name))


def anda_fj(length: float) -> float:
    """Femtojoules of a multiply-add of Anda's PE with mantissas of this length."""
    return measured("anda.cycles", energy_fj(pe_unit("anda"), length))


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


def pe_ratio(quantity: str, pe: str, over: str) -> float:
    """Area, power or efficiency of one PE over that of another, from the records."""
    of = QUANTITIES[quantity]
    return of(pe) / of(over)
