"""``tilewright simulate harmonia``: a program on the Harmonia accelerator."""

import argparse

from tilewright.cli.programs import add_program, run_on

NAME = "harmonia"
HELP = "a program on the Harmonia accelerator, by default a decoder layer"
EXAMPLE = "tilewright simulate harmonia --latency 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser, NAME)


def run(args: argparse.Namespace) -> int:
    return run_on(NAME, args)
