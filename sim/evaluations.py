"""How each published figure is computed here; ``docs/claims/*_system.toml`` names these functions.

A function returns a number, a list of two numbers for a range, or a truth value. It raises
:class:`sim.records.NoRecordError` where it needs a synthesis record that is not there.
"""

from collections.abc import Callable
from functools import cache
from statistics import fmean, geometric_mean
from typing import Any, TypeVar

from golden.harmonia.precision import cache_size, element_share
from golden.harmonia.traffic import Dataflow, Product, switch_point
from golden.params.deca import TILE_BYTES, DecaParams
from golden.params.formats import BlockFormat
from golden.params.harmonia import CacheParams, HarmoniaPeParams, Mode
from sim import accelerator as acc
from sim.anda import MODULES, lengths_of_saving, module_shares
from sim.calibration import constant
from sim.models import resolve_model
from sim.records import area_um2, energy_fj
from sim.roofsurface import Surface, explore, kernel, smallest
from sim.scheme import PAPER_SCHEMES, WeightScheme, resolve_weight_scheme
from sim.workload import Gemm, attention, linear, prefill, total_macs
from sim.xeon import (
    ISSUE_WIDTH,
    SYSTEMS,
    GemmTime,
    deca_cycles,
    gemm,
    tile_cost,
    token,
    vector_operations,
)

__all__ = ["EVALUATIONS", "FROM_RECORDS"]

Answer = float | bool | list[float]
EVALUATIONS: dict[str, Callable[..., Answer]] = {}
FROM_RECORDS: set[str] = set()  # those whose answer follows the synthesis records

HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]
TABLE6_CONTEXT = 128 + 128 // 2  # 128 tokens of input, and half of the 128 of output on average
TABLE6_MODELS = ("llama-2-70b", "opt-66b")
# One of the fully connected layers of the paper's Section 7: about 250 million weights.
LAYER_INNER, LAYER_OUTER = 8192, 30720


F = TypeVar("F", bound=Callable[..., Answer])


def evaluation(function: F) -> F:
    EVALUATIONS[function.__name__] = function
    return function


def evaluation_of_records(function: F) -> F:
    FROM_RECORDS.add(function.__name__)
    return evaluation(function)


# --- DECA: the Xeon


def _layer(system: str, engine: str, scheme: str, rows: int) -> GemmTime:
    product = Gemm(name="fc", module="other", rows=rows, inner=LAYER_INNER, outer=LAYER_OUTER)
    return gemm(SYSTEMS[system], engine, resolve_weight_scheme(scheme), product)


def _speedup(system: str, scheme: str, rows: int, fast: str, slow: str) -> float:
    times = [_layer(system, engine, scheme, rows).seconds for engine in (slow, fast)]
    return times[0] / times[1]


def _schemes() -> list[WeightScheme]:
    return [resolve_weight_scheme(name) for name in PAPER_SCHEMES]


@evaluation
def cycles_per_tile(scheme: str, lanes: int = 32, luts: int = 8) -> float:
    return deca_cycles(DecaParams(lanes=lanes, luts=luts), resolve_weight_scheme(scheme))


@evaluation
def compression_factor(scheme: str) -> float:
    """Bytes of a dense tile over those of a compressed one."""
    return TILE_BYTES / resolve_weight_scheme(scheme).tile_bytes


@evaluation
def gemm_share(system: str, batch: int, context: int) -> float:
    """Percent of the next-token time in the projections, uncompressed Llama-2-70B."""
    model, plain = resolve_model("llama-2-70b"), resolve_weight_scheme("bf16")
    time = token(SYSTEMS[system], "software", plain, model, batch, context)
    return 100 * time.gemm_seconds / time.seconds


def _table2(bandwidth: str) -> Surface:
    return Surface.of_cores(HBM, constant(bandwidth) * 1e9)


@evaluation
def roofline(scheme: str) -> float:
    point = kernel(resolve_weight_scheme(scheme), 16)
    return float(_table2("table2_bandwidth").roofline(point.memory, 16)) / 1e12


