"""``tilewright search``: Anda's mantissa lengths for a model, and what they are worth."""

import argparse
from typing import Any

from tilewright.base.console import print_json, print_table, progress, remark
from tilewright.cli.models import add_subject_arguments, open_from, save_recipe
from tilewright.cli.options import adder
from tilewright.cli.tables import Columns, print_records

NAME = "search"
HELP = "search mantissa lengths within a loss of perplexity, and what they mean on the accelerator"
EXAMPLE = "tilewright search tiny-llama --tokens 256 --window 64 --tolerance 0.02"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject_arguments(parser)
    add = adder(parser)
    add("--tolerance T", "largest loss of perplexity, as a share", 0.01)
    add("--recipe FILE", "write the result here; not with searched scales")
    add("--iterations N", "combinations looked at", 32)


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.block import require
    from tilewright.sim.length_search import check_tolerance
    from tilewright.studies.accuracy.anda import in_linears, reference, search_lengths, text_of

    check_tolerance(args.tolerance)  # before minutes of reading and measuring
    require(args.iterations >= 1, f"--iterations must be at least 1, not {args.iterations}")
    subject = open_from(args)
    with progress("searching", args.iterations + 1) as tick:
        subject.tell = lambda done, count: tick(f"window {done} of {count}", steps=0)
        tick("full precision", steps=0)
        reference(subject)
        tick()
        result = search_lengths(
            subject,
            args.tolerance,
            args.iterations,
            lambda trial: tick(f"{text_of(trial.lengths)}: {trial.perplexity:.3f}"),
        )
    best = result["search"]["best"]
    save_recipe(args.recipe, subject, None if best is None else in_linears(best["lengths"]))
    print_json(result) if args.json else _print(result)
    return 0 if best is not None else 1


def _print(result: dict[str, Any]) -> None:
    subject, search = result["subject"], result["search"]
    text = (
        f"{subject['text']}, {subject['calibration_tokens']} tokens to search on,"
        f" {subject['validation_tokens']} to validate, windows of {subject['window']}"
    )
    rows = [
        ("model", f"{subject['model']}, {subject['weights']}"),
        ("text", text),
        ("full precision", f"perplexity {search['reference']:.4f}"),
        *_found(search),
    ]
    exhausted = search["exhausted"]
    end = "nothing cheaper waits" if exhausted else "stopped by --iterations"
    words = f"{len(search['trials'])} combinations, best after {search['found_after']}; {end}"
    print_table(("WHAT", "VALUE"), [*rows, ("search", words)])
    if search["best"] is None:
        more = "a larger one" if exhausted else "a larger one or more --iterations"
        remark(f"tilewright: no combination keeps the tolerance; give {more}")
        return
    print()
    columns: Columns = {
        **{"MACHINE": "machine", "CYCLES": "cycles:.0f", "MS": "milliseconds:.3f"},
        **{
            "SPEED": "speedup:.2f",
            "MJ": "millijoules:.3f",
            "ENERGY": "energy_gain:.2f",
        },
        "MEMORY MB": lambda machine: f"{machine['memory_bytes'] / 1e6:.2f}",
        "MEMORY": "memory_gain:.2f",
    }
    print_records(result["machines"], columns)


def _found(search: dict[str, Any]) -> list[tuple[str, str]]:
    best, judged = search["best"], search["validation"]
    if best is None:
        return [("found", f"nothing within {search['tolerance']:.2%}")]
    rows = [
        ("lengths", f"{'/'.join(map(str, best['lengths']))} (A_qkv/A_o/A_u/A_d)"),
        ("perplexity", _loss(best["perplexity"], search["reference"])),
        ("bit operations", f"{best['saving']:.2f} times fewer than fp16 by INT4"),
    ]
    if judged is not None:
        rows.append(("validation", _loss(judged["perplexity"], judged["reference"])))
    return rows


def _loss(perplexity: float, reference: float) -> str:
    return f"{perplexity:.4f}, {perplexity / reference - 1:+.2%} of {reference:.4f}"
