"""Why figures are off: each reason is a computation that shows it, which a test runs.

A reason that no computation shows begins with "not explained" in the claims' files.
"""

from collections.abc import Callable
from statistics import fmean

from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import changed
from tilewright.sim.claims import Claim, find_claim
from tilewright.sim.evaluations import accuracy, anda, deca, elements, harmonia, netlists
from tilewright.sim.evaluations.causes import Cause
from tilewright.sim.evaluations.registry import EVALUATIONS
from tilewright.sim.inputs import with_input
from tilewright.sim.measured import long_context_seconds, model_seconds, pruned_cache_bound
from tilewright.sim.records import (
    area_um2,
    deca_power_mw,
    deca_rate,
    read_record,
)
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, deca_cycles, tile_cost

__all__ = ["CAUSES", "NEEDS", "REASONS"]

FLOAT_SUM = "pe_fp_int__group_sum_float"  # an FP-INT PE with an fp32 accumulator for a group
Reason = Callable[[Claim], bool]
REASONS: dict[str, Reason] = {}
CAUSES: dict[str, Cause] = {}
NEEDS: dict[str, str] = {}  # what would have to be had or built, for the figure to come within

BOUNDARY = "which baselines of the paper hold operands in registers of their own"
ROUNDING = "how the paper's fp16 PE rounds: after every operation, or once a beat"
LATENCIES = "the paper's simulator, with its latencies between core, L2 and DECA"
A_FIT = "a constant fitted to these very figures, which would then be fitted and no predictions"
WEIGHTS = "weights of the paper's models, and a machine on which they run"
KERNELS = "the paper's processor and kernels: ours would have to be slower"
MACROS = "the macros that the paper adds up, and how it scales them"


def _reason(cause: Cause, needs: str) -> Callable[[Reason], Reason]:
    def register(function: Reason) -> Reason:
        REASONS[function.__name__] = function
        CAUSES[function.__name__] = cause
        NEEDS[function.__name__] = needs
        return function

    return register


def _ours(claim: Claim) -> float:
    return float(EVALUATIONS[claim.evaluate](**claim.arguments))


def _printed(name: str) -> float:
    return find_claim(name).number


@_reason(Cause.UNSEEN, BOUNDARY)
def between_boundaries(claim: Claim) -> bool:
    """The paper's figure lies between ours with operand registers inside all PEs and outside."""
    inside = _ours(claim)
    with elements.registers_outside():
        outside = _ours(claim)
    return min(inside, outside) <= claim.number <= max(inside, outside)


@_reason(Cause.UNSEEN, BOUNDARY)
def agrees_with_registers_outside(claim: Claim) -> bool:
    """With operand registers outside all PEs ours is within tolerance of the printed figure."""
    with elements.registers_outside():
        return abs(_ours(claim) / claim.number - 1) <= (claim.tolerance or 0)


@_reason(Cause.UNSEEN, ROUNDING)
def between_roundings(claim: Claim) -> bool:
    """Against an fp16 PE that rounds after every operation ours would be on the other side."""
    with elements.discrete_rounding():
        discrete = _ours(claim)
    return min(discrete, _ours(claim)) <= claim.number <= max(discrete, _ours(claim))


@_reason(Cause.UNSEEN, ROUNDING)
def discrete_rounding_of_attention_gives_it(claim: Claim) -> bool:
    """The least is over Anda, whose attention has fp16 PEs: within 1% with discrete rounding.

    Of an fp16 PE that rounds after every operation, operand registers are taken to be as large as
    those of the other one.
    """
    fused = elements.pe_area("fp-fp")
    with elements.registers_outside():
        discrete = area_um2(elements.DISCRETE) + fused - elements.pe_area("fp-fp")
    with with_input(f"{elements.pe_unit('fp-fp')}.area", discrete / fused):
        larger = _ours(claim)
    return _ours(claim) < claim.number and abs(larger / claim.number - 1) < 0.01


