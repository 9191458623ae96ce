"""``tilewright kv``: what shortening the KV cache costs a model."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.cli.cache_recipes import (
    check_recipe,
    learner,
    save_cache_recipe,
    with_factors_that_fit,
)
from tilewright.cli.subject import add_subject_arguments, open_from, update_records

if TYPE_CHECKING:
    from tilewright.studies.accuracy.harmonia import CacheResult

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
        "--steps",
        type=int,
        default=200,
        metavar="N",
        help="steps of learning a layer's factors [200]",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of that learning [0]")
    parser.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="write the smallest cache within --tolerance here; needs --device",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="T",
        help="largest loss of perplexity for --recipe, as a share [0.01]",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.block import require
    from tilewright.studies.accuracy.harmonia import compare_caches, variants

    for length in args.lengths:
        require(1 <= length <= 8, f"--lengths must be 1..8, not {length}")
    require(args.steps >= 0, f"--steps must be at least 0, not {args.steps}")
    check_recipe(args)
    subject = open_from(args)
    wanted = with_factors_that_fit(args, subject, variants(args.lengths))
    learn = learner(args, subject)
    with progress("cache", len(wanted) + len(subject.model.layers)) as tick:
        result = compare_caches(
            subject, wanted, steps=args.steps, seed=args.seed, smooth=learn, tick=tick
        )
    save_cache_recipe(args, subject, wanted, result, learn)
    if args.json:
        print_json(result)
    else:
        _print(result)
    if args.plot:
        from tilewright.studies.accuracy.plot import save_plot

        points = {v.name: [(v.cache_bytes / 1e6, v.perplexity)] for v in result.variants}
        save_plot(args.plot, points, x_label=f"MB of cache for {result.cache_tokens} tokens")
    if args.update_record:
        update_records(args, subject, NAME)
    return 0


def _print(result: "CacheResult") -> None:
    subject, first = result.subject, result.variants[0]
    print(
        f"{subject.model}, {subject.weights}; {subject.text},"
        f" {subject.validation_tokens} tokens in windows of {subject.window};"
        f" cache of {result.cache_tokens} tokens"
    )
    print_table(
        ("CACHE", "PERPLEXITY", "CHANGE %", "MB", "TIMES SMALLER"),
        [
            (
                variant.name,
                f"{variant.perplexity:.4f}",
                f"{100 * (variant.perplexity / first.perplexity - 1):.2f}",
                f"{variant.cache_bytes / 1e6:.3f}",
                f"{first.cache_bytes / variant.cache_bytes:.2f}",
            )
            for variant in result.variants
        ],
    )
