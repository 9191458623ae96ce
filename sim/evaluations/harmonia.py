"""Figures of the Harmonia paper: peaks, cache, machines of equal area and their energy."""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import fmean

from tilewright.compiler.count import ProgramTime
from tilewright.golden.harmonia.precision import cache_size, element_share
from tilewright.golden.harmonia.traffic import TiledShape, switch_point
from tilewright.golden.params.harmonia import ACTIVATION_BITS, CacheParams, Mode
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams
from tilewright.sim import accelerator as acc
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.anda import PREFILL
from tilewright.sim.evaluations.elements import pe_area, pe_fj, pe_rate, pe_ratio
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.models import resolve_model
from tilewright.sim.programs import projections_time, slower_array
from tilewright.sim.step_programs import attention_time
from tilewright.sim.workload import prefill, total_macs

HARMONIA_MODELS = (
    *("llama-3.2-1b", "llama-3.2-3b", "mistral-7b", "llama-3.1-8b", "llama-2-13b"),
    *("llama-7b", "llama-2-7b", "opt-6.7b"),
)
PES = ("fp-fp", "fp-int", "figna", "anda-m8", "anda-m6", "anda-m4")  # of the paper's Figure 17
ANDA_LENGTHS = {"anda-m8": 8, "anda-m6": 6, "anda-m4": 4}
# Whole machines: Anda at the whole length next to its mean at 1% loss.
MACHINES = ("fp-fp", "fp-int", "figna", "anda-m6")


@evaluation(ClaimClass.IDENTITY)
def harmonia_peak(mode: str) -> float:
    """Multiply-adds a cycle of the array."""
    array = acc.PAPER_HARMONIA
    return array.rows * array.columns * acc.harmonia_rate(Mode(mode))


@evaluation(ClaimClass.IDENTITY)
def harmonia_efficiency(mode: str) -> float:
    """GOPS per watt, two operations a multiply-add, with the paper's power."""
    return 2 * harmonia_peak(mode) * acc.HARMONIA_CLOCK / 1e9 / acc.HARMONIA_WATTS


@evaluation(ClaimClass.IDENTITY)
def cache_reduction(tokens: int, width: int) -> float:
    """Size of a cache in fp16 over that of Harmonia's."""
    return cache_size(CacheParams(), tokens, width).reduction


@evaluation(ClaimClass.IDENTITY)
def cache_saved(mantissa: int) -> float:
    """Percent, sign and mantissa alone."""
    return 100 * (1 - element_share(mantissa))


