"""The ``tilewright`` command: finds the command, parses, runs it, turns errors into one line.

Exit codes: 0 fine, 1 a check failed, 2 refused (bad argument, missing tool), 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

from tilewright.base.errors import CheckError, CommandError
from tilewright.cli.discovery import all_commands, command_names, find_command, load_command
from tilewright.cli.parser import command_parser, unknown_argument
from tilewright.synth.collector import rare_collections

__all__ = [
    "all_commands",
    "command_names",
    "command_parser",
    "find_command",
    "load_command",
    "main",
]

OK, CHECK_FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130  # 130: 128 + SIGINT, as shells count


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        with rare_collections():
            code = _run(argv)
        sys.stdout.flush()  # here, so that a reader who has gone is noticed below
        return code
    except KeyboardInterrupt:
        print("tilewright: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`tilewright list | head`): keep the interpreter's last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except CheckError as failure:
        print(failure)
        return CHECK_FAILED
    except (ValueError, OSError, CommandError) as error:
        if "--traceback" in argv:
            raise
        print(f"tilewright: {_one_line(error)}", file=sys.stderr)
        return REFUSED


def _run(argv: Sequence[str]) -> int:
    words, rest = find_command(argv)
    parser = command_parser(*words)
    args, unknown = parser.parse_known_args(rest)
    if unknown:
        raise unknown_argument(words, rest, unknown[0])
    code: int = args.run(args)
    return code


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"  # without the number that Python puts first
    return str(error)
