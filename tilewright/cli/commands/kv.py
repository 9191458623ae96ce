"""``tilewright kv``: what shortening the KV cache costs a model."""

import argparse
from functools import cache
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.studies.accuracy.options import (
    add_subject_arguments,
    open_from,
    save_plot,
    update_records,
)

if TYPE_CHECKING:
    from tilewright.golden.llm.model import Model

NAME = "kv"
HELP = "perplexity and size of Harmonia's KV cache: lengths, windows, offsets, learned factors"
EXAMPLE = "tilewright kv tiny-llama --tokens 128 --window 128 --steps 5 --lengths 4 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject_arguments(parser)
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="*",
        default=list(range(8, 0, -1)),
        metavar="M",
        help="mantissa bits of old tokens [8 ... 1]",
    )
    parser.add_argument(
        "--steps", type=int, default=200, metavar="N", help="of learning a layer's factors [200]"
    )
    parser.add_argument("--seed", type=int, default=0, help="of that learning [0]")


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.block import require
    from tilewright.studies.accuracy.harmonia import CACHE_TOKENS, folded, smoothed, table, variants

    for length in args.lengths:
        require(1 <= length <= 8, f"--lengths must be 1..8, not {length}")
    require(args.steps >= 0, f"--steps must be at least 0, not {args.steps}")
    subject = open_from(args)
    require(subject.validation is not None, "the text has one window only: nothing to judge by")
    wanted = variants(args.lengths)
    with progress("cache", len(wanted) + len(subject.model.layers)) as tick:

        @cache  # and never called if the log has all that needs it
        def smooth() -> "Model":
            learned = smoothed(
                subject,
                steps=args.steps,
                seed=args.seed,
                progress=lambda layer, _: tick(f"factors of layer {layer}"),
            )
            return folded(subject, learned)

        suffix = f", steps {args.steps}, seed {args.seed}"
        rows = table(subject, wanted, smooth, tick, suffix)
    result = {"subject": subject.identity, "cache_tokens": CACHE_TOKENS, "variants": rows}
    if args.json:
        print_json(result)
    else:
        _print(result)
    if args.plot:
        points = {r["name"]: [(r["cache_bytes"] / 1e6, r["perplexity"])] for r in rows}
        save_plot(args.plot, points, x_label=f"MB of cache for {CACHE_TOKENS} tokens")
    if args.update_record:
        update_records(args, subject, NAME, ("kv", "frontier"))
    return 0


def _print(result: dict[str, Any]) -> None:
    subject, rows = result["subject"], result["variants"]
    print(
        f"{subject['model']}, {subject['weights']}; {subject['text']},"
        f" {subject['validation tokens']} tokens in windows of {subject['window']};"
        f" cache of {result['cache_tokens']} tokens"
    )
    first = rows[0]
    print_table(
        ("CACHE", "PERPLEXITY", "CHANGE %", "MB", "TIMES SMALLER"),
        [
            (
                row["name"],
                f"{row['perplexity']:.4f}",
                f"{100 * (row['perplexity'] / first['perplexity'] - 1):.2f}",
                f"{row['cache_bytes'] / 1e6:.3f}",
                f"{first['cache_bytes'] / row['cache_bytes']:.2f}",
            )
            for row in rows
        ],
    )