@evaluation
def roof_surface(scheme: str) -> float:
    point = kernel(resolve_weight_scheme(scheme), 16)
    return float(_table2("table2_bandwidth").fma(point.memory, point.vector, 16)) / 1e12


@evaluation
def software_rate(scheme: str) -> float:
    return _layer("spr-hbm", "software", scheme, 16).tera_fma


@evaluation
def utilisation(engine: str, scheme: str, resource: str) -> float:
    """Percent of the time of one layer, its start and end included."""
    time = _layer("spr-hbm", engine, scheme, 1)
    tiles = LAYER_INNER * LAYER_OUTER / 512 / HBM.cores
    busy: float = getattr(time.tile, resource)
    return 100 * tiles * busy / (time.seconds * HBM.clock)


def _prefetching(prefetch: str, degree: int) -> tuple[float, float]:
    """Rate of MXFP4 with 4 rows, and share of tiles that missed the L2."""
    from sim.core import CoreModel, simulate

    scheme = resolve_weight_scheme("mxfp4")
    core = CoreModel(
        tile_bytes=scheme.tile_bytes,
        tile_cycles=deca_cycles(DecaParams(), scheme),
        matrix_cycles=16,
        bytes_per_cycle=HBM.bytes_per_cycle(HBM.cores),
        prefetch=prefetch,  # type: ignore[arg-type]
        degree=degree,
    )
    found = simulate(core)
    tiles = LAYER_INNER * LAYER_OUTER / 512 / HBM.cores
    seconds = tiles * found.cycles / HBM.clock + constant("sync_us") * 1e-6
    return 4 * LAYER_INNER * LAYER_OUTER / seconds / 1e12, found.missed


@evaluation
def prefetch_rate(prefetch: str, degree: int = 0) -> float:
    return _prefetching(prefetch, degree)[0]


@evaluation
def prefetch_misses(prefetch: str, degree: int = 0, lines: float = 90) -> float:
    """Million lines that missed, of the 90 million that the run reads."""
    return lines * _prefetching(prefetch, degree)[1]


@evaluation
def prefetch_order() -> bool:
    """None, degree 1, the L2's own, degree 15, degree 5: from slow to fast."""
    rates = [
        _prefetching(kind, degree)[0]
        for kind, degree in (("none", 0), ("deca", 1), ("l2", 0), ("deca", 15), ("deca", 5))
    ]
    return rates == sorted(rates)


@evaluation
def next_token_ms(model: str, batch: int, scheme: str, engine: str) -> float:
    time = token(
        HBM, engine, resolve_weight_scheme(scheme), resolve_model(model), batch, TABLE6_CONTEXT
    )
    return 1e3 * time.seconds


@evaluation
def next_token_gain(over: str, batches: list[int]) -> list[float]:
    """Smallest and largest gain of DECA, over models, batches and both schemes."""
    gains = []
    for model in TABLE6_MODELS:
        for batch in batches:
            for scheme in ("mxfp4", "bf8_30%"):
                slow = scheme if over == "software" else "bf16"
                before = next_token_ms(model, batch, slow, "software")
                gains.append(before / next_token_ms(model, batch, scheme, "deca"))
    return [min(gains), max(gains)]


@evaluation
def mxfp4_useless_at_64() -> bool:
    """Without DECA, MXFP4 gains less than 10% at batch 64."""
    slow, fast = (next_token_ms("llama-2-70b", 64, s, "software") for s in ("bf16", "mxfp4"))
    return bool(slow / fast < 1.1)


@evaluation
def batch_scaling(batches: list[int]) -> float:
    """Next-token time of the largest batch over that of the smallest, uncompressed."""
    times = [next_token_ms("llama-2-70b", batch, "bf16", "software") for batch in batches]
    return times[-1] / times[0]


@evaluation
def latency_over_gpu(published_ms: float) -> float:
    return next_token_ms("llama-2-70b", 1, "mxfp4", "deca") / published_ms


@evaluation
def gemm_speedup(system: str, scheme: str, rows: int = 1) -> float:
    return _speedup(system, scheme, rows, "deca", "software")


