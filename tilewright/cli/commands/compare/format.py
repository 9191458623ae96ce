"""``tilewright compare format``: what formats lose on the operands of a real model."""

import argparse

from tilewright.base.console import print_json, print_table

NAME = "format"
HELP = "formats of activations and weights on a real model's operands: bits and errors"
EXAMPLE = "tilewright compare format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="FILE.py:CLASS",
        dest="further",
        help="a format of your own: a class with name, bits, scale_bits, group, encode and decode;"
        " repeatable",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.pe.format_accuracy import compare_formats

    found = compare_formats(args.further)
    if args.json:
        print_json(found)
        return 0
    print_table(
        ("FORMAT", "BITS/VALUE", "ACTIVATIONS DB", "WEIGHTS DB", "DOT ERROR %"),
        [
            (
                row.name,
                f"{row.bits_per_value:.3f}",
                f"{row.activation_sqnr_db:.1f}",
                f"{row.weight_sqnr_db:.1f}",
                f"{row.dot_error_percent:.3f}",
            )
            for row in found
        ],
    )
    return 0
