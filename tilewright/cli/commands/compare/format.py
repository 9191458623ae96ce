"""``tilewright compare format``: what formats lose on the operands of a real model."""

import argparse

from tilewright.base.console import print_json
from tilewright.cli.options import adder
from tilewright.cli.tables import print_records

NAME = "format"
HELP = "formats of activations and weights on a real model's operands: bits and errors"
EXAMPLE = "tilewright compare format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    own = "a format of your own: a class with name, bits, scale_bits, group, encode and decode"
    adder(parser)("--with FILE.py:CLASS...", own, dest="further")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.pe.format_accuracy import compare_formats

    found = compare_formats(args.further)
    if args.json:
        print_json(found)
        return 0
    columns = {
        "FORMAT": "name",
        "BITS/VALUE": "bits_per_value:.3f",
        "ACTIVATIONS DB": "activation_sqnr_db:.1f",
        "WEIGHTS DB": "weight_sqnr_db:.1f",
        "DOT ERROR %": "dot_error_percent:.3f",
    }
    print_records(found, columns)
    return 0
