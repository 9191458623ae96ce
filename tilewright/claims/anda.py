"""Figures of the Anda paper: projections of a prefill, against machines of equal throughput."""

from dataclasses import replace
from functools import cache
from itertools import product
from statistics import fmean

from tilewright.claims import NETLIST, PREDICTION, answers, find_claim
from tilewright.sim import accelerator as acc
from tilewright.sim.calibration import cached, chosen, measured
from tilewright.sim.length_search import MODULES, lengths_of_saving, module_shares
from tilewright.sim.models import resolve_model
from tilewright.sim.pe_units import anda_fj, pe_fj, pe_ratio
from tilewright.sim.programs import gemm_time, length_of_cycles, projections_time
from tilewright.sim.records import read_record
from tilewright.sim.workload import Gemm, attention, linear, total_macs

ANDA_MODELS = (
    *("opt-1.3b", "opt-2.7b", "opt-6.7b", "llama-7b", "llama-2-7b"),
    *("opt-13b", "llama-13b", "llama-2-13b", "opt-30b"),
)
PREFILL = 2048


answers(NETLIST)(pe_ratio)


@cache
def _lengths(model: str, loss: str) -> tuple[int, ...]:
    """Mantissas by module, from the published saving of bit operations on WikiText2."""
    printed = find_claim(f"anda.table2.bops.wikitext2.{loss}.{model}").number
    found = lengths_of_saving(resolve_model(model), printed)
    return tuple(found[name] for name in MODULES)


@cached(64)
def _anda_energy(model: str, lengths: tuple[int, ...]) -> dict[str, float]:
    """Traffic by the formula; the array is busy as long as it is in the programs."""
    machine = acc.anda(dict(zip(MODULES, lengths, strict=True)))
    times = []
    for time in acc.run(machine, linear(resolve_model(model), PREFILL)):
        busy = _busy_in_programs(time.gemm, machine.lengths[time.gemm.module])
        times.append(replace(time, compute=measured("anda.cycles", busy)))
    return acc.energy(machine, times)


@cache
def _busy_in_programs(gemm: Gemm, length: int) -> float:
    return gemm_time(acc.PAPER_ANDA, gemm, length=length).times(int(gemm.count)).gemm


@cache
def _fp16_energy(model: str) -> dict[str, float]:
    machine = acc.baseline("fp-fp")
    return acc.energy(machine, acc.run(machine, linear(resolve_model(model), PREFILL)))


@cache
def _cycles_of_programs(model: str, lengths: tuple[int, ...]) -> float:
    by_module = dict(zip(MODULES, lengths, strict=True))
    products = linear(resolve_model(model), PREFILL)
    return float(projections_time(acc.PAPER_ANDA, products, by_module).cycles)


@answers(PREDICTION)
def anda_model_speedup(model: str, loss: str, over: str = "fp-fp") -> float:
    """Speed over another machine, prefill of 2048 tokens, projections only, cycles of programs.

    The other has the same programs where a group takes as long as in its elements.
    """
    theirs = (length_of_cycles(acc.BASELINES[over]),) * len(MODULES)
    ours = measured("anda.cycles", _cycles_of_programs(model, _lengths(model, loss)))
    return _cycles_of_programs(model, theirs) / ours


@answers(PREDICTION)
def anda_speedup(loss: str, over: str) -> float:
    """Mean over the nine models."""
    return fmean(anda_model_speedup(model, loss, over) for model in ANDA_MODELS)


@answers(PREDICTION)
def anda_saved(model: str, loss: str, component: str) -> float:
    """Change of the fp16 machine's energy in buffers or memory, in percent."""
    ours, theirs = _anda_energy(model, _lengths(model, loss)), _fp16_energy(model)
    return 100 * (ours[component] / theirs[component] - 1)


@answers(PREDICTION)
def integer_share(contexts: tuple[int, ...]) -> float:
    """Mean percent of multiply-adds in the projections, over models and contexts of a prefill."""
    shares = []
    for model, context in product(map(resolve_model, ANDA_MODELS), contexts):
        projections = total_macs(linear(model, context))
        # A causal model needs half of the square.
        attending = total_macs(attention(model, 1, context, context)) / 2
        shares.append(100 * projections / (projections + attending))
    return fmean(shares)


ANDA_AREA = {"total": 2.17, "mxu": 0.41, "compressor": 0.07}  # mm2, the paper's Table III


@answers(NETLIST)
def anda_area_efficiency(loss: str) -> float:
    """PEs from the records, everything else as in the paper's Table III.

    The paper's area efficiency is its speedup times 1.62 at both losses, which is the ratio of two
    arrays: that boundary is an open choice.
    """
    speed = anda_speedup(loss, "fp-fp")
    if chosen("array"):
        return speed * pe_ratio("area", "fp-fp", "anda-m8")
    pes = ANDA_AREA["mxu"] * pe_ratio("area", "fp-fp", "anda-m8")
    rest = ANDA_AREA["total"] - ANDA_AREA["mxu"]
    ratio = (rest - ANDA_AREA["compressor"] + pes) / ANDA_AREA["total"]
    return speed * ratio


def pe_energy(model: str, loss: str) -> float:
    """Energy of Anda's PEs over that of fp16 ones for a model's projections."""
    shares = module_shares(resolve_model(model))
    lengths = zip(MODULES, _lengths(model, loss), strict=True)
    return sum(shares[name] * anda_fj(length) for name, length in lengths) / pe_fj("fp-fp")


@answers(NETLIST)
def anda_model_energy_efficiency(model: str, loss: str) -> float:
    """Energy gain over the fp16 machine, one model.

    That machine's compute energy is Anda's published one by the ratio of the records.
    """
    ours = _anda_energy(model, _lengths(model, loss))
    theirs = _fp16_energy(model) | {"compute": ours["compute"] / pe_energy(model, loss)}
    return sum(theirs.values()) / sum(ours.values())


@answers(NETLIST)
def anda_energy_efficiency(loss: str) -> float:
    """Mean energy gain over the fp16 machine, nine models."""
    return fmean(anda_model_energy_efficiency(model, loss) for model in ANDA_MODELS)


@answers(NETLIST)
def anda_compute_saved(model: str, loss: str) -> float:
    """Change of the PEs' energy, in percent."""
    return 100 * (pe_energy(model, loss) - 1)


# Modules of the accelerator by the rows of the paper's Table III.
ROWS = {
    "mxu": ("matrix", "matrix_feeder"),
    "bpc": ("collector",),
    "vector": ("vector", "vector_feeder", "vector_writer"),
    "actbuf": ("activations",),
    "wbuf": ("weights",),
    "others": ("", "controller", "fetcher", "loader", "registers", "storer", "watchdog"),
}


def anda_areas() -> dict[str, float]:
    """Square micrometres of the Anda accelerator, by the rows of the paper's table."""
    parts = read_record("system", "anda")["parts"]
    areas = {name: sizes["logic"] + sizes["memory"] for name, sizes in parts.items()}
    known = {name for names in ROWS.values() for name in names}
    if set(areas) != known:
        raise ValueError(f"no row of the table for {', '.join(sorted(set(areas) ^ known))}")
    return {row: sum(areas[name] for name in names) for row, names in ROWS.items()}


@answers(NETLIST)
def anda_area_share(row: str) -> float:
    """Percent of the accelerator's area."""
    areas = anda_areas()
    return 100 * areas[row] / sum(areas.values())
