"""``tilewright simulate anda``: a program on the Anda accelerator."""

import argparse

from tilewright.cli.programs import add_program, run_on

NAME = "anda"
HELP = "a program on the Anda accelerator, by default a decoder layer"
EXAMPLE = "tilewright simulate anda --latency 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser, NAME)


def run(args: argparse.Namespace) -> int:
    return run_on(NAME, args)
