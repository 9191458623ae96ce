"""Silicon of a target: the dies of a server with its DECAs, or an accelerator's own record."""

from tilewright.sim.records import NoRecordError, area_um2, system_um2
from tilewright.sim.target import Target


def silicon_mm2(target: Target) -> float | None:
    """Return the area in square millimetres, or None where it is not known.

    Accelerators are those of their system records, synthesised at 7 nm and not placed; so are the
    DECAs that are added to a server's dies.
    """
    return _server(target) if target.server is not None else _accelerator(target)


def _server(target: Target) -> float | None:
    assert target.server is not None
    if not target.server.die_area:
        return None
    if target.engine != "deca":
        return target.server.die_area
    try:
        deca = area_um2(target.deca.slug, "fastest") / 1e6
    except NoRecordError:
        return None
    return target.server.die_area + target.server.cores * deca


def _accelerator(target: Target) -> float | None:
    if target.own is not None:
        return target.own.area_mm2
    built = target.system if target.built is None else target.built.slug
    try:
        return system_um2(built) / 1e6
    except NoRecordError:
        return None
