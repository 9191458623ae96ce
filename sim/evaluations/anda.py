"""Figures of the Anda paper: projections of a prefill, beside machines of equal throughput."""

from dataclasses import replace
from functools import cache
from statistics import fmean

from tilewright.golden.params.formats import BlockFormat
from tilewright.sim import accelerator as acc
from tilewright.sim.anda import MODULES, lengths_of_saving, module_shares
from tilewright.sim.calibration import cached
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.elements import pe_area, pe_fj, pe_unit
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.inputs import measured
from tilewright.sim.models import resolve_model
from tilewright.sim.programs import gemm_time, length_of_cycles, projections_time
from tilewright.sim.records import energy_fj
from tilewright.sim.workload import Gemm, attention, linear, total_macs

ANDA_MODELS = (
    *("opt-1.3b", "opt-2.7b", "opt-6.7b", "llama-7b", "llama-2-7b"),
    *("opt-13b", "llama-13b", "llama-2-13b", "opt-30b"),
)
PREFILL = 2048


@cached(64)
def _anda_run(model: str, printed: float) -> tuple[acc.Accelerator, list[acc.GemmTime]]:
    """Traffic by the formula; the array is busy as long as it is in the programs."""
    shape = resolve_model(model)
    machine = acc.anda(lengths_of_saving(shape, printed).lengths)
    times = acc.run(machine, linear(shape, PREFILL))
    return machine, [replace(time, compute=_busy(machine, time.gemm)) for time in times]


def _busy(machine: acc.Accelerator, gemm: Gemm) -> float:
    found = gemm_time(acc.PAPER_ANDA, gemm, length=machine.lengths[gemm.module])
    return measured("anda.cycles", found.times(int(gemm.count)).gemm)


@cache
def _baseline_run(model: str, name: str) -> tuple[acc.Accelerator, list[acc.GemmTime]]:
    machine = acc.baseline(name)
    return machine, acc.run(machine, linear(resolve_model(model), PREFILL))


def _anda_cycles(model: str, printed: float) -> float:
    """Cycles of the programs of all projections."""
    shape = resolve_model(model)
    lengths = lengths_of_saving(shape, printed).lengths
    found = projections_time(acc.PAPER_ANDA, linear(shape, PREFILL), lengths)
    return measured("anda.cycles", found.cycles)


def _baseline_cycles(model: str, name: str) -> float:
    """The same programs where a group takes as long as in the baseline's elements."""
    lengths = dict.fromkeys(MODULES, length_of_cycles(acc.BASELINES[name]))
    shape = resolve_model(model)
    return float(projections_time(acc.PAPER_ANDA, linear(shape, PREFILL), lengths).cycles)


def anda_speedup_bound(model: str, printed: float, over: str = "fp-fp") -> float:
    """The formula beside the programs: both machines without what programs cost."""
    shape = resolve_model(model)
    machine = acc.anda(lengths_of_saving(shape, printed).lengths)
    ours = acc.run(machine, linear(shape, PREFILL))
    theirs = _baseline_run(model, over)[1]
    return sum(time.cycles for time in theirs) / sum(time.cycles for time in ours)


@evaluation(ClaimClass.CONSISTENCY)
def bit_saving(model: str, printed: float) -> float:
    """The nearest saving that whole mantissa lengths can give."""
    return lengths_of_saving(resolve_model(model), printed).saving


@evaluation(ClaimClass.IDENTITY)
def fixed_saving(mantissa: int) -> float:
    """Saving of bit operations with one mantissa length everywhere."""
    return 16 / mantissa


@evaluation(ClaimClass.PREDICTION)
def anda_speedup(savings: list[float], over: str = "fp-fp") -> float:
    """Mean over the nine models, prefill of 2048 tokens, projections only, cycles of programs.

    ``savings`` are the published savings of bit operations, in the order of ``ANDA_MODELS``.
    """
    return fmean(
        _baseline_cycles(model, over) / _anda_cycles(model, printed)
        for model, printed in zip(ANDA_MODELS, savings, strict=True)
    )