@_reason(Cause.UNSEEN, ROUNDING)
def holds_for_discrete_rounding_and_registers_outside(claim: Claim) -> bool:
    """Below 60% of an fp16 PE that rounds after every operation, operands outside."""
    with elements.discrete_rounding():
        return bool(elements.pe_area("anda-m8") / elements.pe_area("fp-fp") < claim.number)


@_reason(Cause.UNSEEN, "how the paper's FP-INT PE sums, and who holds its operands")
def holds_over_an_fp32_accumulator_and_registers_outside(claim: Claim) -> bool:
    """Anda's area over that of our FP-INT PE with an fp32 accumulator, operands outside."""
    with elements.registers_outside():
        return bool(elements.pe_area("anda-m8") / area_um2(FLOAT_SUM) < claim.number)


@_reason(Cause.PAPER, "another figure in print: 4.4 times and 60% cannot both be true of one array")
def array_of_fp16_would_be_four_times(claim: Claim) -> bool:
    """What an fp16 array's area must be for the printed gain, over the printed area of Anda's."""
    speedup = EVALUATIONS["anda_speedup"](**claim.arguments)
    area = anda.ANDA_AREA
    rest = area["total"] - area["mxu"] - area["compressor"]
    needed = (claim.number / speedup * area["total"] - rest) / area["mxu"]
    return bool(4.2 < needed < 4.6) and needed > 1 / 0.6


@_reason(Cause.UNSEEN, "whether the printed saving counts reads of weights")
def activations_alone_save_as_much(claim: Claim) -> bool:
    """Without the weights' share of the buffers' reads the printed figure comes out."""
    saving = float(claim.arguments["saving"])
    return abs(anda.activation_saved(claim.arguments["model"], saving) - claim.number) < 2


@_reason(Cause.UNSEEN, ROUNDING)
def discrete_fp16_energy_gives_it(claim: Claim) -> bool:
    """With the energy of an fp16 PE that rounds after every operation it is within tolerance."""
    with elements.discrete_rounding():
        return abs(_ours(claim) - claim.number) <= (claim.tolerance or 0)


@_reason(Cause.PAPER, "another sentence in print: it contradicts the paper's own figure")
def another_kernel_is_vector_bound_too(claim: Claim) -> bool:
    """On DDR both sparsest 8-bit kernels are vector-bound, as the paper's Figure 5b has it."""
    return deca.vector_bound_are("spr-ddr", ["bf8_10%", "bf8_5%"])


@_reason(Cause.PAPER, "another figure in print: it contradicts the paper's own clock and cores")
def printed_cap_is_not_the_peak(claim: Claim) -> bool:
    """The printed cap, and what cores, clock and cycles give."""
    return claim.number < 0.99 * deca.peak_tera_fma()


@_reason(Cause.OURS, A_FIT)
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


@_reason(Cause.PAPER, A_FIT)
def paper_needs_more_cycles_than_its_formula(claim: Claim) -> bool:
    """Busy cycles a tile from the printed uses, and those of the paper's own bubble formula."""
    scheme = {"d100": "bf8", "d50": "bf8_50%", "d5": "bf8_5%"}[claim.id.split(".")[2]]
    matrix = _printed(claim.id.replace(".deca.deca", ".deca.tmul"))
    busy = 16 * claim.number / matrix
    return busy > 1.03 * deca_cycles(DecaParams(), resolve_weight_scheme(scheme))


@_reason(Cause.SIMULATOR, LATENCIES)
def best_design_waits(claim: Claim) -> bool:
    """At 5% and 10% density the best design takes longer than its pipeline."""
    hbm = SYSTEMS["spr-hbm"]
    return all(
        tile_cost(hbm, "deca", scheme, 1).cycles > 1.1 * deca_cycles(DecaParams(), scheme)
        for scheme in map(resolve_weight_scheme, ("bf8_5%", "bf8_10%"))
    )


