"""Figures of the DECA paper: the Xeon, its Roof-Surface and a DECA at every core."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean, geometric_mean

from tilewright.claims import BOUND, FITTED, IDENTITY, NETLIST, PREDICTION, RTL, answers, find_claim
from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import chosen, constant, measured
from tilewright.sim.deca_stream import Integration, Prefetch, tile_rate
from tilewright.sim.models import resolve_model
from tilewright.sim.records import (
    area_um2,
    deca_power_mw,
    deca_runs,
    placed_hz,
    read_json,
    read_record,
    row_of,
)
from tilewright.sim.roofsurface import Surface, explore, kernel
from tilewright.sim.scheme import PAPER_SCHEMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.server import run_steps
from tilewright.sim.system import Server
from tilewright.sim.workload import Batch, Gemm, Pass
from tilewright.sim.xeon import (
    MATRIX_CYCLES,
    SYSTEMS,
    GemmTime,
    gemm,
    tile_cost,
    vector_operations,
)

HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]
TABLE6_CONTEXT = 128 + 128 // 2  # 128 tokens of input, and half of the 128 of output on average
# One of the fully connected layers of the paper's Section 7: about 250 million weights.
LAYER_INNER, LAYER_OUTER = 8192, 30720
TILES = LAYER_INNER * LAYER_OUTER / 512 / HBM.cores  # of the layer, for each core
RATES = Path(__file__).parents[1] / "studies" / "records" / "deca_rates.json"

MODELS = ("llama-2-70b", "opt-66b")


def _machine(name: str) -> Server:
    """A system of the paper; ``spr-hbm laid out`` has DECA at the clock that its layout holds."""
    system, _, laid_out = name.partition(" ")
    clock = min(placed_hz("deca", "fastest"), SYSTEMS[system].clock) if laid_out else 0.0
    return replace(SYSTEMS[system], deca_clock=clock)


def _layer(system: str, engine: str, scheme: str, rows: int) -> GemmTime:
    product = Gemm(name="fc", module="other", rows=rows, inner=LAYER_INNER, outer=LAYER_OUTER)
    return gemm(_machine(system), engine, resolve_weight_scheme(scheme), product, _built())


def _built(**sizes: int) -> DecaParams:
    """Ours, or one with the loaders of the paper's text."""
    return DecaParams.preset("as_published" if chosen("loaders") else "paper", **sizes)


def _speedup(system: str, scheme: str, rows: int, fast: str, slow: str) -> float:
    times = [_layer(system, engine, scheme, rows).seconds for engine in (slow, fast)]
    return times[0] / times[1]


def _schemes() -> list[WeightScheme]:
    return [resolve_weight_scheme(name) for name in PAPER_SCHEMES]


@answers(PREDICTION)
def gemm_share(system: str, batch: int, context: int) -> float:
    """Percent of the next-token time in the projections, uncompressed Llama-2-70B."""
    model, plain = resolve_model("llama-2-70b"), resolve_weight_scheme("bf16")
    work = Pass(Batch(((batch, context),)))
    time = run_steps(SYSTEMS[system], "software", plain, model, [work])
    return float(100 * time.product_seconds[0] / time.seconds[0])


def _table2() -> Surface:
    return Surface.of_cores(HBM, constant("table2_bandwidth") * 1e9)


@answers(PREDICTION)
def roofline(scheme: str) -> float:
    """10^12 multiply-adds a second where decompression costs nothing."""
    point = kernel(resolve_weight_scheme(scheme), 16)
    return float(_table2().roofline(point.memory, 16)) / 1e12


@answers(PREDICTION)
def roof_surface(scheme: str) -> float:
    """10^12 multiply-adds a second of the Roof-Surface, decompression by the cores."""
    point = kernel(resolve_weight_scheme(scheme), 16)
    return float(_table2().fma(point.memory, point.vector, 16)) / 1e12


@answers(PREDICTION)
def software_rate(scheme: str) -> float:
    """10^12 multiply-adds a second of one layer in software."""
    return _layer("spr-hbm", "software", scheme, 16).tera_fma