@evaluation(ClaimClass.IDENTITY)
def traffic_switch(columns: int, tile_rows: int, tile_columns: int) -> bool:
    """Row-major moves fewer values just below the switch, column-major just above."""
    at = int(switch_point(columns, tile_rows, tile_columns))
    below, above = (
        TiledShape(m, 4096, columns, tile_rows, tile_columns).better
        for m in (at // tile_rows * tile_rows - tile_rows, at // tile_rows * tile_rows + tile_rows)
    )
    return below is Dataflow.ROW_MAJOR and above is Dataflow.COLUMN_MAJOR


def iso_area_speedups(model: str, context: int, joint: bool) -> dict[str, float]:
    """Harmonia over each baseline whose PEs fill the same area, by the cycles of programs.

    Projections, and with ``joint`` attention too; for that a baseline has fp16 PEs beside its
    own, as many as the fp16 machine, whose area is not counted against it. A baseline is the same
    machine, with the same programs, but for its array: that takes longer as its PEs do fewer
    multiply-adds in the area at their peak.
    """
    per_area = {name: pe_rate(name) / pe_area(name) for name in PES}
    area, peak, machine = pe_area("harmonia-m8w4"), pe_rate("harmonia-m8w4"), acc.harmonia()
    attention_peak = machine.attention_rate(context) / (machine.rows * machine.columns)
    projections, attention = _programs(model, context)
    ours = projections.cycles + (attention.cycles if joint else 0)
    speedups = {}
    for name in MACHINES:
        theirs = slower_array(projections, peak / (area * per_area[name]))
        if joint:
            theirs += slower_array(attention, attention_peak / (area * per_area["fp-fp"]))
        speedups[name] = theirs / ours
    return speedups


@cache
def _programs(model: str, context: int) -> tuple[ProgramTime, ProgramTime]:
    """Projections, and attention, of a whole prompt."""
    shape, params = resolve_model(model), HarmoniaParams()
    products = [p for p in prefill(shape, 1, context) if p.module != "attention"]
    lengths = dict.fromkeys((p.module for p in products), ACTIVATION_BITS)
    attention = attention_time(params, shape, context).times(shape.num_hidden_layers)
    return projections_time(params, products, lengths), attention


ENDS: dict[str, Callable[[Iterable[float]], float]] = {"least": min, "most": max, "mean": fmean}


@evaluation(ClaimClass.NETLIST)
def harmonia_speedup(end: str) -> float:
    """Least or most of the mean speedups over each baseline: all models, 2048 tokens."""
    runs = [iso_area_speedups(model, PREFILL, joint=True) for model in HARMONIA_MODELS]
    return ENDS[end](fmean(run[name] for run in runs) for name in MACHINES)


@evaluation(ClaimClass.NETLIST)
def harmonia_sweep(end: str, model: str, contexts: list[int]) -> float:
    """Least or most speedup over any baseline at any of these contexts."""
    runs = [iso_area_speedups(model, context, joint=True) for context in contexts]
    return ENDS[end](speedup for run in runs for speedup in run.values())


@evaluation(ClaimClass.NETLIST)
def harmonia_linear_speedup() -> float:
    """Speed over the fp16 machine of equal area, projections alone."""
    return iso_area_speedups("llama-2-13b", PREFILL, joint=False)["fp-fp"]


@evaluation(ClaimClass.NETLIST)
def harmonia_pe_efficiency(end: str) -> float:
    """Least or most area efficiency of a PE over the baselines'."""
    return ENDS[end](pe_ratio("area_efficiency", "harmonia-m8w4", name) for name in PES)


@evaluation(ClaimClass.NETLIST)
def harmonia_pe_energy(end: str) -> float:
    """Least or most energy of a baseline's multiply-add over that of a PE in M8W4."""
    return ENDS[end](pe_ratio("energy_efficiency", "harmonia-m8w4", name) for name in PES)


def _baseline(name: str) -> acc.Accelerator:
    if name in ANDA_LENGTHS:
        return acc.anda(dict.fromkeys(acc.anda().lengths, ANDA_LENGTHS[name]))
    return acc.baseline(name)


def _energy_reductions(model: str, context: int, joint: bool) -> dict[str, float]:
    """Energy of each baseline over Harmonia's: PEs, buffers and memory.

    A baseline's multiply-add costs Harmonia's published one by the ratio of the records, and in
    attention what it costs an fp16 PE. Buffers are equal, so traffic follows the formats.
    """
    products = [
        p for p in prefill(resolve_model(model), 1, context) if joint or p.module != "attention"
    ]
    macs = {
        kind: total_macs([p for p in products if (p.module == "attention") == kind])
        for kind in (False, True)
    }
    machine = acc.harmonia()
    ours = sum(acc.energy(machine, acc.run(machine, products)).values())
    peak = harmonia_peak(Mode.M8W4.value) * acc.HARMONIA_CLOCK
    scale = machine.power["compute"] / peak / pe_fj("harmonia-m8w4")
    reductions = {}
    for name in MACHINES:
        other = _baseline(name)
        parts = acc.energy(other, acc.run(other, products))
        compute = macs[False] * pe_fj(name) + macs[True] * pe_fj("fp-fp")
        reductions[name] = (scale * compute + parts["buffers"] + parts["memory"]) / ours
    return reductions


@evaluation(ClaimClass.NETLIST)
def harmonia_energy(end: str, joint: bool) -> float:
    """Least or most of the mean reductions over each baseline: all models, 2048 tokens."""
    runs = [_energy_reductions(model, PREFILL, joint) for model in HARMONIA_MODELS]
    return ENDS[end](fmean(run[name] for run in runs) for name in MACHINES)


@evaluation(ClaimClass.NETLIST)
def harmonia_energy_sweep(end: str, model: str, contexts: list[int]) -> float:
    """Least or most reduction over any baseline at any of these contexts."""
    runs = [_energy_reductions(model, context, joint=True) for context in contexts]
    return ENDS[end](reduction for run in runs for reduction in run.values())


@evaluation(ClaimClass.NETLIST)
def attention_takes_over(over: str, model: str, contexts: list[int]) -> bool:
    """Attention's share of a baseline's time grows with the context, to more than half."""
    shape = resolve_model(model)
    rate, fp16 = (pe_rate(name) / pe_area(name) for name in (over, "fp-fp"))
    shares = []
    for context in contexts:
        products = prefill(shape, 1, context)
        attention = total_macs([p for p in products if p.module == "attention"])
        others = total_macs(products) - attention
        shares.append(attention / fp16 / (attention / fp16 + others / rate))
    return shares == sorted(shares) and shares[-1] > 0.5


@evaluation(ClaimClass.NETLIST)
def harmonia_always_ahead(model: str, contexts: list[int]) -> bool:
    """Whether Harmonia is faster than every baseline at every context."""
    runs = [iso_area_speedups(model, context, joint=True) for context in contexts]
    return all(speedup > 1 for run in runs for speedup in run.values())
