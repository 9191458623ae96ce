"""Why figures are off: each reason is a computation that shows it, which a test runs.

A reason that no computation shows begins with "not explained" in the claims' files.
"""

from collections.abc import Callable

from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import changed
from tilewright.sim.claims import Claim, find_claim
from tilewright.sim.evaluations import anda, deca, elements, harmonia
from tilewright.sim.evaluations.registry import EVALUATIONS
from tilewright.sim.measured import long_context_seconds, model_seconds, pruned_cache_bound
from tilewright.sim.records import area_um2, deca_power_mw, deca_rate, energy_fj
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, deca_cycles, tile_cost

__all__ = ["REASONS"]

DISCRETE = "pe_fp_fp__form_discrete"  # an fp16 PE that rounds after every operation
REASONS: dict[str, Callable[[Claim], bool]] = {}


def _reason(function: Callable[[Claim], bool]) -> Callable[[Claim], bool]:
    REASONS[function.__name__] = function
    return function


def _ours(claim: Claim) -> float:
    return float(EVALUATIONS[claim.evaluate](**claim.arguments))


def _printed(name: str) -> float:
    return find_claim(name).number


@_reason
def between_boundaries(claim: Claim) -> bool:
    """The paper's figure lies between ours with operand registers inside and outside Anda's PE."""
    inside = _ours(claim)
    with elements.registers_outside():
        outside = _ours(claim)
    return min(inside, outside) <= claim.number <= max(inside, outside)


@_reason
def between_roundings(claim: Claim) -> bool:
    """Against an fp16 PE that rounds after every operation ours would be on the other side."""
    discrete = _ours(claim) * area_um2(DISCRETE) / elements.pe_area("fp-fp")
    return min(discrete, _ours(claim)) <= claim.number <= max(discrete, _ours(claim))


@_reason
def holds_for_discrete_rounding_and_registers_outside(claim: Claim) -> bool:
    """Below 60% of an fp16 PE that rounds after every operation, operands outside."""
    with elements.registers_outside():
        return bool(elements.pe_area("anda-m8") / area_um2(DISCRETE) < claim.number)


@_reason
def array_of_fp16_would_be_four_times(claim: Claim) -> bool:
    """What an fp16 array's area must be for the printed gain, over the printed area of Anda's."""
    speedup = EVALUATIONS["anda_speedup"](**claim.arguments)
    area = anda.ANDA_AREA
    rest = area["total"] - area["mxu"] - area["compressor"]
    needed = (claim.number / speedup * area["total"] - rest) / area["mxu"]
    return bool(4.2 < needed < 4.6) and needed > 1 / 0.6


@_reason
def activations_alone_save_as_much(claim: Claim) -> bool:
    """Without the weights' share of the buffers' reads the printed figure comes out."""
    saving = float(claim.arguments["saving"])
    return abs(anda.activation_saved(claim.arguments["model"], saving) - claim.number) < 2


@_reason
def discrete_fp16_energy_gives_it(claim: Claim) -> bool:
    """With the energy of an fp16 PE that rounds after every operation it is within tolerance."""
    arguments = claim.arguments
    ratio = elements.pe_fj("fp-fp") / energy_fj(DISCRETE)
    ours = 100 * (anda.pe_energy(arguments["model"], arguments["saving"]) * ratio - 1)
    return abs(ours - claim.number) <= (claim.tolerance or 0)


@_reason
def another_kernel_is_vector_bound_too(claim: Claim) -> bool:
    """On DDR both sparsest 8-bit kernels are vector-bound, as the paper's Figure 5b has it."""
    return deca.vector_bound_are("spr-ddr", ["bf8_10%", "bf8_5%"])


@_reason
def printed_cap_is_not_the_peak(claim: Claim) -> bool:
    """The printed cap, and what cores, clock and cycles give."""
    return claim.number < 0.99 * deca.peak_tera_fma()


@_reason
def sparse_bf16_loses_more_than_bf8(claim: Claim) -> bool:
    """The paper's own measured cells over its own bounds: 16-bit ones lose more than 8-bit ones."""
    lost = {
        bits: [
            _printed(f"deca.table2.{bits}_{d}.real") / _printed(f"deca.table2.{bits}_{d}.rs")
            for d in (20, 10, 5)
        ]
        for bits in ("bf16", "bf8")
    }
    return max(lost["bf16"]) < 0.75 < 0.8 < min(lost["bf8"])