@answers(PREDICTION)
def roofline_gap(scheme: str) -> float:
    """Roofline over software at 16 rows."""
    best = peak_tera_fma()
    return min(best, _layer("spr-hbm", "optimal", scheme, 16).tera_fma) / software_rate(scheme)


EIGHT_BITS = ["mxfp4", *(s for s in PAPER_SCHEMES if s.startswith("bf8"))]


@answers(BOUND)
def observed_below_roofline(system: str, schemes: list[str]) -> bool:
    """Exactly these of the 4- and 8-bit schemes run below 95% of their roofline in software."""
    shares = {s: 1 / _speedup(system, s, 16, "optimal", "software") for s in EIGHT_BITS}
    return {s for s, share in shares.items() if share < 0.95} == set(schemes)


@answers(BOUND)
def bound_is(system: str, scheme: str, region: str) -> bool:
    """Whether a kernel is in this region of the diagram, 16 rows."""
    surface = Surface.of_cores(SYSTEMS[system])
    return surface.bound(kernel(resolve_weight_scheme(scheme), 16)) == region


@answers(BOUND)
def vector_bound_are(system: str, schemes: list[str]) -> bool:
    """Whether exactly these kernels are vector-bound at 16 rows."""
    surface = Surface.of_cores(SYSTEMS[system])
    return {s.name for s in _schemes() if surface.bound(kernel(s, 16)) == "VEC"} == set(schemes)


# The instructions of a vector operation are assumed so that most kernels are inside.
@answers(FITTED)
def commit_slots() -> list[float]:
    """Percent of issue slots that software uses, smallest and largest over the schemes."""
    shares = []
    for scheme in _schemes():
        instructions = vector_operations(scheme) * constant("instructions_per_vector_op")
        cycles = tile_cost(HBM, "software", scheme, 16).cycles
        shares.append(100 * instructions / (HBM.issue_width * cycles))
    return [min(shares), max(shares)]


@answers(PREDICTION)
def gemm_speedup(system: str, scheme: str) -> float:
    """Speed of DECA over software, one layer, one row."""
    return _speedup(system, scheme, 1, "deca", "software")


@answers(BOUND)
def gain_only(system: str, schemes: list[str]) -> bool:
    """Exactly these schemes gain more than 5% from DECA at one row."""
    return {s for s in PAPER_SCHEMES if gemm_speedup(system, s) > 1.05} == set(schemes)


@answers(PREDICTION)
def cores_needed() -> float:
    """Fewest DECA cores whose mean rate over all schemes beats 56 plain ones; DDR, 4 rows."""

    def mean_rate(engine: str, cores: int) -> float:
        costs = (tile_cost(DDR, engine, s, 4, cores=cores, params=_built()) for s in _schemes())
        return fmean(cores / cost.cycles for cost in costs)

    plain = mean_rate("software", DDR.cores)
    fewer, enough = 0, DDR.cores  # more cores are never slower together
    while enough - fewer > 1:
        middle = (fewer + enough) // 2
        fewer, enough = (fewer, middle) if mean_rate("deca", middle) > plain else (middle, enough)
    return float(enough)


@answers(BOUND)
def scaled_vectors_below(engine: str, least: float) -> bool:
    """Whether DECA gains this over a core with scaled vector hardware; Q8 at 5%, HBM, one row."""
    return _speedup("spr-hbm", "bf8_5%", 1, "deca", engine) >= least


@answers(PREDICTION)
def utilisation(engine: str, scheme: str, resource: str) -> float:
    """Percent of the time of one layer, its start and end included."""
    time = _layer("spr-hbm", engine, scheme, 1)
    busy: float = getattr(time.tile, resource)
    return 100 * TILES * busy / (time.seconds * HBM.clock)


@answers(PREDICTION)
def smallest_design() -> list[float]:
    """Lanes and tables of the smallest DECA that leaves no kernel vector-bound."""
    best = explore(HBM, _schemes()).smallest
    return [float(best.lanes), float(best.luts)]


