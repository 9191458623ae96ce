"""Area between technology nodes, for comparison with figures of other nodes.

From A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction of CMOS device
performance from 180 nm to 7 nm", Integration 58 (2017), 74-81: relative areas. DECA's paper scales
by them too. The paper has no 28 nm: that is interpolated between 32 and 20 nm, in logarithms.

Such factors know nothing of the libraries they go between and are no more than an orientation;
ratios between designs in one library need none.
"""

from math import log

__all__ = ["NODES", "area_factor"]

_AREA = {130: 1.0, 32: 0.072, 20: 0.033, 16: 0.03, 7: 0.0092}  # relative to 130 nm
_PLACE = log(32 / 28) / log(32 / 20)  # of 28 nm between 32 and 20
_AREA[28] = _AREA[32] ** (1 - _PLACE) * _AREA[20] ** _PLACE

NODES = tuple(sorted(_AREA))  # nm


def area_factor(source_nm: int, target_nm: int) -> float:
    """What an area at ``source_nm`` is multiplied by to compare it with one at ``target_nm``."""
    for nm in (source_nm, target_nm):
        if nm not in _AREA:
            raise ValueError(f"no scaling for {nm} nm; nodes: {', '.join(map(str, NODES))}")
    return _AREA[target_nm] / _AREA[source_nm]