@_reason(Cause.SIMULATOR, LATENCIES)
def stores_take_more_than_twice(claim: Claim) -> bool:
    """Cycles a tile of our RTL at 5%: with stores, a fence and a load, and behind the TEPL unit."""
    stores, tepl = (deca_rate(f"fig16 {step} bf8_5%") for step in (3, 4))
    return stores / tepl > 1.1 * claim.number


@_reason(Cause.SIMULATOR, "the instructions of the paper's kernels")
def no_instruction_count_fits_all(claim: Claim) -> bool:
    """The largest share of slots over the smallest, which no count of instructions changes.

    Ours is more than the printed one: the kernels that wait for memory use fewer slots.
    """
    smallest, largest = deca.commit_slots()
    match claim.value:
        case [int() | float() as low, int() | float() as high]:
            return largest / smallest > high / low
    raise ValueError(f"{claim.id}: the value is not a range")


@_reason(Cause.OURS, "how many tiles the paper's simulator has on their way, and their latency")
def between_two_tiles_and_six(claim: Claim) -> bool:
    """The printed rate lies between ours with one command a loader and with the three of our RTL.

    Each loader has one tile on its way then, or three.
    """
    with deca.one_command_a_loader():
        one = _ours(claim)
    return one < claim.number < _ours(claim)


@_reason(Cause.OURS, "a prefetcher that sees a tile later than ours does, and is slower")
def degree_1_equals_degree_5(claim: Claim) -> bool:
    """Our prefetcher is far enough ahead with one tile: no more speed and no misses with five."""
    one, five = (deca.prefetch_rate("deca", degree) for degree in (1, 5))
    return abs(one / five - 1) < 0.01 and deca.prefetch_misses("deca", 1) < 1


@_reason(Cause.OURS, "what the paper's L2 does with a prefetch that finds no buffer")
def dropped_prefetches_are_the_misses(claim: Claim) -> bool:
    """With room for every prefetch there is no miss."""
    with changed("prefetch_lines", 20):
        return deca.prefetch_misses("deca", 15) < 1


@_reason(Cause.SIMULATOR, LATENCIES)
def published_orders_models_the_other_way(claim: Claim) -> bool:
    """From batch 16 to 64 the printed times of OPT grow by less than those of Llama."""

    def grows(model: str) -> float:
        return _printed(f"deca.table6.{model}.n64.q4.deca") - _printed(
            f"deca.table6.{model}.n16.q4.deca"
        )

    return grows("opt_66b") < 0.85 * grows("llama2_70b")


@_reason(Cause.PROCESS, "cells whose registers take no power where they do not change")
def clocked_registers_are_the_difference(claim: Claim) -> bool:
    """Were no flip-flop clocked but where it changes, the power would be within tolerance."""
    least = 56 * deca_power_mw(claim.arguments["run"], "least") / 1e3
    return abs(least / claim.number - 1) <= (claim.tolerance or 0)


@_reason(Cause.UNSEEN, "which baseline the paper's most is over")
def over_the_fp16_machine_it_agrees(claim: Claim) -> bool:
    """The most over the fp16 machine is within tolerance; ours is over that of fp16-int4 PEs."""
    runs = [
        harmonia.iso_area_speedups(claim.arguments["model"], context, joint=True)["fp-fp"]
        for context in claim.arguments["contexts"]
    ]
    return abs(max(runs) / claim.number - 1) <= (claim.tolerance or 0)


@_reason(Cause.UNSEEN, "the paper's netlist of an Anda PE, which must take more energy than ours")
def our_anda_costs_less_than_m8w4(claim: Claim) -> bool:
    """A multiply-add of Anda at 4 and 6 bits costs less than one of Harmonia's PE in M8W4."""
    own = elements.pe_fj("harmonia-m8w4")
    return elements.pe_fj("anda-m4") < elements.pe_fj("anda-m6") < own


@_reason(Cause.SIMULATOR, "the traffic and the memories' energies of the paper's simulator")
def pes_alone_gain_as_much(claim: Claim) -> bool:
    """The energy of a multiply-add in our PEs, fp16 over M8W4: within tolerance or above."""
    ratio = elements.pe_ratio("energy_efficiency", "harmonia-m8w4", "fp-fp")
    return ratio >= claim.number * (1 - (claim.tolerance or 0))


