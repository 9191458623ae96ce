"""Anda's search on a subject, and the effect of its lengths on the accelerator."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tilewright.golden.params.llm import LlmShape
from tilewright.sim import accelerator as acc
from tilewright.sim.length_search import (
    FP16_INT4_BITS,
    MODULES,
    Lengths,
    Outcome,
    Trial,
    brute_force,
    linear_cost,
    module_shares,
    search,
)
from tilewright.sim.pe_units import pe_fj, pe_unit
from tilewright.sim.records import energy_fj
from tilewright.sim.workload import linear
from tilewright.studies.accuracy.subject import Subject
from tilewright.torch.config import AndaConfig

PREFILL = 2048  # tokens, as in the paper's comparison
MACHINES = ("fp-fp", "figna")  # of Anda's peak throughput, their PEs by the scoreboard's one rule
GAINS = {"speedup": "cycles", "energy_gain": "millijoules", "memory_gain": "memory_bytes"}

Watch = Callable[[Trial], None]


def search_record(outcome: Outcome) -> dict[str, Any]:
    """A search as JSON data."""
    return {
        "reference": outcome.reference,
        "tolerance": outcome.tolerance,
        "best": None if outcome.best is None else _trial(outcome.best),
        "found_after": outcome.found_after,
        "exhausted": outcome.exhausted,
        "trials": [_trial(trial) for trial in outcome.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "lengths": trial.lengths,
        "perplexity": trial.perplexity,
        "saving": saving_of(trial),
        "within": trial.within,
        "best": trial.within,
    }


def saving_of(trial: Trial) -> float:
    """How many times fewer bit operations than fp16 by INT4."""
    return FP16_INT4_BITS / trial.cost


def text_of(lengths: Lengths) -> str:
    """Lengths as people write them, ``7/7/6/5``."""
    return "/".join(map(str, lengths))


def in_linears(lengths: Lengths, group: int = AndaConfig.group) -> AndaConfig:
    """Mantissa lengths of Anda's four modules; weights are left as they are."""
    qkv, o, u, d = lengths
    return AndaConfig(qkv, o, u, d, group=group, weight_bits=None, pad=True)


def measure(subject: Subject, lengths: Lengths, *, validation: bool = False) -> float:
    """Perplexity with these mantissa lengths in Anda's four modules."""
    return subject.measure(f"anda {text_of(lengths)}", in_linears(lengths), validation=validation)


def reference(subject: Subject, *, validation: bool = False) -> float:
    """Perplexity with full-precision activations: what a tolerance refers to."""
    return subject.measure("plain", None, validation=validation)


def cost_of(shape: LlmShape) -> Callable[[Lengths], float]:
    """The price of lengths: bit operations of a model's linear layers per multiplication."""
    shares = module_shares(shape)
    return linear_cost([shares[name] for name in MODULES])


def search_lengths(
    subject: Subject, tolerance: float, iterations: int, watch: Watch | None = None
) -> dict[str, Any]:
    """Search lengths that lose at most a share ``tolerance``, and project them onto machines."""
    found = searched(subject, tolerance, iterations, watch)
    best = found["best"]
    return {
        "subject": asdict(subject.identity),
        "search": found | {"validation": found.get("validation")},
        "machines": [] if best is None else compare_machines(subject.shape, best["lengths"]),
    }


def searched(
    subject: Subject, tolerance: float, iterations: int, watch: Watch | None = None
) -> dict[str, Any]:
    """Algorithm 1 on the calibration text, its best lengths on the validation text, if any."""
    outcome = search(
        lambda lengths: measure(subject, lengths),
        cost_of(subject.shape),
        len(MODULES),
        reference=reference(subject),
        tolerance=tolerance,
        iterations=iterations,
        progress=watch,
    )
    found = search_record(outcome)
    if outcome.best is not None and len(subject.validation):
        found["validation"] = {
            "reference": reference(subject, validation=True),
            "perplexity": measure(subject, outcome.best.lengths, validation=True),
        }
    return found


def brute_forced(
    subject: Subject,
    tolerance: float,
    centre: Lengths,
    watch: Watch | None = None,
) -> Outcome:
    """Every combination within a bit of ``centre``, cheapest first."""
    return brute_force(
        lambda lengths: measure(subject, lengths),
        cost_of(subject.shape),
        [range(max(1, m - 1), m + 2) for m in centre],
        reference=reference(subject),
        tolerance=tolerance,
        progress=watch,
    )


def compare_machines(shape: LlmShape, lengths: Lengths) -> list[dict[str, Any]]:
    """Projections of a prefill on machines of equal peak throughput and equal buffers.

    Gains are over the first. The others' PEs have Anda's published energy, scaled by the ratio of
    our records.
    """
    gemms = linear(shape, PREFILL)
    by_module = dict(zip(MODULES, lengths, strict=True))
    shares = module_shares(shape)
    pe = sum(shares[name] * energy_fj(pe_unit("anda"), by_module[name]) for name in MODULES)
    anda = acc.anda(by_module)
    compute = acc.energy(anda, acc.run(anda, gemms))["compute"] / pe
    rows: list[dict[str, Any]] = []
    for machine in (*map(acc.baseline, MACHINES), anda):
        times = acc.run(machine, gemms)
        joules = acc.energy(machine, times)
        if machine is not anda:
            joules["compute"] = compute * pe_fj(machine.name)
        cycles = sum(time.cycles for time in times)
        row: dict[str, Any] = {
            "machine": machine.name,
            "cycles": cycles,
            "milliseconds": 1e3 * cycles / machine.clock,
            "energy_joules": joules,  # by part of the machine
            "millijoules": 1e3 * sum(joules.values()),
            "memory_bytes": sum(time.memory_bits for time in times) / 8,
        }
        first = rows[0] if rows else row
        rows.append(row | {gain: first[name] / row[name] for gain, name in GAINS.items()})
    return rows