@answers(PREDICTION)
def design_gain(fast: tuple[int, int], slow: tuple[int, int]) -> float:
    """Geometric mean of one DECA size over another, all schemes; HBM, one row."""
    sizes = [_built(lanes=lanes, luts=luts) for lanes, luts in (slow, fast)]
    ratios = []
    for scheme in _schemes():
        cycles = [tile_cost(HBM, "deca", scheme, 1, params=size).cycles for size in sizes]
        ratios.append(cycles[0] / cycles[1])
    return geometric_mean(ratios)


# Features of the integration that come one by one, in the order of the paper's Figure 16.
ABLATION = (
    Integration(tepl=False, tout=False, through_l2=False, prefetch="none"),
    Integration(tepl=False, tout=False, prefetch="l2"),
    Integration(tepl=False, tout=False),
    Integration(tepl=False),
    Integration(),
)
ABLATION_SCHEMES = ("bf8", "bf8_50%", "bf8_20%", "bf8_5%")


def _ablation(scheme: str) -> list[float]:
    """Cycles of a tile in each step of the integration; HBM, 4 rows."""
    found, params = resolve_weight_scheme(scheme), _built()
    return [
        tile_cost(HBM, "deca", found, 4, params=params, integration=step).cycles
        for step in ABLATION
    ]


@answers(PREDICTION)
def ablation_gain(scheme: str, step: int) -> float:
    """Speed of one step of the integration over the step before."""
    cycles = _ablation(scheme)
    return cycles[step - 1] / cycles[step]


@answers(RTL)
def ablation_gain_on_rtl(scheme: str, step: int) -> float:
    """Speed of one step of the integration over the step before, measured on our RTL."""
    slow, fast = (_rate(f"fig16 {number} {scheme}") for number in (step - 1, step))
    return slow / fast


@answers(PREDICTION)
def reads_l2_helps() -> bool:
    """Whether reading the L2 is faster in every scheme."""
    return all(_ablation(s)[0] > _ablation(s)[1] for s in ABLATION_SCHEMES)


@answers(PREDICTION)
def ablation_grows_with_sparsity() -> bool:
    """The gain of TOut registers and TEPL together never falls as density does."""
    gains = [_ablation(s)[2] / _ablation(s)[4] for s in ABLATION_SCHEMES]
    return gains == sorted(gains)


def _prefetching(prefetch: Prefetch, degree: int) -> tuple[float, float]:
    """Rate of MXFP4 with 4 rows, and share of lines that missed the L2."""
    found = tile_rate(
        _built(),
        resolve_weight_scheme("mxfp4"),
        bytes_per_cycle=HBM.bytes_per_cycle(HBM.cores),
        matrix_cycles=MATRIX_CYCLES,
        integration=Integration(prefetch=prefetch, degree=degree),
    )
    return _four_rows(found.cycles), found.missed


def _four_rows(cycles: float) -> float:
    seconds = TILES * cycles / HBM.clock + constant("sync_us") * 1e-6
    return 4 * LAYER_INNER * LAYER_OUTER / seconds / 1e12


@answers(PREDICTION)
def prefetch_rate(prefetch: Prefetch, degree: int) -> float:
    """10^12 multiply-adds a second with this prefetcher."""
    return _prefetching(prefetch, degree)[0]


@answers(RTL)
def prefetch_rate_on_rtl(prefetch: Prefetch, degree: int) -> float:
    """10^12 multiply-adds a second with this prefetcher, measured on our RTL."""
    return _four_rows(_rate(f"table5 {prefetch} {degree}"))


@answers(PREDICTION)
def prefetch_misses(prefetch: Prefetch, degree: int) -> float:
    """Million lines that missed, of the 90 million that the run reads."""
    return 90 * _prefetching(prefetch, degree)[1]


@answers(PREDICTION)
def prefetch_order() -> bool:
    """None, degree 1, the L2's own, degree 15, degree 5: from slow to fast."""
    order: list[tuple[Prefetch, int]]
    order = [("none", 0), ("deca", 1), ("l2", 0), ("deca", 15), ("deca", 5)]
    return all(prefetch_rate(*slow) <= prefetch_rate(*fast) for slow, fast in pairwise(order))


