"""``tilewright doctor``: which tools are there, which are missing and what to type to get them."""

import argparse
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib import invalidate_caches

from tilewright.base.console import print_json, print_table, remark
from tilewright.verify.tools import Tool, find_tools

NAME = "doctor"
HELP = "show which tools are found, which are missing and how to get them"
EXAMPLE = "tilewright doctor"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install",
        action="store_true",
        help="get what is missing: Python packages with pip, the rest with apt-get when root;"
        " otherwise say what to type",
    )


def run(args: argparse.Namespace) -> int:
    tools = find_tools()
    if args.install:
        _install([t for t in tools if t.path is None])
        invalidate_caches()  # packages may have come
        tools = find_tools()
    missing = [t for t in tools if t.path is None]
    ready = not any(t.required for t in missing)
    if args.json:
        print_json(
            {
                "machine": platform.machine(),
                "system": platform.system(),
                "can_simulate": ready,
                "tools": [asdict(t) for t in tools],
            }
        )
    else:
        print_table(
            ("TOOL", "VERSION", "FOUND", "NEEDED FOR"),
            [(t.name, t.version or "-", t.path or "missing", t.needed_for) for t in tools],
        )
        print()
        for tool in missing:
            need = "missing" if tool.required else "missing, can do without"
            print(f"{tool.name} ({need}), to get it: {tool.hint}")
        print("ready to simulate" if ready else "not ready to simulate")
    return 0 if ready else 1


def _install(missing: list[Tool]) -> None:
    """Do what the hints say, where that needs no question: pip, and apt-get as root."""
    hints = list(dict.fromkeys(tool.hint for tool in missing))
    for hint in hints:
        if hint.startswith("pip install "):
            _run([sys.executable, "-m", *hint.replace("'", "").split()])
    packages = [hint.split()[-1] for hint in hints if hint.startswith("apt-get install ")]
    if packages:
        _run(["apt-get", "update"])
        _run(["apt-get", "install", "-y", "--no-install-recommends", *packages])


def _run(command: list[str]) -> None:
    """A failure is only remarked: what is still missing afterwards decides."""
    remark(f"tilewright: {' '.join(command)}")
    # stdout belongs to the result (--json), so package managers talk on stderr.
    settings = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    code = subprocess.run(command, stdout=sys.stderr, env=settings).returncode
    if code:
        remark(f"tilewright: that ended with exit code {code}")
