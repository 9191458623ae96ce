"""Figures of the DECA paper: the Xeon, its Roof-Surface and a DECA beside every core."""

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean, geometric_mean

from tilewright.golden.params.deca import TILE_BYTES, DecaParams
from tilewright.sim.calibration import constant
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.deca_stream import Integration, Prefetch, tile_rate
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.models import resolve_model
from tilewright.sim.records import area_um2, deca_power_mw, deca_rate
from tilewright.sim.roofsurface import Surface, explore, kernel
from tilewright.sim.scheme import PAPER_SCHEMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.server import run_steps
from tilewright.sim.workload import Batch, Gemm, Pass
from tilewright.sim.xeon import (
    ISSUE_WIDTH,
    MATRIX_CYCLES,
    SYSTEMS,
    GemmTime,
    deca_cycles,
    gemm,
    tile_cost,
    vector_operations,
)

PAPER_SYSTEMS = ("spr-ddr", "spr-hbm")
HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]
TABLE6_CONTEXT = 128 + 128 // 2  # 128 tokens of input, and half of the 128 of output on average
TABLE6_MODELS = ("llama-2-70b", "opt-66b")
# One of the fully connected layers of the paper's Section 7: about 250 million weights.
LAYER_INNER, LAYER_OUTER = 8192, 30720
_PREFETCHING = [DecaParams()]  # of which the last one prefetches


def _layer(system: str, engine: str, scheme: str, rows: int) -> GemmTime:
    product = Gemm(name="fc", module="other", rows=rows, inner=LAYER_INNER, outer=LAYER_OUTER)
    return gemm(SYSTEMS[system], engine, resolve_weight_scheme(scheme), product)


def _speedup(system: str, scheme: str, rows: int, fast: str, slow: str) -> float:
    times = [_layer(system, engine, scheme, rows).seconds for engine in (slow, fast)]
    return times[0] / times[1]


def _schemes() -> list[WeightScheme]:
    return [resolve_weight_scheme(name) for name in PAPER_SCHEMES]


@evaluation(ClaimClass.IDENTITY)
def cycles_per_tile(scheme: str, lanes: int = 32, luts: int = 8) -> float:
    """Mean cycles of a tile in the vector pipeline."""
    return deca_cycles(DecaParams(lanes=lanes, luts=luts), resolve_weight_scheme(scheme))


@evaluation(ClaimClass.IDENTITY)
def compression_factor(scheme: str) -> float:
    """Bytes of a dense tile over those of a compressed one."""
    return TILE_BYTES / resolve_weight_scheme(scheme).tile_bytes


@evaluation(ClaimClass.PREDICTION)
def gemm_share(system: str, batch: int, context: int) -> float:
    """Percent of the next-token time in the projections, uncompressed Llama-2-70B."""
    model, plain = resolve_model("llama-2-70b"), resolve_weight_scheme("bf16")
    work = Pass(Batch(((batch, context),)))
    time = run_steps(SYSTEMS[system], "software", plain, model, [work])
    return float(100 * time.product_seconds[0] / time.seconds[0])


def _table2(bandwidth: str) -> Surface:
    return Surface.of_cores(HBM, constant(bandwidth) * 1e9)


@evaluation(ClaimClass.PREDICTION)
def roofline(scheme: str) -> float:
    """10^12 multiply-adds a second where decompression costs nothing."""
    point = kernel(resolve_weight_scheme(scheme), 16)
    return float(_table2("table2_bandwidth").roofline(point.memory, 16)) / 1e12


@evaluation(ClaimClass.PREDICTION)
def roof_surface(scheme: str) -> float:
    """10^12 multiply-adds a second of the Roof-Surface, decompression by the cores."""
    point = kernel(resolve_weight_scheme(scheme), 16)
    return float(_table2("table2_bandwidth").fma(point.memory, point.vector, 16)) / 1e12


@evaluation(ClaimClass.PREDICTION)
def software_rate(scheme: str) -> float:
    """10^12 multiply-adds a second of one layer in software."""
    return _layer("spr-hbm", "software", scheme, 16).tera_fma


@evaluation(ClaimClass.PREDICTION)
def utilisation(engine: str, scheme: str, resource: str) -> float:
    """Percent of the time of one layer, its start and end included."""
    time = _layer("spr-hbm", engine, scheme, 1)
    tiles = LAYER_INNER * LAYER_OUTER / 512 / HBM.cores
    busy: float = getattr(time.tile, resource)
    return 100 * tiles * busy / (time.seconds * HBM.clock)


