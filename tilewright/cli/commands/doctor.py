"""``tilewright doctor``: which tools are there, which are missing and what to type to get them."""

import argparse
import platform

from tilewright.base.console import print_json, print_table, remark
from tilewright.cli.options import adder

NAME = "doctor"
HELP = "show which tools are found, which are missing and how to get them"
EXAMPLE = "tilewright doctor"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "--install",
        "get what is missing: Python packages with pip, the rest with apt-get when root;"
        " otherwise say what to type",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.verify.tools import find_tools, install_tools

    tools = find_tools()
    if args.install:
        install_tools(
            [t for t in tools if t.path is None], lambda words: remark(f"tilewright: {words}")
        )
        tools = find_tools()
    missing = [t for t in tools if t.path is None]
    ready = not any(t.required for t in missing)
    if args.json:
        print_json(
            {
                "machine": platform.machine(),
                "system": platform.system(),
                "can_simulate": ready,
                "tools": tools,
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
