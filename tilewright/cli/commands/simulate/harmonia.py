"""``tilewright simulate harmonia``: a program on the Harmonia accelerator."""

import argparse

from tilewright.cli.workloads import add_program, run_program

NAME = "harmonia"
HELP = "a program on the Harmonia accelerator, by default a decoder layer"
EXAMPLE = "tilewright simulate harmonia --latency 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser, NAME)


def run(args: argparse.Namespace) -> int:
    return run_program(NAME, args)
