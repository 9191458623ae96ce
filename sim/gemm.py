"""Single GEMMs on any system: time, rate, utilisation and bound."""

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


def gemm_result(gemm: Gemm, target: Target, scheme: str | None = None) -> GemmResult:
    """Return the result of a GEMM alone.

    On an accelerator as built it is that of the programs that the block itself would run.
    """
    cycles = programs = None
    if target.server is not None and target.engine is not None:
        weights = resolve_weight_scheme(DEFAULT_SCHEME if scheme is None else scheme)
        on_cores = xeon.gemm(target.server, target.engine, weights, gemm, target.deca)
        seconds, use = on_cores.seconds, on_cores.tile.utilisation
        bound = on_cores.tile.bound
    else:
        require(
            scheme is None or "/" not in scheme, f"one GEMM has one mantissa length, not {scheme!r}"
        )
        machine = target.accelerator(scheme)
        if target.built is None:
            (time,) = run(machine, [gemm])
            use = {"compute": time.compute / time.cycles, "memory": time.transfer / time.cycles}
            seconds, bound = time.cycles / machine.clock, time.bound
        else:
            # Imported here: most results need nothing of the accelerators' programs.
            from tilewright.sim.programs import gemm_time

            length = PROGRAM_MANTISSA if scheme is None else machine.lengths["qkv"]
            counted = gemm_time(target.built, gemm, length=length, latency=target.timing)
            cycles, programs = counted.cycles, counted.programs
            units = ("gemm", "load", "store", "control")
            use = {name: getattr(counted, name) / cycles for name in units}
            seconds, bound = gemm.count * cycles / machine.clock, max(use, key=lambda n: use[n])
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