@contextmanager
def one_command_a_loader() -> Iterator[None]:
    """Inside the ``with`` statement each loader of a DECA has one tile on its way, not three."""
    _PREFETCHING.append(DecaParams(port_commands=1))
    try:
        yield
    finally:
        _PREFETCHING.pop()


def _prefetching(prefetch: Prefetch, degree: int) -> tuple[float, float]:
    """Rate of MXFP4 with 4 rows, and share of lines that missed the L2."""
    found = tile_rate(
        _PREFETCHING[-1],
        resolve_weight_scheme("mxfp4"),
        bytes_per_cycle=HBM.bytes_per_cycle(HBM.cores),
        matrix_cycles=MATRIX_CYCLES,
        integration=Integration(prefetch=prefetch, degree=degree),
    )
    return _four_rows(found.cycles), found.missed


def _four_rows(cycles: float) -> float:
    """10^12 multiply-adds a second of one layer with 4 rows, at so many cycles a tile."""
    tiles = LAYER_INNER * LAYER_OUTER / 512 / HBM.cores
    seconds = tiles * cycles / HBM.clock + constant("sync_us") * 1e-6
    return 4 * LAYER_INNER * LAYER_OUTER / seconds / 1e12


@evaluation(ClaimClass.PREDICTION)
def prefetch_rate(prefetch: Prefetch, degree: int = 0) -> float:
    """10^12 multiply-adds a second with this prefetcher."""
    return _prefetching(prefetch, degree)[0]


@evaluation(ClaimClass.PREDICTION)
def prefetch_misses(prefetch: Prefetch, degree: int = 0, lines: float = 90) -> float:
    """Million lines that missed, of the 90 million that the run reads."""
    return lines * _prefetching(prefetch, degree)[1]


@evaluation(ClaimClass.PREDICTION)
def prefetch_order() -> bool:
    """None, degree 1, the L2's own, degree 15, degree 5: from slow to fast."""
    order: list[tuple[Prefetch, int]] = [
        *(("none", 0), ("deca", 1), ("l2", 0)),
        *(("deca", 15), ("deca", 5)),
    ]
    rates = [_prefetching(kind, degree)[0] for kind, degree in order]
    return rates == sorted(rates)


@evaluation(ClaimClass.PREDICTION)
def next_token_ms(model: str, batch: int, scheme: str, engine: str) -> float:
    """Next-token time of Table 6, in milliseconds."""
    work = Pass(Batch(((batch, TABLE6_CONTEXT),)))
    time = run_steps(HBM, engine, resolve_weight_scheme(scheme), resolve_model(model), [work])
    return float(1e3 * time.seconds[0])


@evaluation(ClaimClass.PREDICTION)
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


@evaluation(ClaimClass.PREDICTION)
def mxfp4_useless_at_64() -> bool:
    """Without DECA, MXFP4 gains less than 10% at batch 64."""
    slow, fast = (next_token_ms("llama-2-70b", 64, s, "software") for s in ("bf16", "mxfp4"))
    return bool(slow / fast < 1.1)


@evaluation(ClaimClass.PREDICTION)
def batch_scaling(batches: list[int]) -> float:
    """Next-token time of the largest batch over that of the smallest, uncompressed."""
    times = [next_token_ms("llama-2-70b", batch, "bf16", "software") for batch in batches]
    return times[-1] / times[0]


@evaluation(ClaimClass.PREDICTION)
def latency_over_gpu(published_ms: float) -> float:
    """Next-token time of DECA with MXFP4 over that of a GPU."""
    return next_token_ms("llama-2-70b", 1, "mxfp4", "deca") / published_ms


@evaluation(ClaimClass.PREDICTION)
def gemm_speedup(system: str, scheme: str, rows: int = 1) -> float:
    """Speed of DECA over software, one layer."""
    return _speedup(system, scheme, rows, "deca", "software")


@evaluation(ClaimClass.PREDICTION)
def gemm_speedup_only(system: str, schemes: list[str], least: float = 1.05) -> bool:
    """Exactly these schemes gain more than ``least`` from DECA at one row."""
    gains = {s for s in PAPER_SCHEMES if _speedup(system, s, 1, "deca", "software") > least}
    return gains == set(schemes)


