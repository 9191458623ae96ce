"""``tilewright search``: Anda's mantissa lengths for a model, and what they are worth."""

import argparse
from typing import Any

from tilewright.base.console import print_json, print_table, progress, remark
from tilewright.studies.accuracy.options import (
    add_subject_arguments,
    open_from,
    save_plot,
    update_records,
)

NAME = "search"
HELP = "search mantissa lengths within a loss of perplexity, and what they mean on the accelerator"
EXAMPLE = "tilewright search tiny-llama --tokens 256 --window 64 --tolerance 0.02"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject_arguments(parser)
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.01,
        metavar="T",
        help="largest loss of perplexity, as a share [0.01]",
    )
    parser.add_argument(
        "--iterations", type=int, default=32, metavar="N", help="combinations looked at [32]"
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.llm.search import check_tolerance
    from tilewright.golden.params.block import require
    from tilewright.studies.accuracy.anda import compare_machines, reference, searched, text_of

    check_tolerance(args.tolerance)  # before minutes of reading and measuring
    require(args.iterations >= 1, f"--iterations must be at least 1, not {args.iterations}")
    subject = open_from(args)
    with progress("searching", args.iterations + 1) as tick:
        tick("full precision", steps=0)
        reference(subject)
        tick()
        found = searched(
            subject,
            args.tolerance,
            args.iterations,
            lambda trial: tick(f"{text_of(trial.lengths)}: {trial.perplexity:.3f}"),
        )
    best = found["best"]
    result = {"subject": subject.identity} | found
    if best is not None:
        result["machines"] = compare_machines(subject.model.config, tuple(best["lengths"]))
    if args.json:
        print_json(result)
    else:
        _print(result)
    if args.plot:
        _plot(args, result)
    if args.update_record:
        update_records(args, subject, NAME, ("search", "sensitivity"))
    return 0 if best is not None else 1


def _print(result: dict[str, Any]) -> None:
    subject, best = result["subject"], result["best"]
    rows = [
        ("model", f"{subject['model']}, {subject['weights']}"),
        (
            "text",
            f"{subject['text']}, {subject['calibration tokens']} tokens to search on,"
            f" {subject['validation tokens']} to validate, windows of {subject['window']}",
        ),
        ("full precision", f"perplexity {result['reference']:.4f}"),
    ]
    if best is None:
        rows.append(("found", f"nothing within {result['tolerance']:.2%}"))
    else:
        rows += [
            ("lengths", f"{'/'.join(map(str, best['lengths']))} (A_qkv/A_o/A_u/A_d)"),
            ("perplexity", _loss(best["perplexity"], result["reference"])),
            ("bit operations", f"{best['saving']:.2f} times fewer than fp16 by INT4"),
        ]
        if "validation" in result:
            judged = result["validation"]
            rows.append(("validation", _loss(judged["perplexity"], judged["reference"])))
    end = "nothing cheaper waits" if result["exhausted"] else "stopped by --iterations"
    rows.append(
        (
            "search",
            f"{len(result['trials'])} combinations, best after {result['found_after']}; {end}",
        )
    )
    print_table(("WHAT", "VALUE"), rows)
    if best is None:
        more = "a larger one" if result["exhausted"] else "a larger one or more --iterations"
        remark(f"tilewright: no combination keeps the tolerance; give {more}")
        return
    print()
    print_table(
        ("MACHINE", "CYCLES", "MS", "SPEED", "MJ", "ENERGY", "MEMORY MB", "MEMORY"),
        [
            (
                row["machine"],
                f"{row['cycles']:.0f}",
                f"{row['milliseconds']:.3f}",
                f"{row['speedup']:.2f}",
                f"{row['millijoules']:.3f}",
                f"{row['energy_gain']:.2f}",
                f"{row['memory_bytes'] / 1e6:.2f}",
                f"{row['memory_gain']:.2f}",
            )
            for row in result["machines"]
        ],
    )


def _loss(perplexity: float, reference: float) -> str:
    return f"{perplexity:.4f}, {perplexity / reference - 1:+.2%} of {reference:.4f}"


def _plot(args: argparse.Namespace, result: dict[str, Any]) -> None:
    groups: dict[str, list[tuple[float, float]]] = {"within the tolerance": [], "beyond it": []}
    for trial in result["trials"]:
        name = "within the tolerance" if trial["within"] else "beyond it"
        groups[name].append((trial["saving"], trial["perplexity"]))
    limit = result["reference"] * (1 + result["tolerance"])
    label = "saving of bit operations over fp16 by INT4"
    save_plot(args.plot, groups, x_label=label, limit=limit)
