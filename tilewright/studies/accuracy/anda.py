"""Anda's search on a subject, and what the lengths it finds mean on the accelerator."""

from collections.abc import Callable
from typing import Any

from tilewright.golden.llm.formats import AndaFormat
from tilewright.golden.llm.search import Lengths, Outcome, Trial, brute_force, linear_cost, search
from tilewright.golden.llm.sites import PLAIN
from tilewright.golden.params.llm import LlmShape
from tilewright.sim import accelerator as acc
from tilewright.sim.anda import FP16_INT4_BITS, MODULES, module_shares
from tilewright.sim.records import energy_fj
from tilewright.sim.workload import linear
from tilewright.studies.accuracy.subject import Subject

__all__ = ["brute_forced", "compare_machines", "searched", "text_of", "uniform"]

PREFILL = 2048  # tokens, as in the paper's comparison
# Machines of equal peak throughput -> unit of the energy records that stands for their elements.
ELEMENTS = {"fp-fp": "pe_fp_fp__form_discrete", "figna": "pe_figna"}
ANDA_ELEMENT = "anda_apu__buffered_false"

Watch = Callable[[Trial], None]


def text_of(lengths: Lengths) -> str:
    return "/".join(map(str, lengths))


def measure(subject: Subject, lengths: Lengths, *, validation: bool = False) -> float:
    name = f"anda {text_of(lengths)}"
    return subject.measure(name, AndaFormat(lengths), validation=validation)


def reference(subject: Subject, *, validation: bool = False) -> float:
    """Perplexity with full-precision activations: what a tolerance refers to."""
    return subject.measure("plain", PLAIN, validation=validation)


def uniform(length: int) -> Lengths:
    return (length,) * len(MODULES)


def cost_of(shape: LlmShape) -> Callable[[Lengths], float]:
    shares = module_shares(shape)
    return linear_cost([shares[name] for name in MODULES])


def _outcome(outcome: Outcome) -> dict[str, Any]:
    best = outcome.best
    return {
        "reference": outcome.reference,
        "tolerance": outcome.tolerance,
        "best": None if best is None else _trial(best),
        "found_after": outcome.found_after,
        "exhausted": outcome.exhausted,
        "trials": [_trial(trial) for trial in outcome.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "lengths": list(trial.lengths),
        "perplexity": trial.perplexity,
        "saving": FP16_INT4_BITS / trial.cost,  # of bit operations
        "within": trial.within,
        "best": trial.is_best,
    }


def searched(
    subject: Subject, tolerance: float, iterations: int, watch: Watch | None = None
) -> dict[str, Any]:
    """Algorithm 1 on the calibration text; its result judged on the validation text."""
    cost = cost_of(subject.model.config)
    outcome = search(
        lambda lengths: measure(subject, lengths),
        cost,
        len(MODULES),
        reference=reference(subject),
        tolerance=tolerance,
        iterations=iterations,
        progress=watch,
    )
    found = _outcome(outcome)
    if outcome.best is not None and subject.validation is not None:
        found["validation"] = {
            "reference": reference(subject, validation=True),
            "perplexity": measure(subject, outcome.best.lengths, validation=True),
        }
    return found


def brute_forced(
    subject: Subject,
    tolerance: float,
    centre: Lengths,
    below: int = 1,
    above: int = 1,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Every combination within ``below`` and ``above`` bits of ``centre``, cheapest first."""
    cost = cost_of(subject.model.config)
    outcome = brute_force(
        lambda lengths: measure(subject, lengths),
        cost,
        [range(max(1, m - below), m + above + 1) for m in centre],
        reference=reference(subject),
        tolerance=tolerance,
        progress=watch,
    )
    return _outcome(outcome)


def compare_machines(
    shape: LlmShape, lengths: Lengths, tokens: int = PREFILL
) -> list[dict[str, Any]]:
    """Projections of a prefill on machines of equal peak throughput and equal buffers.

    Of the others' elements the energy is Anda's published one by the ratio of our records.
    """
    products = linear(shape, tokens)
    by_module = dict(zip(MODULES, lengths, strict=True))
    shares = module_shares(shape)
    element = sum(shares[name] * energy_fj(ANDA_ELEMENT, by_module[name]) for name in MODULES)
    anda = acc.anda(by_module)
    compute = acc.energy(anda, acc.run(anda, products))["compute"] / element
    rows: list[dict[str, Any]] = []
    for machine in (*map(acc.baseline, ELEMENTS), anda):
        times = acc.run(machine, products)
        joules = acc.energy(machine, times)
        if machine is not anda:
            joules["compute"] = compute * energy_fj(ELEMENTS[machine.name])
        cycles = sum(time.cycles for time in times)
        rows.append(
            {
                "machine": machine.name,
                "cycles": cycles,
                "milliseconds": 1e3 * cycles / machine.clock,
                "energy_joules": joules,
                "millijoules": 1e3 * sum(joules.values()),
                "memory_bytes": sum(time.memory_bits for time in times) / 8,
            }
        )
    for row in rows:
        row["speedup"] = rows[0]["cycles"] / row["cycles"]
        row["energy_gain"] = rows[0]["millijoules"] / row["millijoules"]
        row["memory_gain"] = rows[0]["memory_bytes"] / row["memory_bytes"]
    return rows
