"""``tilewright compare llm``: one model on every system."""

import argparse

from tilewright.base.console import print_json
from tilewright.base.errors import CommandError
from tilewright.cli.llm_tables import print_csv, print_rows, show_remarks

NAME = "llm"
HELP = "one model on every modelled system: latency, rate, energy, what bounds it"
EXAMPLE = "tilewright compare llm llama-2-70b --batch 16 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model's name, or a config.json")
    parser.add_argument(
        "--scheme",
        default="mxfp4",
        metavar="X",
        help="weight format on servers, or FILE.py:CLASS of yours [mxfp4]",
    )
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="number of sequences [1]")
    parser.add_argument(
        "--context", type=int, default=1024, metavar="C", help="tokens of each sequence [1024]"
    )
    parser.add_argument("--phase", default="decode", help="decode or prefill [decode]")
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="FILE",
        dest="further",
        help="add your own: a server or an accelerator as FILE.toml, a format as FILE.py:CLASS;"
        " repeatable",
    )
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.llm import compare_systems

    if args.csv and args.json:
        raise CommandError("--csv does not go with --json")
    found = compare_systems(
        args.model, args.scheme, args.batch, args.context, args.phase, args.further
    )
    if args.json:
        print_json(found)
    elif args.csv:
        print_csv(found)
    else:
        print_rows(found)
    if not args.json:
        show_remarks(found)
    return 0