@_reason(Cause.MACHINE, KERNELS)
def sparse_int8_is_ahead(claim: Claim) -> bool:
    """Whole models with int8 weights at this batch, measured: the sparse one is faster."""
    batch = claim.arguments["batch"]
    return model_seconds("sparse int8", batch) < model_seconds("dense int8", batch)


@_reason(Cause.MACHINE, KERNELS)
def dense_cache_is_a_small_share(claim: Claim) -> bool:
    """A token at 16K context: even at memory's own rate less than published could be gained.

    Over PyTorch's attention, which takes about as long as the paper's dense kernel, the measured
    gain is more than published.
    """
    gained = long_context_seconds("PyTorch") / long_context_seconds("pruned")
    return pruned_cache_bound() < claim.number < gained


@_reason(Cause.MODELS, WEIGHTS)
def every_open_model_loses_more(claim: Claim) -> bool:
    """The least that one of our models loses is more than what the paper's lose on average."""
    return min(accuracy.model_losses(claim.arguments["fmt"]).values()) > claim.number


@_reason(Cause.MODELS, WEIGHTS)
def two_of_three_open_models_lose_up_to_one_percent(claim: Claim) -> bool:
    """Perplexity lost at 8 bits, model by model: SmolLM2 none, the two others 0.5 to 1%."""
    losses = dict(accuracy.model_losses("Harmonia, 8 bits"))
    return losses.pop("smollm2-135m") <= 0 and all(0.5 < loss < 1 for loss in losses.values())


@_reason(Cause.MODELS, WEIGHTS)
def one_open_model_loses_twice_the_printed_mean(claim: Claim) -> bool:
    """Perplexity lost by Qwen2.5-Coder is over twice the printed mean, that of the others below.

    The others count by their mean, which would be within tolerance or better.
    """
    losses = dict(accuracy.model_losses(claim.arguments["fmt"]))
    coder = losses.pop("qwen2.5-coder-1.5b")
    others = fmean(losses.values())
    return others < claim.number + (claim.tolerance or 0) < 2 * claim.number < coder


@_reason(Cause.MODELS, WEIGHTS)
def six_bits_cost_more_than_a_percent(claim: Claim) -> bool:
    """Perplexity that SmolLM2-135M loses with 6 bits in all modules, in groups of 64."""
    return accuracy.length_loss(6, 64) > 1


@_reason(Cause.UNSEEN, "whether the paper's areas have the memories in which results wait")
def between_memories_and_logic_alone(claim: Claim) -> bool:
    """With the memories of waiting values in both units ours is below, of logic alone above.

    The paper's text and figure of its converter have comparators and an aligner, and do not say
    where the results of a group wait for its largest exponent.
    """
    with elements.memories_outside():
        logic = _ours(claim)
    return _ours(claim) < claim.number < logic


@_reason(Cause.UNSEEN, BOUNDARY)
def registers_of_one_or_of_both(claim: Claim) -> bool:
    """The printed figure lies between ours with operand registers in both PEs and in Anda's alone.

    The paper says that Anda's has them, and nothing about the other one.
    """
    quantity, pe, over = (claim.arguments[name] for name in ("quantity", "pe", "over"))
    of = elements.QUANTITIES[quantity]
    anda_alone = of(pe)
    with elements.registers_outside():
        anda_alone /= of(over)
    return min(anda_alone, _ours(claim)) <= claim.number <= max(anda_alone, _ours(claim))


@_reason(Cause.MODELS, WEIGHTS)
def down_projection_needs_more_than_output(claim: Claim) -> bool:
    """Perplexity that SmolLM2-135M loses with 4, 5 or 6 bits there alone: more than in A_o."""
    return all(accuracy.module_loss("A_d", n) > accuracy.module_loss("A_o", n) for n in (4, 5, 6))