@evaluation(ClaimClass.PREDICTION)
def gemm_speedup_count(system: str, least: float = 1.05) -> float:
    """How many of the twelve schemes gain more than ``least``."""
    return float(sum(_speedup(system, s, 1, "deca", "software") > least for s in PAPER_SCHEMES))


@evaluation(ClaimClass.PREDICTION)
def near_optimal() -> float:
    """Mean speed of DECA as a share of the optimum, both memories, one row."""
    return fmean(_speedup(m, s, 1, "deca", "optimal") for m in PAPER_SYSTEMS for s in PAPER_SCHEMES)


@evaluation(ClaimClass.PREDICTION)
def near_same_to_16() -> float:
    """Largest change of DECA's gain over software between 1 and 16 rows, as a ratio."""
    ratios = [
        _speedup("spr-hbm", s, 16, "deca", "software")
        / _speedup("spr-hbm", s, 1, "deca", "software")
        for s in PAPER_SCHEMES
    ]
    return max(max(ratios), 1 / min(ratios))


@evaluation(ClaimClass.PREDICTION)
def cores_needed() -> float:
    """Fewest DECA cores whose mean rate over all schemes beats 56 plain ones; DDR, 4 rows."""

    def mean_rate(engine: str, cores: int) -> float:
        rates = [cores / tile_cost(DDR, engine, s, 4, cores=cores).cycles for s in _schemes()]
        return fmean(rates)

    plain = mean_rate("software", DDR.cores)
    fewer, enough = 0, DDR.cores  # more cores are never slower together
    while enough - fewer > 1:
        middle = (fewer + enough) // 2
        fewer, enough = (fewer, middle) if mean_rate("deca", middle) > plain else (middle, enough)
    return float(enough)


@evaluation(ClaimClass.PREDICTION)
def scaled_vectors_gain(engine: str) -> float:
    """DECA over a core with scaled vector hardware, Q8 at 5%, HBM, one row."""
    return _speedup("spr-hbm", "bf8_5%", 1, "deca", engine)


# Features of the integration that come one by one, in the order of the paper's Figure 16.
ABLATION = (
    Integration(tepl=False, tout=False, through_l2=False, prefetch="none"),
    Integration(tepl=False, tout=False, prefetch="l2"),
    Integration(tepl=False, tout=False),
    Integration(tepl=False),
    Integration(),
)


def _ablation(scheme: str) -> list[float]:
    """Cycles of a tile in each step of the integration; HBM, 4 rows."""
    found = resolve_weight_scheme(scheme)
    return [tile_cost(HBM, "deca", found, 4, integration=step).cycles for step in ABLATION]


ABLATION_SCHEMES = ("bf8", "bf8_50%", "bf8_20%", "bf8_5%")


@evaluation(ClaimClass.PREDICTION)
def ablation_gain(scheme: str, step: int) -> float:
    """Speed of one step of the integration over the step before."""
    cycles = _ablation(scheme)
    return cycles[step - 1] / cycles[step]


@evaluation(ClaimClass.PREDICTION)
def ablation_reads_l2_helps() -> bool:
    """Whether reading the L2 is faster in every scheme."""
    return all(_ablation(s)[0] > _ablation(s)[1] for s in ABLATION_SCHEMES)


@evaluation(ClaimClass.PREDICTION)
def ablation_grows_with_sparsity() -> bool:
    """The gain of TOut registers and TEPL together never falls as density does."""
    gains = [_ablation(s)[2] / _ablation(s)[4] for s in ABLATION_SCHEMES]
    return gains == sorted(gains)


@evaluation(ClaimClass.PREDICTION)
def roofline_gap(scheme: str) -> float:
    """Roofline over software at 16 rows."""
    best = 512 * 16 * HBM.matrix_rate / 1e12
    return min(best, _layer("spr-hbm", "optimal", scheme, 16).tera_fma) / software_rate(scheme)


@evaluation(ClaimClass.PREDICTION)
def observed_below_roofline(system: str, schemes: list[str], most: float = 0.95) -> bool:
    """Exactly these schemes run below ``most`` of their roofline in software, 16 rows."""
    below = {
        s
        for s in ("mxfp4", *(s for s in PAPER_SCHEMES if s.startswith("bf8")))
        if 1 / _speedup(system, s, 16, "optimal", "software") < most
    }
    return below == set(schemes)


