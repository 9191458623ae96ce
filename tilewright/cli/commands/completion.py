"""``tilewright completion``: a script that completes commands and options in a shell."""

import argparse

from tilewright.base.errors import CommandError
from tilewright.cli.options import adder

NAME = "completion"
HELP = "print a script that completes commands and options in your shell"
EXAMPLE = "tilewright completion bash"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    adder(parser)(
        "shell bash|zsh|tcsh",
        "for bash: tilewright completion bash > ~/.local/share/bash-completion/completions/"
        "tilewright",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.cli.parser import whole_parser

    try:
        import shtab
    except ImportError:
        raise CommandError("completion needs shtab: pip install shtab") from None
    if args.json:
        raise CommandError("a script has no JSON; leave --json out")
    print(shtab.complete(whole_parser(), args.shell))
    return 0