@_reason
def paper_needs_more_cycles_than_its_formula(claim: Claim) -> bool:
    """Busy cycles a tile from the printed uses, and those of the paper's own bubble formula."""
    scheme = {"d100": "bf8", "d50": "bf8_50%", "d5": "bf8_5%"}[claim.id.split(".")[2]]
    matrix = _printed(claim.id.replace(".deca.deca", ".deca.tmul"))
    busy = 16 * claim.number / matrix
    return busy > 1.03 * deca_cycles(DecaParams(), resolve_weight_scheme(scheme))


@_reason
def best_design_waits(claim: Claim) -> bool:
    """At 5% and 10% density the best design takes longer than its pipeline."""
    hbm = SYSTEMS["spr-hbm"]
    return all(
        tile_cost(hbm, "deca", scheme, 1).cycles > 1.1 * deca_cycles(DecaParams(), scheme)
        for scheme in map(resolve_weight_scheme, ("bf8_5%", "bf8_10%"))
    )


@_reason
def stores_take_more_than_twice(claim: Claim) -> bool:
    """Cycles a tile of our RTL at 5%: with stores, a fence and a load, and behind the TEPL unit."""
    stores, tepl = (deca_rate(f"fig16 {step} bf8_5%") for step in (3, 4))
    return stores / tepl > 1.1 * claim.number


@_reason
def degree_1_equals_degree_5(claim: Claim) -> bool:
    """Our prefetcher is far enough ahead with one tile: no more speed and no misses with five."""
    one, five = (deca.prefetch_rate("deca", degree) for degree in (1, 5))
    return abs(one / five - 1) < 0.01 and deca.prefetch_misses("deca", 1) < 1


@_reason
def dropped_prefetches_are_the_misses(claim: Claim) -> bool:
    """With room for every prefetch there is no miss."""
    with changed("prefetch_lines", 20):
        return deca.prefetch_misses("deca", 15) < 1


@_reason
def published_orders_models_the_other_way(claim: Claim) -> bool:
    """From batch 16 to 64 the printed times of OPT grow by less than those of Llama."""

    def grows(model: str) -> float:
        return _printed(f"deca.table6.{model}.n64.q4.deca") - _printed(
            f"deca.table6.{model}.n16.q4.deca"
        )

    return grows("opt_66b") < 0.85 * grows("llama2_70b")


@_reason
def clocked_registers_are_the_difference(claim: Claim) -> bool:
    """Were no flip-flop clocked but where it changes, the power would be within tolerance."""
    least = 56 * deca_power_mw(claim.arguments["run"], "least") / 1e3
    return abs(least / claim.number - 1) <= (claim.tolerance or 0)


@_reason
def over_the_fp16_machine_it_agrees(claim: Claim) -> bool:
    """The most over the fp16 machine is within tolerance; ours is over that of fp16-int4 PEs."""
    runs = [
        harmonia.iso_area_speedups(claim.arguments["model"], context, joint=True)["fp-fp"]
        for context in claim.arguments["contexts"]
    ]
    return abs(max(runs) / claim.number - 1) <= (claim.tolerance or 0)


@_reason
def our_anda_costs_less_than_m8w4(claim: Claim) -> bool:
    """A multiply-add of Anda at 4 and 6 bits costs less than one of Harmonia's PE in M8W4."""
    own = elements.pe_fj("harmonia-m8w4")
    return elements.pe_fj("anda-m4") < elements.pe_fj("anda-m6") < own


@_reason
def compute_alone_would_exceed_it(claim: Claim) -> bool:
    """The PEs' own ratio is above the printed figure: buffers and memory dilute it here."""
    return elements.pe_ratio("energy_efficiency", "harmonia-m8w4", "fp-fp") > claim.number


@_reason
def sparse_int8_is_ahead(claim: Claim) -> bool:
    """Whole models with int8 weights at this batch, measured: the sparse one is faster."""
    batch = claim.arguments["batch"]
    return model_seconds("sparse int8", batch) < model_seconds("dense int8", batch)


@_reason
def dense_cache_is_a_small_share(claim: Claim) -> bool:
    """A token at 16K context: even at memory's own rate less than published could be gained.

    Over PyTorch's attention, which takes about as long as the paper's dense kernel, the measured
    gain is more than published.
    """
    gained = long_context_seconds("PyTorch") / long_context_seconds("pruned")
    return pruned_cache_bound() < claim.number < gained