def _anda_shrinks() -> dict[str, float]:
    """Areas of the Anda accelerator over the paper's, row by row of its Table III."""
    rows = {
        "activation_buffer": "actbuf",
        "compressor": "bpc",
        "mxu": "mxu",
        "others": "others",
        "vector": "vector",
        "weight_buffer": "wbuf",
    }
    ours = netlists.anda_areas()
    return {
        row: ours[row] / 1e6 / _printed(f"anda.table3.{name}.area") for row, name in rows.items()
    }


@_reason(Cause.PROCESS, "cells and memory macros of the paper's node")
def logic_shrinks_more_than_memories(claim: Claim) -> bool:
    """Our area over the paper's, of another node: this row's is smaller than both buffers'."""
    shrinks = _anda_shrinks()
    buffers = min(shrinks["activation_buffer"], shrinks["weight_buffer"])
    return shrinks[claim.arguments["part"]] < 0.85 * buffers


@_reason(
    Cause.OURS, "a vector unit without softmax, norms and rotary embeddings, which a layer needs"
)
def vector_unit_is_as_large_as_the_papers(claim: Claim) -> bool:
    """Our area over the paper's, of an older node: above 1, where the matrix unit's is a quarter.

    Ours computes softmax, norms and rotary embeddings in fp16, which the paper's row does not say.
    """
    shrinks = _anda_shrinks()
    return shrinks["vector"] > 1 > 3 * shrinks["mxu"]


@_reason(Cause.OURS, "an accelerator without memories between it and its DRAM")
def lines_on_their_way_are_most_of_others(claim: Claim) -> bool:
    """Memories of lines that come from outside, over all of this row: the paper counts none."""
    parts = read_record("system", "anda")["parts"]
    waiting = sum(parts[name]["memory"] for name in ("fetcher", "loader"))
    return waiting > 0.7 * netlists.anda_areas()["others"]


def _deca_published(total: float, shares: dict[str, str]) -> dict[str, float]:
    """A figure of the paper's 56 DECAs by its shares, for one of them."""
    return {part: total / 56 * _printed(name) / 100 for part, name in shares.items()}


@_reason(Cause.PROCESS, MACROS)
def memories_take_less_than_half_of_the_papers_area(claim: Claim) -> bool:
    """Buffers and tables of a DECA, each beside the paper's square micrometres, and the rest.

    The paper adds up published macros, scaled to 7 nm; ours are the memories of the cell library.
    """
    names = {"buffers": "buffers", "lut": "lut", "rest": "rest"}
    shares = {part: f"deca.area.share_{name}" for part, name in names.items()}
    theirs = _deca_published(1e6 * _printed("deca.area.total_56"), shares)
    ours = netlists.deca_areas()
    smaller = all(ours[part] < 0.5 * theirs[part] for part in ("buffers", "lut"))
    return smaller and theirs["rest"] < ours["rest"] < 1.5 * theirs["rest"]


@_reason(Cause.PROCESS, MACROS)
def pipeline_takes_three_times_the_papers_power(claim: Claim) -> bool:
    """Milliwatts of a DECA beside the paper's: queues and tables take half, the rest three times.

    The paper adds up macros; ours is a netlist whose pipeline registers are clocked at 2.5 GHz.
    """
    names = {"buffers": "queues", "lut": "lut", "rest": "rest"}
    shares = {part: f"deca.power.share_{name}" for part, name in names.items()}
    theirs = _deca_published(1e3 * _printed("deca.power.total_56"), shares)
    ours = netlists.deca_powers(claim.arguments["run"])
    smaller = all(ours[part] < 0.6 * theirs[part] for part in ("buffers", "lut"))
    return smaller and ours["rest"] > 3 * theirs["rest"]


@_reason(Cause.MACHINE, KERNELS)
def gain_is_nearer_to_that_of_the_bytes(claim: Claim) -> bool:
    """The measured gain lies between the printed one and what bf16 over its sparse form has."""
    return claim.number < _ours(claim) < _ours(find_claim("sparamx.traffic_gain.bf16_50"))
