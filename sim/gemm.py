"""Single GEMMs on any system: time, rate, utilisation and bound."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.golden.params.block import require
from tilewright.sim import xeon
from tilewright.sim.accelerator import run
from tilewright.sim.scheme import DEFAULT_SCHEME, resolve_weight_scheme
from tilewright.sim.target import Target
from tilewright.sim.workload import Gemm

PROGRAM_MANTISSA = 8  # of Anda's programs, unless a scheme names another


@dataclass(frozen=True, kw_only=True)
class GemmResult:
    """One GEMM with all of its repetitions; ``utilisation`` and ``bound`` name resources."""

    name: str
    rows: int
    inner: int
    outer: int
    count: float
    milliseconds: float
    tera_fma_per_second: float
    utilisation: dict[str, float]
    bound: str
    cycles: int | None = None  # of one repetition, where programs of a block were counted
    programs: int | None = None


def gemm_results(
    gemms: Sequence[Gemm], target: Target, scheme: str | None = None
) -> list[GemmResult]:
    """Return the result of each GEMM on its own.

    On an accelerator as built it is that of the programs that the block itself would run.
    """
    if target.built is not None:
        return _programs(gemms, target, scheme)
    if target.server is not None and target.engine is not None:
        weights = resolve_weight_scheme(DEFAULT_SCHEME if scheme is None else scheme)
        times = [
            xeon.gemm(target.server, target.engine, weights, gemm, target.deca) for gemm in gemms
        ]
        return [_result(t.gemm, t.seconds, t.tile.utilisation, t.tile.bound) for t in times]
    require(
        scheme is None or "/" not in scheme, f"one GEMM has one mantissa length, not {scheme!r}"
    )
    machine = target.accelerator(scheme)
    results = []
    for gemm, time in zip(gemms, run(machine, gemms), strict=True):
        use = {"compute": time.compute / time.cycles, "memory": time.transfer / time.cycles}
        results.append(_result(gemm, time.cycles / machine.clock, use, time.bound))
    return results


def _programs(gemms: Sequence[Gemm], target: Target, scheme: str | None) -> list[GemmResult]:
    # Imported here: most results need nothing of the accelerators' programs.
    from tilewright.sim.programs import gemm_time

    params, clock = target.built, target.accelerator(None).clock
    assert params is not None
    length = _mantissa(target, scheme)
    results = []
    for gemm in gemms:
        time = gemm_time(params, gemm, length=length, latency=target.timing)
        use = {
            name: getattr(time, name) / time.cycles for name in ("gemm", "load", "store", "control")
        }
        bound = max(use, key=lambda name: use[name])
        seconds = gemm.count * time.cycles / clock
        found = _result(gemm, seconds, use, bound, cycles=time.cycles, programs=time.programs)
        results.append(found)
    return results


def _mantissa(target: Target, scheme: str | None) -> int:
    """Return one length for all GEMMs of Anda."""
    if scheme is None:
        return PROGRAM_MANTISSA
    require(target.system == "anda", f"{target.system} has one scheme; leave it out")
    require(
        scheme.isdecimal() and 1 <= int(scheme) <= 16,
        f"scheme of anda's programs must be a mantissa length, not {scheme!r}",
    )
    return int(scheme)


def _result(
    gemm: Gemm,
    seconds: float,
    use: dict[str, float],
    bound: str,
    *,
    cycles: int | None = None,
    programs: int | None = None,
) -> GemmResult:
    return GemmResult(
        name=gemm.name,
        rows=gemm.rows,
        inner=gemm.inner,
        outer=gemm.outer,
        count=gemm.count,
        milliseconds=1e3 * seconds,
        tera_fma_per_second=gemm.macs / seconds / 1e12,
        utilisation=use,
        bound=bound,
        cycles=cycles,
        programs=programs,
    )
