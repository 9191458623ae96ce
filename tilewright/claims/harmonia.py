"""Figures of the Harmonia paper: peaks, machines of equal area and their energy."""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import fmean

from tilewright.claims import IDENTITY, NETLIST, answers
from tilewright.claims.anda import PREFILL
from tilewright.compiler.count import ProgramTime
from tilewright.golden.params.arith import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS, Mode
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.sim import accelerator as acc
from tilewright.sim.calibration import chosen
from tilewright.sim.models import resolve_model
from tilewright.sim.pe_units import pe_area, pe_fj, pe_rate, pe_ratio
from tilewright.sim.programs import projections_time, slower_array
from tilewright.sim.records import area_um2, read_record
from tilewright.sim.step_programs import attention_time
from tilewright.sim.workload import prefill, total_macs

HARMONIA_MODELS = (
    *("llama-3.2-1b", "llama-3.2-3b", "mistral-7b", "llama-3.1-8b", "llama-2-13b"),
    *("llama-7b", "llama-2-7b", "opt-6.7b"),
)
# PEs that the paper's Figure 17 compares with.
PES = ("fp-fp", "fp-int", "figna", "figna-c", "anda-m8", "anda-m6", "anda-m4")
ANDA_LENGTHS = {"anda-m8": 8, "anda-m6": 6, "anda-m4": 4}
# Whole machines: Anda at the whole length next to its mean at 1% loss.
MACHINES = ("fp-fp", "fp-int", "figna", "figna-c", "anda-m6")


@answers(NETLIST)
def unit_area_ratio(unit: str, over: str) -> float:
    """Area of one unit of the records, which is no PE, over that of another."""
    return _unit_area(unit) / _unit_area(over)


def _unit_area(unit: str) -> float:
    logic = chosen("logic")
    memory = read_record("synthesis", unit)["metrics"]["memory_area"]["value"] if logic else 0.0
    return area_um2(unit) - float(memory)


@answers(IDENTITY)
def cache_share() -> float:
    """Percent of fp16 that a sign and a mantissa of an old token take."""
    return 100 * (1 + HarmoniaParams().cache.key_bits[1]) / FP16.bits


def harmonia_peak(mode: str) -> float:
    """Multiply-adds a cycle of the array."""
    array = acc.PAPER_HARMONIA
    return array.rows * array.columns * acc.harmonia_rate(Mode(mode))


def iso_area_speedups(model: str, context: int, joint: bool) -> dict[str, float]:
    """Harmonia over each baseline whose PEs fill the same area, by the cycles of programs.

    Projections, and with ``joint`` attention too; for that a baseline also has as many fp16 PEs
    as the fp16 machine, whose area is not counted against it. A baseline is the same machine, with
    the same programs, except for its array, which takes longer as its PEs do fewer multiply-adds
    in the area at their peak.
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
    shape, params = resolve_model(model), HarmoniaParams()
    products = [p for p in prefill(shape, 1, context) if p.module != "attention"]
    lengths = dict.fromkeys((p.module for p in products), ACTIVATION_BITS)
    attention = attention_time(params, shape, context).times(shape.num_hidden_layers)
    return projections_time(params, products, lengths), attention


@answers(NETLIST)
def harmonia_gain(end: str, of: str, joint: bool) -> float:
    """Least, most or mean of the mean gains over each baseline: all models, 2048 tokens."""
    return ENDS[end](_mean_gains(of, joint).values())


def _mean_gains(of: str, joint: bool) -> dict[str, float]:
    runs = [GAINS[of](model, PREFILL, joint) for model in HARMONIA_MODELS]
    return {name: fmean(run[name] for run in runs) for name in MACHINES}


@answers(NETLIST)
def harmonia_sweep(end: str, of: str, model: str, contexts: Iterable[int]) -> float:
    """Least or most gain over any baseline at any of these contexts."""
    runs = [GAINS[of](model, context, True) for context in contexts]
    return ENDS[end](gain for run in runs for gain in run.values())


@answers(NETLIST)
def harmonia_area_efficiency(end: str) -> float:
    """Speed per area of PEs: the speedup, as the PEs of all machines take the same area.

    A baseline computes attention on fp16 PEs of its own; whether these count is an open choice.
    """
    more = 2.0 if chosen("attention") else 1.0
    found = _mean_gains("speed", True).items()
    return ENDS[end](gain * (1.0 if name == "fp-fp" else more) for name, gain in found)


@answers(NETLIST)
def harmonia_linear_speedup() -> float:
    """Speed over the fp16 machine of equal area, projections alone."""
    return iso_area_speedups("llama-2-13b", PREFILL, joint=False)["fp-fp"]


@answers(NETLIST)
def harmonia_pe_gain(end: str, quantity: str) -> float:
    """Least or most area or energy efficiency of a PE in M8W4 over the baselines'."""
    return ENDS[end](pe_ratio(quantity, "harmonia-m8w4", name) for name in PES)


def _baseline(name: str) -> acc.Accelerator:
    if name in ANDA_LENGTHS:
        return acc.anda(dict.fromkeys(acc.anda().lengths, ANDA_LENGTHS[name]))
    # Activations are fp16 in both, so that buffers and memory cost the same.
    return acc.baseline("figna" if name == "figna-c" else name)


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


GAINS = {"speed": iso_area_speedups, "energy": _energy_reductions}
ENDS: dict[str, Callable[[Iterable[float]], float]] = {"least": min, "most": max, "mean": fmean}


@answers(NETLIST)
def attention_takes_over(over: str, model: str, contexts: tuple[int, ...]) -> bool:
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


@answers(NETLIST)
def harmonia_always_ahead(model: str, contexts: tuple[int, ...]) -> bool:
    """Whether Harmonia is faster than every baseline at every context."""
    runs = [iso_area_speedups(model, context, joint=True) for context in contexts]
    return all(speedup > 1 for run in runs for speedup in run.values())
