"""The ``tilewright`` command: finds the commands, parses, runs one, turns errors into one line.

Exit codes: 0 fine, 1 a check failed, 2 refused (bad argument, missing tool), 130 interrupted.
"""

import argparse
import os
import pkgutil
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from tilewright import __version__
from tilewright.base.errors import CommandError
from tilewright.cli import commands

__all__ = ["command_names", "load_command", "main"]

OK, CHECK_FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130  # 130: 128 + SIGINT, as shells count


def command_names() -> list[str]:
    """Every command, by the files in ``tilewright/cli/commands``."""
    return sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


def load_command(name: str) -> ModuleType:
    return import_module(f"tilewright.cli.commands.{name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    traceback_wanted = "--traceback" in argv
    try:
        args, unknown = _parser(argv).parse_known_args(argv)
        if unknown:
            raise CommandError(f"unknown argument {unknown[0]!r}; see {args.prog} --help")
        code = args.run(args)
        sys.stdout.flush()  # here, so that a reader who has gone is noticed below
        return code
    except KeyboardInterrupt:
        print("tilewright: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`tilewright list | head`): keep the interpreter's last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (ValueError, OSError, CommandError) as error:
        if traceback_wanted:
            raise
        print(f"tilewright: {_one_line(error)}", file=sys.stderr)
        return REFUSED


class Parser(argparse.ArgumentParser):
    """Refuses in one line, as every other refusal; argparse would print its whole usage."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help")


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="tilewright",
        description="Open hardware for compressed-LLM inference: one parameter object per block,"
        " from golden model to Verilog, simulation, synthesis and report.",
        epilog="BLOCK is NAME[:PRESET][,FIELD=VALUE]..., for example float_mul:fp16,latency=2."
        " Each command has its own --help with an example.",
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    _add_traceback(parser)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in _wanted(argv):
        command = load_command(name)
        sub = subparsers.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP[0].upper() + command.HELP[1:] + ".",
            epilog=f"example:\n  {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
        _add_traceback(sub)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run, prog=sub.prog)
    return parser


def _wanted(argv: list[str]) -> list[str]:
    """The command that ``argv`` names; all of them when it names none (help, usage)."""
    names = command_names()
    chosen = next((word for word in argv if not word.startswith("-")), None)
    if chosen is None:
        return names
    if chosen not in names:
        near = get_close_matches(chosen, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"commands: {', '.join(names)}"
        raise CommandError(f"unknown command {chosen!r}; {hint}")
    return [chosen]


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"  # without the number that Python puts first
    return str(error)


def _add_traceback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--traceback",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show where an error came from",
    )