@evaluation(ClaimClass.PREDICTION)
def anda_model_speedup(model: str, saving: float) -> float:
    """Speed over the fp16 machine, prefill of 2048 tokens, projections only."""
    return _baseline_cycles(model, "fp-fp") / _anda_cycles(model, saving)


@evaluation(ClaimClass.PREDICTION)
def anda_saved(model: str, saving: float, component: str) -> float:
    """Change of the fp16 machine's energy in buffers or memory, in percent."""
    ours, theirs = (
        acc.energy(*run)[component]
        for run in (_anda_run(model, saving), _baseline_run(model, "fp-fp"))
    )
    return 100 * (ours / theirs - 1)


@evaluation(ClaimClass.IDENTITY)
def anda_group_ratio(long: int, short: int) -> float:
    """Cycles of a group at one mantissa length over those at another."""
    machine = acc.anda()
    return machine.cycles(long) / machine.cycles(short)


@evaluation(ClaimClass.IDENTITY)
def block_bits(group: int, mantissa: int) -> float:
    """Bits of a stored value in block floating point, its share of the exponent included."""
    return BlockFormat(group=group, mantissa_bits=mantissa).group_bits / group


@evaluation(ClaimClass.PREDICTION)
def integer_share(contexts: list[int]) -> float:
    """Mean percent of multiply-adds in the projections, over models and contexts of a prefill."""
    shares = []
    for name in ANDA_MODELS:
        model = resolve_model(name)
        for context in contexts:
            both = (
                total_macs(linear(model, context)),
                total_macs(attention(model, 1, context, context)),
            )
            # A causal model needs half of the square.
            shares.append(100 * both[0] / (both[0] + both[1] / 2))
    return fmean(shares)


ANDA_AREA = {"total": 2.17, "mxu": 0.41, "compressor": 0.07}  # mm2, the paper's Table III


@evaluation(ClaimClass.NETLIST)
def anda_area_efficiency(savings: list[float]) -> float:
    """PEs from the records, everything else as in the paper's Table III."""
    pes = ANDA_AREA["mxu"] * pe_area("fp-fp") / pe_area("anda-m8")
    rest = ANDA_AREA["total"] - ANDA_AREA["mxu"]
    ratio = (rest - ANDA_AREA["compressor"] + pes) / ANDA_AREA["total"]
    return anda_speedup(savings) * ratio


def pe_energy(model: str, saving: float) -> float:
    """Energy of Anda's PEs over that of fp16 ones for a model's projections."""
    shape = resolve_model(model)
    lengths, shares = lengths_of_saving(shape, saving).lengths, module_shares(shape)
    ours = sum(shares[name] * energy_fj(pe_unit("anda"), lengths[name]) for name in MODULES)
    return ours / pe_fj("fp-fp")


def activation_saved(model: str, saving: float) -> float:
    """Change of the bits that activations alone take, in percent."""
    shape = resolve_model(model)
    lengths, shares = lengths_of_saving(shape, saving).lengths, module_shares(shape)
    bits = sum(shares[name] * acc.anda().activation_bits(lengths[name]) for name in MODULES)
    return 100 * (bits / 16 - 1)


def _energy_gain(model: str, saving: float) -> float:
    """The fp16 machine's compute energy is Anda's published one by the ratio of the records."""
    ours, theirs = _anda_run(model, saving), _baseline_run(model, "fp-fp")
    here, there = acc.energy(*ours), acc.energy(*theirs)
    there["compute"] = here["compute"] / pe_energy(model, saving)
    return sum(there.values()) / sum(here.values())


@evaluation(ClaimClass.NETLIST)
def anda_energy_efficiency(savings: list[float]) -> float:
    """Mean energy gain over the fp16 machine, nine models."""
    pairs = zip(ANDA_MODELS, savings, strict=True)
    return fmean(_energy_gain(model, saving) for model, saving in pairs)


@evaluation(ClaimClass.NETLIST)
def anda_model_energy_efficiency(model: str, saving: float) -> float:
    """Energy gain over the fp16 machine, one model."""
    return _energy_gain(model, saving)


@evaluation(ClaimClass.NETLIST)
def anda_compute_saved(model: str, saving: float) -> float:
    """Change of the PEs' energy, in percent."""
    return 100 * (pe_energy(model, saving) - 1)
