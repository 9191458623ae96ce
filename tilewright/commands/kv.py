"""``tilewright kv``: what shortening the KV cache costs a model."""

import argparse
from typing import Any

from tilewright.accuracy.options import (
    add_subject_arguments,
    open_from,
    save_plot,
    update_records,
)
from tilewright.console import print_json, print_table, progress, remark

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
    from golden.params.block import require
    from tilewright.accuracy.harmonia import CACHE_TOKENS, cache_bytes, folded, measure, variants
    from tilewright.accuracy.harmonia import smoothed as learn
    from tilewright.accuracy.records import describe, save_record

    for length in args.lengths:
        require(1 <= length <= 8, f"--lengths must be 1..8, not {length}")
    require(args.steps >= 0, f"--steps must be at least 0, not {args.steps}")
    subject = open_from(args)
    require(subject.validation is not None, "the text has one window only: nothing to judge by")
    wanted = variants(args.lengths)
    layers = len(subject.model.layers)
    with progress("cache", len(wanted) + layers) as tick:
        learned = learn(
            subject,
            steps=args.steps,
            seed=args.seed,
            progress=lambda layer, _: tick(f"factors of layer {layer}"),
        )
        model = folded(subject, learned)
        rows: list[dict[str, Any]] = []
        for variant in wanted:
            tick(variant.name, steps=0)
            name = f", steps {args.steps}, seed {args.seed}" if variant.smooth else ""
            perplexity = measure(subject, variant, lambda: model, suffix=name)
            size = cache_bytes(subject.model, variant.fmt)
            rows.append({"name": variant.name, "perplexity": perplexity, "cache_bytes": size})
            tick()
    result = {"subject": subject.identity, "cache_tokens": CACHE_TOKENS, "variants": rows}
    if args.json:
        print_json(result)
    else:
        _print(result)
    if args.plot:
        points = {r["name"]: [(r["cache_bytes"] / 1e6, r["perplexity"])] for r in rows}
        save_plot(args.plot, points, x_label=f"MB of cache for {CACHE_TOKENS} tokens")
    if args.update_record:
        command = f"tilewright kv {args.model} --tokens {args.tokens} --window {args.window}"
        if args.weights == "file":  # the table alone: what does INT4 change about it?
            command += f" --weights file --lengths {' '.join(map(str, args.lengths))}"
            record = describe(subject, f"{command} --steps {args.steps} --update-record") | result
            remark(f"wrote {save_record('kv-file', record)}")
        else:
            update_records(subject, ("kv", "frontier"), f"{command} --update-record")
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