@evaluation
def gemm_speedup_only(system: str, schemes: list[str], least: float = 1.05) -> bool:
    """Exactly these schemes gain more than ``least`` from DECA at one row."""
    gains = {s for s in PAPER_SCHEMES if _speedup(system, s, 1, "deca", "software") > least}
    return gains == set(schemes)


@evaluation
def gemm_speedup_count(system: str, least: float = 1.05) -> float:
    """How many of the twelve schemes gain more than ``least``."""
    return float(sum(_speedup(system, s, 1, "deca", "software") > least for s in PAPER_SCHEMES))


@evaluation
def near_optimal() -> float:
    """Mean speed of DECA as a share of the optimum, both memories, one row."""
    return fmean(_speedup(m, s, 1, "deca", "optimal") for m in SYSTEMS for s in PAPER_SCHEMES)


@evaluation
def near_same_to_16() -> float:
    """Largest change of DECA's gain over software between 1 and 16 rows, as a ratio."""
    ratios = [
        _speedup("spr-hbm", s, 16, "deca", "software")
        / _speedup("spr-hbm", s, 1, "deca", "software")
        for s in PAPER_SCHEMES
    ]
    return max(max(ratios), 1 / min(ratios))


@evaluation
def cores_needed() -> float:
    """Fewest DECA cores whose mean rate over all schemes beats 56 plain ones; DDR, 4 rows."""

    def mean_rate(engine: str, cores: int) -> float:
        rates = [cores / tile_cost(DDR, engine, s, 4, cores=cores).cycles for s in _schemes()]
        return fmean(rates)

    plain = mean_rate("software", DDR.cores)
    return float(next(n for n in range(1, 57) if mean_rate("deca", n) > plain))


@evaluation
def scaled_vectors_gain(engine: str) -> float:
    """DECA over a core with scaled vector hardware, Q8 at 5%, HBM, one row."""
    return _speedup("spr-hbm", "bf8_5%", 1, "deca", engine)


def _ablation(scheme: str) -> list[float]:
    """Cycles of a tile as integration features come one by one; HBM, 4 rows."""
    steps: list[dict[str, Any]] = [
        {"tepl": False, "tout": False, "through_l2": False, "prefetch": "none"},
        {"tepl": False, "tout": False, "prefetch": "l2"},
        {"tepl": False, "tout": False},
        {"tepl": False},
        {},
    ]
    found = resolve_weight_scheme(scheme)
    return [tile_cost(HBM, "deca", found, 4, **step).cycles for step in steps]


ABLATION_SCHEMES = ("bf8", "bf8_50%", "bf8_20%", "bf8_5%")


@evaluation
def ablation_gain(scheme: str, step: int) -> float:
    cycles = _ablation(scheme)
    return cycles[step - 1] / cycles[step]


@evaluation
def ablation_reads_l2_helps() -> bool:
    return all(_ablation(s)[0] > _ablation(s)[1] for s in ABLATION_SCHEMES)


@evaluation
def ablation_grows_with_sparsity() -> bool:
    """The gain of TOut registers and TEPL together never falls as density does."""
    gains = [_ablation(s)[2] / _ablation(s)[4] for s in ABLATION_SCHEMES]
    return gains == sorted(gains)


@evaluation
def roofline_gap(scheme: str) -> float:
    """Roofline over software at 16 rows."""
    best = 512 * 16 * HBM.matrix_rate / 1e12
    return min(best, _layer("spr-hbm", "optimal", scheme, 16).tera_fma) / software_rate(scheme)


@evaluation
def observed_below_roofline(system: str, schemes: list[str], most: float = 0.95) -> bool:
    """Exactly these schemes run below ``most`` of their roofline in software, 16 rows."""
    below = {
        s
        for s in ("mxfp4", *(s for s in PAPER_SCHEMES if s.startswith("bf8")))
        if 1 / _speedup(system, s, 16, "optimal", "software") < most
    }
    return below == set(schemes)


@evaluation
def bound(system: str, scheme: str, region: str, vectors: float = 1, rows: int = 16) -> bool:
    surface = Surface.of_cores(SYSTEMS[system]).scaled(vector=vectors)
    return surface.bound(kernel(resolve_weight_scheme(scheme), rows)) == region


