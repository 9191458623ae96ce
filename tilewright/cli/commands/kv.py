"""``tilewright kv``: what shortening the KV cache costs a model."""

import argparse
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, progress, remark
from tilewright.cli.models import add_subject_arguments, open_from, save_recipe
from tilewright.cli.options import adder
from tilewright.cli.tables import Columns, print_records

if TYPE_CHECKING:
    from tilewright.torch.recipe import Factors

NAME = "kv"
HELP = "perplexity and size of Harmonia's KV cache: lengths, windows, offsets, learned factors"
TOLERANCE = 0.01
EXAMPLE = "tilewright kv tiny-llama --tokens 128 --window 128 --steps 5 --lengths 4 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject_arguments(parser)
    add = adder(parser)
    add("--lengths N", "mantissa bits of old tokens [8 ... 1]", nargs="*")
    add("--steps N", "steps of learning a layer's factors", 200)
    add("--seed N", "seed of that learning", 0)
    add("--recipe FILE", "write the smallest cache within --tolerance; not with searched scales")
    add("--tolerance T", "largest loss of perplexity for --recipe, as a share [0.01]", type=float)


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.block import require
    from tilewright.sim.length_search import check_tolerance
    from tilewright.studies.accuracy import harmonia

    lengths = range(8, 0, -1) if args.lengths is None else args.lengths
    for length in lengths:
        require(1 <= length <= 8, f"--lengths must be 1..8, not {length}")
    require(args.steps >= 0, f"--steps must be at least 0, not {args.steps}")
    require(args.tolerance is None or args.recipe is not None, "--tolerance needs --recipe")
    tolerance = TOLERANCE if args.tolerance is None else args.tolerance
    check_tolerance(tolerance)
    subject = open_from(args)
    wanted = harmonia.variants(list(lengths))
    from tilewright.torch.smoothing import factors_fit

    if not factors_fit(subject.model):
        remark("tilewright: no factors pass the norms of queries and keys; their rows are left out")
        wanted = [variant for variant in wanted if not variant.smooth]
    with progress("cache", len(wanted) + subject.shape.num_hidden_layers) as tick:

        @cache  # learned once, and only if the log lacks what needs them
        def factors() -> "dict[str, Factors]":
            found = harmonia.learned(
                subject,
                steps=args.steps,
                seed=args.seed,
                progress=lambda layer, _: tick(f"factors of layer {layer}"),
            )
            return {name: layer.factors for name, layer in found.items()}

        learning = f", steps {args.steps}, seed {args.seed}"
        rows = harmonia.compare_caches(subject, wanted, factors, suffix=learning, tick=tick)
    if args.recipe is not None:
        best = harmonia.smallest(rows, wanted, tolerance)
        name, fmt, smooth = best or ("", None, False)
        save_recipe(args.recipe, subject, fmt, factors() if smooth else None)
        if name:
            remark(f"tilewright: {args.recipe} has {name}")
    about = asdict(subject.identity)
    result = {"subject": about, "cache_tokens": harmonia.CACHE_TOKENS, "variants": rows}
    print_json(result) if args.json else _print(result)
    return 0


def _print(result: dict[str, Any]) -> None:
    subject, first = result["subject"], result["variants"][0]
    print(
        f"{subject['model']}, {subject['weights']}; {subject['text']},"
        f" {subject['validation_tokens']} tokens in windows of {subject['window']};"
        f" cache of {result['cache_tokens']} tokens"
    )
    columns: Columns = {
        "CACHE": "name",
        "PERPLEXITY": "perplexity:.4f",
        "CHANGE %": lambda row: f"{100 * (row['perplexity'] / first['perplexity'] - 1):.2f}",
        "MB": lambda row: f"{row['cache_bytes'] / 1e6:.3f}",
        "TIMES SMALLER": lambda row: f"{first['cache_bytes'] / row['cache_bytes']:.2f}",
    }
    print_records(result["variants"], columns)