@evaluation(ClaimClass.PREDICTION)
def bound(system: str, scheme: str, region: str, vectors: float = 1, rows: int = 16) -> bool:
    """Whether a kernel is in this region of the diagram."""
    surface = Surface.of_cores(SYSTEMS[system]).scaled(vector=vectors)
    return surface.bound(kernel(resolve_weight_scheme(scheme), rows)) == region


@evaluation(ClaimClass.PREDICTION)
def vector_bound_schemes(system: str, vectors: float = 1, rows: int = 16) -> float:
    """How many of the twelve kernels are vector-bound in software."""
    surface = Surface.of_cores(SYSTEMS[system]).scaled(vector=vectors)
    return float(sum(surface.bound(kernel(s, rows)) == "VEC" for s in _schemes()))


@evaluation(ClaimClass.PREDICTION)
def vector_bound_are(system: str, schemes: list[str]) -> bool:
    """Whether exactly these kernels are vector-bound at 16 rows."""
    surface = Surface.of_cores(SYSTEMS[system])
    return {s.name for s in _schemes() if surface.bound(kernel(s, 16)) == "VEC"} == set(schemes)


@evaluation(ClaimClass.PREDICTION)
def commit_slots() -> list[float]:
    """Percent of issue slots that software uses, smallest and largest over the schemes."""
    shares = []
    for scheme in _schemes():
        instructions = vector_operations(scheme) * constant("instructions_per_vector_op")
        cycles = tile_cost(HBM, "software", scheme, 16).cycles
        shares.append(100 * instructions / (ISSUE_WIDTH * cycles))
    return [min(shares), max(shares)]


@evaluation(ClaimClass.PREDICTION)
def smallest_design() -> list[float]:
    """Lanes and tables of the smallest DECA that leaves no kernel vector-bound."""
    best = explore(HBM, _schemes()).smallest
    return [float(best.lanes), float(best.luts)]


@evaluation(ClaimClass.PREDICTION)
def design_gain(fast: list[int], slow: list[int]) -> float:
    """Geometric mean of one DECA size over another, all schemes; HBM, one row."""
    sizes = [DecaParams(lanes=lanes, luts=luts) for lanes, luts in (slow, fast)]
    ratios = []
    for scheme in _schemes():
        cycles = [tile_cost(HBM, "deca", scheme, 1, params=size).cycles for size in sizes]
        ratios.append(cycles[0] / cycles[1])
    return geometric_mean(ratios)


@evaluation(ClaimClass.IDENTITY)
def peak_tera_fma() -> float:
    """10^12 multiply-adds a second of the matrix units."""
    return 512 * 16 * HBM.matrix_rate / 1e12


@evaluation(ClaimClass.RTL)
def measured_tile_cycles(scheme: str) -> float:
    """Cycles from one tile to the next where every line is in the L2, measured on our RTL."""
    return deca_rate(f"l2 {scheme}")


@evaluation(ClaimClass.RTL)
def measured_prefetch_rate(prefetch: str, degree: int = 0) -> float:
    """10^12 multiply-adds a second with this prefetcher, measured on our RTL."""
    return _four_rows(deca_rate(f"table5 {prefetch} {degree}"))


@evaluation(ClaimClass.RTL)
def measured_ablation_gain(scheme: str, step: int) -> float:
    """Speed of one step of the integration over the step before, measured on our RTL."""
    slow, fast = (deca_rate(f"fig16 {number} {scheme}") for number in (step - 1, step))
    return slow / fast


@evaluation(ClaimClass.NETLIST)
def deca_area_mm2() -> float:
    """56 PEs from the synthesis record at 7 nm, made for speed: 2.5 GHz."""
    return 56 * area_um2("deca", "fastest") / 1e6


@evaluation(ClaimClass.NETLIST)
def deca_power_w(run: str) -> float:
    """56 PEs at full activity and 2.5 GHz, from the energy record at 7 nm."""
    return 56 * deca_power_mw(run) / 1e3


@evaluation(ClaimClass.NETLIST)
def deca_idle_percent(design_watts: float) -> float:
    """56 idle PEs, in percent of the processor's design power."""
    return 100 * deca_power_w("idle") / design_watts
