"""Area and energy between technology nodes, for standing beside figures of other nodes.

From A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction of CMOS device
performance from 180 nm to 7 nm", Integration 58 (2017), 74-81: relative areas, and the energy of a
ring oscillator of inverters driving four as a polynomial of the supply (high performance below
65 nm). It is what DECA's paper scales by too. The paper has no 28 nm: that is interpolated between
32 and 20 nm, in logarithms.

Such factors know nothing of the libraries they go between and are no more than an orientation;
ratios between designs in one library need none.
"""

from collections.abc import Callable
from math import exp, log

__all__ = ["NODES", "area_factor", "energy_factor"]

# Area relative to 130 nm, and the coefficients of V^2, V and 1 of the energy in fJ.
_AREA = {130: 1.0, 32: 0.072, 20: 0.033, 16: 0.03, 7: 0.0092}
_ENERGY = {
    130: (7.171, -6.709, 2.904),
    32: (0.8367, -0.4341, 0.1701),
    20: (0.373, -0.1582, 0.04104),
    16: (0.2958, -0.1241, 0.03024),
    7: (0.1776, -0.09097, 0.02447),
}
_BETWEEN = {28: (32, 20)}

NODES = tuple(sorted({*_AREA, *_BETWEEN}))  # nm


def area_factor(source_nm: int, target_nm: int) -> float:
    """What an area at ``source_nm`` is multiplied with to stand at ``target_nm``."""
    source, target = (_at(nm, _AREA.__getitem__) for nm in (source_nm, target_nm))
    return target / source


def energy_factor(
    source_nm: int, source_volts: float, target_nm: int, target_volts: float
) -> float:
    """The same of energy per operation, each node at its supply."""
    return _energy(target_nm, target_volts) / _energy(source_nm, source_volts)


def _energy(nm: int, volts: float) -> float:
    def known(node: int) -> float:
        square, linear, constant = _ENERGY[node]
        return square * volts**2 + linear * volts + constant

    return _at(nm, known)


def _at(nm: int, known: Callable[[int], float]) -> float:
    if nm in _BETWEEN:
        high, low = _BETWEEN[nm]
        place = log(high / nm) / log(high / low)
        return exp((1 - place) * log(known(high)) + place * log(known(low)))
    if nm not in _AREA:
        raise ValueError(f"no scaling for {nm} nm; nodes: {', '.join(map(str, NODES))}")
    return known(nm)
