"""``tilewright compare``: several designs on the same work, one module per kind of comparison."""

import argparse
import pkgutil
from importlib import import_module

from tilewright.cli import comparisons

NAME = "compare"
HELP = "compare designs with each other on the same work"
EXAMPLE = "tilewright compare llm llama-2-70b --batch 16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    for name in sorted(module.name for module in pkgutil.iter_modules(comparisons.__path__)):
        module = import_module(f"tilewright.cli.comparisons.{name}")
        kind = kinds.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # Also here, so that it may stand at the end of the line as for every other command.
        kind.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        module.add_arguments(kind)
        kind.set_defaults(compare=module.run, prog=kind.prog)


def run(args: argparse.Namespace) -> int:
    code: int = args.compare(args)
    return code
