"""``tilewright simulate anda``: a program on the Anda accelerator."""

import argparse

from tilewright.cli.workloads import add_program, run_program

NAME = "anda"
HELP = "a program on the Anda accelerator, by default a decoder layer"
EXAMPLE = "tilewright simulate anda --latency 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser, NAME)


def run(args: argparse.Namespace) -> int:
    return run_program(NAME, args)
