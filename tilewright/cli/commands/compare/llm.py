"""``tilewright compare llm``: one model on every system."""

import argparse

from tilewright.base.console import print_json, print_table

NAME = "llm"
HELP = "one model on every modelled system: latency, rate, energy, what bounds it"
EXAMPLE = "tilewright compare llm llama-2-70b --batch 16 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model's name, or a config.json")
    parser.add_argument("--scheme", default="mxfp4", metavar="X", help="of the Xeons [mxfp4]")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="sequences [1]")
    parser.add_argument(
        "--context", type=int, default=1024, metavar="C", help="tokens of each sequence [1024]"
    )
    parser.add_argument("--phase", default="decode", help="decode or prefill [decode]")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.llm import compare_systems

    found = compare_systems(args.model, args.scheme, args.batch, args.context, args.phase)
    if args.json:
        print_json(found)
        return 0
    print_table(
        ("SYSTEM", "ENGINE", "SCHEME", "MS", "TOKENS/S", "J/TOKEN", "BOUND", "MEMORY GB", "FITS"),
        [
            (
                row.system,
                row.engine or "-",
                row.scheme,
                f"{row.latency_ms:.2f}",
                f"{row.tokens_per_second:.2f}",
                f"{row.joules_per_token:.3g}",
                row.bound,
                f"{(row.memory_bytes.weights + row.memory_bytes.cache) / 1e9:.2f}",
                "yes" if row.memory_bytes.fits else "no",
            )
            for row in found
        ],
    )
    return 0