@evaluation
def vector_bound_schemes(system: str, vectors: float = 1, rows: int = 16) -> float:
    """How many of the twelve kernels are vector-bound in software."""
    surface = Surface.of_cores(SYSTEMS[system]).scaled(vector=vectors)
    return float(sum(surface.bound(kernel(s, rows)) == "VEC" for s in _schemes()))


@evaluation
def vector_bound_are(system: str, schemes: list[str]) -> bool:
    surface = Surface.of_cores(SYSTEMS[system])
    return {s.name for s in _schemes() if surface.bound(kernel(s, 16)) == "VEC"} == set(schemes)


@evaluation
def commit_slots() -> list[float]:
    """Percent of issue slots that software uses, smallest and largest over the schemes."""
    shares = []
    for scheme in _schemes():
        instructions = vector_operations(scheme) * constant("instructions_per_vector_op")
        cycles = tile_cost(HBM, "software", scheme, 16).cycles
        shares.append(100 * instructions / (ISSUE_WIDTH * cycles))
    return [min(shares), max(shares)]


@evaluation
def smallest_design() -> list[float]:
    best = smallest(explore(HBM, _schemes()))
    return [float(best.lanes), float(best.luts)]


@evaluation
def design_gain(fast: list[int], slow: list[int]) -> float:
    """Geometric mean of one DECA size over another, all schemes; HBM, one row."""
    sizes = [DecaParams(lanes=lanes, luts=luts) for lanes, luts in (slow, fast)]
    ratios = []
    for scheme in _schemes():
        cycles = [tile_cost(HBM, "deca", scheme, 1, params=size).cycles for size in sizes]
        ratios.append(cycles[0] / cycles[1])
    return geometric_mean(ratios)


@evaluation
def peak_tera_fma() -> float:
    return 512 * 16 * HBM.matrix_rate / 1e12


@evaluation_of_records
def deca_area_mm2() -> float:
    """56 processing elements from the synthesis record at 7 nm, made for speed: 2.5 GHz."""
    return 56 * area_um2("deca", "fastest") / 1e6


# --- SparAMX


@evaluation
def sparse_token_gain(model: str, scheme: str, batch: int, context: int) -> float:
    """Next token with plain bf16 over that with sparse weights, both in software; DDR."""
    shape = resolve_model(model)
    dense, sparse = (
        token(DDR, "software", resolve_weight_scheme(name), shape, batch, context).seconds
        for name in ("bf16", scheme)
    )
    return dense / sparse


@evaluation
def sparse_gain_grows(model: str) -> bool:
    """The sparser, the faster."""
    names = ("bf16_90%", "bf16_70%", "bf16_50%", "bf16_30%")
    gains = [sparse_token_gain(model, name, 1, 512) for name in names]
    return gains == sorted(gains)


# --- Anda

ANDA_MODELS = (
    *("opt-1.3b", "opt-2.7b", "opt-6.7b", "llama-7b", "llama-2-7b"),
    *("opt-13b", "llama-13b", "llama-2-13b", "opt-30b"),
)
PREFILL = 2048


@cache
def _anda_run(model: str, printed: float) -> tuple[acc.Accelerator, list[acc.ProductTime]]:
    shape = resolve_model(model)
    machine = acc.anda(lengths_of_saving(shape, printed).lengths)
    return machine, acc.run(machine, linear(shape, PREFILL))


@cache
def _baseline_run(model: str, name: str) -> tuple[acc.Accelerator, list[acc.ProductTime]]:
    machine = acc.baseline(name)
    return machine, acc.run(machine, linear(resolve_model(model), PREFILL))


def _cycles(times: list[acc.ProductTime]) -> float:
    return sum(time.cycles for time in times)


@evaluation
def bit_saving(model: str, printed: float) -> float:
    """The nearest saving that whole mantissa lengths can give."""
    return lengths_of_saving(resolve_model(model), printed).saving


@evaluation
def fixed_saving(mantissa: int) -> float:
    return 16 / mantissa