@answers(PREDICTION)
def next_token_ms(model: str, batch: int, scheme: str, engine: str, on: str = "spr-hbm") -> float:
    """Next-token time of Table 6, in milliseconds."""
    work = Pass(Batch(((batch, TABLE6_CONTEXT),)))
    found, shape = resolve_weight_scheme(scheme), resolve_model(model)
    time = run_steps(_machine(on), engine, found, shape, [work], params=_built())
    return float(1e3 * time.seconds[0])


@answers(PREDICTION)
def next_token_gain(over: str, batches: tuple[int, ...], system: str = "spr-hbm") -> list[float]:
    """Smallest and largest gain of DECA, over models, batches and both schemes."""
    gains = []
    for model, batch, scheme in product(MODELS, batches, ("mxfp4", "bf8_30%")):
        before = next_token_ms(model, batch, scheme if over == "software" else "bf16", "software")
        gains.append(before / next_token_ms(model, batch, scheme, "deca", system))
    return [min(gains), max(gains)]


@answers(IDENTITY)
def peak_tera_fma() -> float:
    """10^12 multiply-adds a second of the matrix units."""
    return 512 * 16 * HBM.matrix_rate / 1e12


def _rate(stream: str) -> float:
    """Cycles between two tiles of a stream on DECA's RTL (``tilewright simulate deca.rates``)."""
    record = read_json(RATES, "record of the rates of DECA")
    name = f"{stream} as_published" if chosen("loaders") else stream
    row = row_of(record, "rates", "record", name=name)
    return measured("deca.rates", float(row["cycles_per_tile"]))


@answers(NETLIST)
def area_mm2() -> float:
    """56 PEs from the synthesis record at 7 nm, made for speed: 2.5 GHz."""
    ours = 56 * area_um2("deca", "fastest") / 1e6
    if not chosen("memories"):
        return ours
    shares, printed = find_claim("deca.area.share").numbers, find_claim("deca.area.total_56").number
    return ours * area_share("rest") / 100 + printed * (1 - shares["rest"] / 100)


@answers(NETLIST)
def die_percent(die_mm2: float) -> float:
    """56 PEs in percent of the processor's die."""
    return 100 * area_mm2() / die_mm2


@answers(NETLIST)
def power_w(run: str) -> float:
    """56 PEs at full activity and 2.5 GHz, from the energy record at 7 nm."""
    other = run != "idle" and chosen("activity")
    runs = [name for name in deca_runs() if name.endswith(" real")] if other else [run]
    return 56 * max(map(deca_power_mw, runs)) / 1e3


@answers(NETLIST)
def power_percent(run: str, design_watts: float) -> float:
    """56 PEs in percent of the processor's design power."""
    return 100 * power_w(run) / design_watts


# Modules of DECA by the paper's division of area and power; everything else is the "rest".
DECA_PARTS = {"buffers": r"tout\d.*|loader\d\.(load_unit|\w+_queue)", "lut": r"pipeline\.lut"}


def _grouped(sizes: Mapping[str, float]) -> dict[str, float]:
    """Sums over the parts that belong to each of ``DECA_PARTS``, and to none of them."""
    sums = dict.fromkeys((*DECA_PARTS, "rest"), 0.0)
    for name, size in sizes.items():
        found = (g for g, pattern in DECA_PARTS.items() if re.fullmatch(pattern, name))
        sums[next(found, "rest")] += size
    return sums


def areas_by_part() -> dict[str, float]:
    """Square micrometres of a DECA, by the paper's division."""
    return _grouped(read_record("synthesis", "deca", "fastest")["area_by_part"])


def powers_by_part(run: str) -> dict[str, float]:
    """Milliwatts of a DECA in one run, by the paper's division."""
    parts = read_record("energy", "deca")["runs"][run]["power_by_part"]
    return _grouped({name: figures["total"] for name, figures in parts.items()})


@answers(NETLIST)
def area_share(group: str) -> float:
    """Percent of a DECA's area, by the paper's division."""
    areas = areas_by_part()
    return 100 * areas[group] / sum(areas.values())


@answers(NETLIST)
def power_share(group: str, run: str) -> float:
    """Percent of a DECA's power in one run, by the paper's division."""
    powers = powers_by_part(run)
    return 100 * powers[group] / sum(powers.values())
