"""The parser of each command: its own options, and what all commands have in common."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from tilewright import __version__
from tilewright.base.errors import CommandError
from tilewright.cli.commands import GROUPS
from tilewright.cli.discovery import command_names, load_command


class Parser(argparse.ArgumentParser):
    """Refuses in one line, as every other refusal; argparse would print its whole usage."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help")

    def takes(self, option: str) -> bool:
        """Whether ``option`` is one of this parser's."""
        return option in self._option_string_actions


def command_parser(*words: str) -> Parser:
    """Return the parser of the command ``words``, without words that of ``tilewright`` itself.

    It parses the arguments after these words. Subcommands are only listed in its help, as each has
    a parser of its own.
    """
    if not words:
        return _main_parser()
    command = load_command(*words)
    has_run, subcommands = hasattr(command, "run"), command_names(*words)
    more = getattr(command, "MORE_EXAMPLES", ())
    epilog = "\n  ".join(["examples:" if more else "example:", command.EXAMPLE, *more])
    if has_run and subcommands:
        title = f"{command.METAVAR}, each with options of its own in its --help"
        epilog = f"{_listing(title, subcommands, *words)}\n\n{epilog}"
    parser = Parser(
        prog=" ".join(("tilewright", *words)),
        description=command.HELP[0].upper() + command.HELP[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_traceback(parser)
    if has_run:
        command.add_arguments(parser)
        parser.set_defaults(run=command.run)
    else:
        listed = parser.add_subparsers(metavar=command.METAVAR, required=True)
        for name in subcommands:
            listed.add_parser(name, help=load_command(*words, name).HELP)
    return parser


def unknown_argument(words: tuple[str, ...], rest: list[str], argument: str) -> CommandError:
    """Return the refusal of an argument of ``rest`` that the command ``words`` does not take.

    It names the subcommands next to this command, or below it, that do take the option.
    """
    parser, option = command_parser(*words), argument.partition("=")[0]
    family = words if command_names(*words) else words[:-1]
    takers = [
        name
        for name in (command_names(*family) if family else ())
        if command_parser(*family, name).takes(option)
    ]
    if not takers:
        return CommandError(f"unknown argument {argument!r}; see {parser.prog} --help")
    asked = words[-1] if family != words else rest[0]
    return CommandError(f"{option} is an option of {', '.join(takers)}, not of {asked}")


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands and their options, for completion in shells."""
    parser = argparse.ArgumentParser(prog="tilewright")
    _add_all(parser)
    return parser


def _add_all(parser: argparse.ArgumentParser, *words: str) -> None:
    listed = parser.add_subparsers()
    for name in command_names(*words):
        command = load_command(*words, name)
        own = listed.add_parser(name, help=command.HELP)
        own.add_argument("--json", action="store_true", help="print the result as JSON")
        # Where there are subcommands, a shell cannot tell an argument of the command itself.
        if command_names(*words, name):
            _add_all(own, *words, name)
        else:
            command.add_arguments(own)


def _main_parser() -> Parser:
    groups = (_listing(title, names) for title, names in GROUPS.items())
    parser = Parser(
        prog="tilewright",
        usage="tilewright COMMAND [-h] [--json] ...",
        description="Open hardware for compressed-LLM inference: one parameter object per block,"
        " from golden model to Verilog, simulation, synthesis and report.",
        epilog="\n\n".join(
            [
                *groups,
                "BLOCK is NAME[:PRESET][,FIELD=VALUE]..., for example float_mul:fp16,latency=2.\n"
                "Each command has its own --help with an example.",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    _add_traceback(parser)
    listed = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name in command_names():
        listed.add_parser(name)
    return parser


def _listing(title: str, names: Sequence[str], *words: str) -> str:
    """Return one line for each of some subcommands of the command ``words``."""
    width = max(map(len, command_names(*words)))
    lines = [f"  {name:{width}}  {load_command(*words, name).HELP}" for name in names]
    return "\n".join([f"{title}:", *lines])


def _add_traceback(parser: Parser) -> None:
    parser.add_argument("--traceback", action="store_true", help="show where an error came from")