@evaluation
def anda_speedup(savings: list[float], over: str = "fp-fp") -> float:
    """Mean over the nine models, prefill of 2048 tokens, projections only.

    ``savings`` are the published savings of bit operations, in the order of ``ANDA_MODELS``.
    """
    return fmean(
        _cycles(_baseline_run(model, over)[1]) / _cycles(_anda_run(model, printed)[1])
        for model, printed in zip(ANDA_MODELS, savings, strict=True)
    )


@evaluation
def anda_model_speedup(model: str, saving: float) -> float:
    return _cycles(_baseline_run(model, "fp-fp")[1]) / _cycles(_anda_run(model, saving)[1])


@evaluation
def anda_saved(model: str, saving: float, component: str) -> float:
    """Change of the fp16 machine's energy in buffers or memory, in percent."""
    ours, theirs = (
        acc.energy(*run)[component]
        for run in (_anda_run(model, saving), _baseline_run(model, "fp-fp"))
    )
    return 100 * (ours / theirs - 1)


@evaluation
def anda_group_ratio(long: int, short: int) -> float:
    machine = acc.anda()
    return machine.cycles(long) / machine.cycles(short)


@evaluation
def block_bits(group: int, mantissa: int) -> float:
    return BlockFormat(group=group, mantissa_bits=mantissa).group_bits / group


@evaluation
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


# Units of the records that stand for an element: fp16 multipliers and adders that round one by one,
# and Anda's unit as it is in the array, whose weights wait outside.
FP16_ELEMENT, ANDA_ELEMENT = "pe_fp_fp__form_discrete", "anda_apu__buffered_false"
ANDA_AREA = {"total": 2.17, "mxu": 0.41, "compressor": 0.07}  # mm2, the paper's Table III


@evaluation_of_records
def anda_area_efficiency(savings: list[float]) -> float:
    """Elements from the records, everything else as in the paper's Table III."""
    elements = ANDA_AREA["mxu"] * area_um2(FP16_ELEMENT) / area_um2(ANDA_ELEMENT)
    rest = ANDA_AREA["total"] - ANDA_AREA["mxu"]
    ratio = (rest - ANDA_AREA["compressor"] + elements) / ANDA_AREA["total"]
    return anda_speedup(savings) * ratio


def _element_energy(model: str, saving: float) -> float:
    """Energy of Anda's elements over that of fp16 ones for a model's projections."""
    shape = resolve_model(model)
    lengths, shares = lengths_of_saving(shape, saving).lengths, module_shares(shape)
    ours = sum(shares[name] * energy_fj(ANDA_ELEMENT, lengths[name]) for name in MODULES)
    return ours / energy_fj(FP16_ELEMENT)


def _energy_gain(model: str, saving: float) -> float:
    """The fp16 machine's compute energy is Anda's published one by the ratio of the records."""
    ours, theirs = _anda_run(model, saving), _baseline_run(model, "fp-fp")
    here, there = acc.energy(*ours), acc.energy(*theirs)
    there["compute"] = here["compute"] / _element_energy(model, saving)
    return sum(there.values()) / sum(here.values())


@evaluation_of_records
def anda_energy_efficiency(savings: list[float]) -> float:
    pairs = zip(ANDA_MODELS, savings, strict=True)
    return fmean(_energy_gain(model, saving) for model, saving in pairs)


@evaluation_of_records
def anda_model_energy_efficiency(model: str, saving: float) -> float:
    return _energy_gain(model, saving)


@evaluation_of_records
def anda_compute_saved(model: str, saving: float) -> float:
    """Change of the elements' energy, in percent."""
    return 100 * (_element_energy(model, saving) - 1)


@evaluation_of_records
def element_area_ratio(element: str, over: str) -> float:
    return area_um2(element) / area_um2(over)


# --- Harmonia

HARMONIA_MODELS = (
    *("llama-3.2-1b", "llama-3.2-3b", "mistral-7b", "llama-3.1-8b", "llama-2-13b"),
    *("llama-7b", "llama-2-7b", "opt-6.7b"),
)
LANES = 4  # multiply-adds a cycle of an element of ``hw/pe``
# Baseline -> synthesised unit and its multiply-adds a cycle.
ISO_AREA = {
    "fp-fp": (FP16_ELEMENT, LANES),
    "fp-int": ("pe_fp_int", LANES),
    "ifpu": ("pe_ifpu", LANES),
    "figna": ("pe_figna", LANES),
    "figna-m11": ("pe_figna__mantissa_bits_11", LANES),
    "figna-m8": ("pe_figna__mantissa_bits_8", LANES),
    "anda-m8": (ANDA_ELEMENT, 64 / 9),
    "anda-m6": (ANDA_ELEMENT, 64 / 7),
    "anda-m4": (ANDA_ELEMENT, 64 / 5),
}


