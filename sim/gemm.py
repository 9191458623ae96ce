"""Single GEMMs on any system: time, rate, utilisation and bound."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.golden.params.block import require
from tilewright.sim import xeon
from tilewright.sim.accelerator import run
from tilewright.sim.scheme import DEFAULT_SCHEME, resolve_weight_scheme
from tilewright.sim.target import Target
from tilewright.sim.workload import Gemm

if TYPE_CHECKING:
    from tilewright.compiler.count import ProgramTime


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
    kind: str  # "predicted" on a server; on an accelerator of "programs" or a "formula"
    remark: str = ""  # why it is a formula
    cycles: int | None = None  # of one repetition, where programs were counted
    programs: int | None = None


def gemm_result(gemm: Gemm, target: Target, scheme: str | None = None) -> GemmResult:
    """Return the result of a GEMM alone.

    On Anda and Harmonia it is that of the programs that would run, as for whole models, and a
    formula where there are none.
    """
    cycles = programs = None
    kind, remark = "predicted", ""
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
        (time,) = run(machine, [gemm])
        kind, seconds, bound = "formula", time.cycles / machine.clock, time.bound
        use = {"compute": time.compute / time.cycles, "memory": time.transfer / time.cycles}
        counted, remark = _counted(gemm, target, machine.lengths["qkv"])
        if counted is not None:
            cycles, programs = counted.cycles, counted.programs
            units = ("gemm", "load", "store", "control")
            use = {name: getattr(counted, name) / cycles for name in units}
            kind, seconds = "programs", gemm.count * cycles / machine.clock
            bound = max(use, key=lambda n: use[n])
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
        kind=kind,
        remark=remark,
        cycles=cycles,
        programs=programs,
    )


def _counted(gemm: Gemm, target: Target, length: int) -> tuple["ProgramTime | None", str]:
    """Return the time of the programs of one repetition, or why there are none."""
    if target.programmed is None:
        return None, "programs are written for anda and harmonia alone"
    # Imported here: most results need nothing of the accelerators' programs.
    from tilewright.sim.programs import gemm_time

    try:
        return gemm_time(target.programmed, gemm, length=length, latency=target.timing), ""
    except ValueError as refused:
        return None, str(refused)
