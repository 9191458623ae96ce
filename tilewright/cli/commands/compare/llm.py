"""``tilewright compare llm``: one model on every system."""

import argparse

from tilewright.base.console import print_json
from tilewright.cli.options import adder
from tilewright.cli.tables import print_answers, show_remarks

NAME = "llm"
HELP = "one model on every modelled system: latency, rate, energy, what bounds it"
EXAMPLE = "tilewright compare llm llama-2-70b --batch 16 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("model MODEL", "a model's name, or a config.json")
    add("--scheme X", "weight format on servers, or FILE.py:CLASS of yours", "mxfp4")
    add("--batch N", "number of sequences", 1)
    add("--context C", "tokens of each sequence", 1024)
    add("--phase PHASE", "decode or prefill", "decode")
    own = "add your own: a server or an accelerator as FILE.toml, a format as FILE.py:CLASS"
    add("--with YOURS...", own, dest="further")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.llm import compare_systems

    found = compare_systems(
        args.model, args.scheme, args.batch, args.context, args.phase, args.further
    )
    if args.json:
        print_json(found)
    else:
        print_answers(found)
        show_remarks(found)
    return 0