@evaluation
def harmonia_peak(mode: str) -> float:
    """Multiply-adds a cycle of the array."""
    rows, columns = acc.HARMONIA_ARRAY
    return float(rows * columns * HarmoniaPeParams().macs_per_cycle(Mode(mode)))


@evaluation
def harmonia_efficiency(mode: str) -> float:
    """GOPS per watt, two operations a multiply-add, with the paper's power."""
    return 2 * harmonia_peak(mode) * acc.HARMONIA_CLOCK / 1e9 / acc.HARMONIA_WATTS


@evaluation
def cache_reduction(tokens: int, width: int) -> float:
    return cache_size(CacheParams(), tokens, width).reduction


@evaluation
def cache_saved(mantissa: int) -> float:
    """Percent, sign and mantissa alone."""
    return 100 * (1 - element_share(mantissa))


@evaluation
def traffic_switch(columns: int, tile_rows: int, tile_columns: int) -> bool:
    """Row-major moves fewer elements just below the switch, column-major just above."""
    at = int(switch_point(columns, tile_rows, tile_columns))
    below, above = (
        Product(m, 4096, columns, tile_rows, tile_columns).better
        for m in (at // tile_rows * tile_rows - tile_rows, at // tile_rows * tile_rows + tile_rows)
    )
    return below is Dataflow.ROW_MAJOR and above is Dataflow.COLUMN_MAJOR


def _iso_area_speedups(model: str, context: int, joint: bool) -> dict[str, float]:
    """Harmonia over each baseline whose elements fill the same area.

    Projections, and with ``joint`` attention too; for that a baseline has fp16 elements beside its
    own, as many as the fp16 machine, whose area is not counted against it.
    """
    shape = resolve_model(model)
    per_area = {name: rate / area_um2(unit) for name, (unit, rate) in ISO_AREA.items()}
    area = area_um2("harmonia_pe")
    machine = acc.harmonia()
    products = prefill(shape, 1, context)
    macs = {
        kind: total_macs([p for p in products if (p.module == "attention") == kind])
        for kind in (False, True)
    }
    peak = float(HarmoniaPeParams().macs_per_cycle(Mode.M8W4))
    array = machine.rows * machine.columns
    ours = macs[False] / peak
    if joint:
        ours += macs[True] / (machine.attention_rate(context) / array)
    fp16 = area * per_area["fp-fp"]
    speedups = {}
    for name, rate in per_area.items():
        theirs = macs[False] / (area * rate) + (macs[True] / fp16 if joint else 0.0)
        speedups[name] = theirs / ours
    return speedups


@evaluation_of_records
def harmonia_speedups(contexts: list[int], models: list[str] | None = None) -> list[float]:
    """Smallest and largest mean speedup over the baselines, projections and attention."""
    runs = [
        _iso_area_speedups(model, context, joint=True)
        for model in (models or HARMONIA_MODELS)
        for context in contexts
    ]
    means = [fmean(run[name] for run in runs) for name in ISO_AREA]
    return [min(means), max(means)]


@evaluation_of_records
def harmonia_linear_speedup() -> float:
    """Largest speedup in projections alone."""
    return max(_iso_area_speedups("llama-2-13b", PREFILL, joint=False).values())


@evaluation_of_records
def harmonia_element_efficiency() -> list[float]:
    """Smallest and largest area efficiency of an element over the baselines'."""
    own = float(HarmoniaPeParams().macs_per_cycle(Mode.M8W4)) / area_um2("harmonia_pe")
    ratios = [own / (rate / area_um2(unit)) for unit, rate in ISO_AREA.values()]
    return [min(ratios), max(ratios)]
