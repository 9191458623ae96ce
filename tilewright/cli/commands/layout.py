"""``tilewright layout``: a block laid out by OpenROAD, and what its wires cost."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress, show
from tilewright.base.errors import CommandError
from tilewright.cli.options import BLOCK, adder, refuse

if TYPE_CHECKING:
    from tilewright.synth.layout.layout import Layout

NAME = "layout"
HELP = "lay a block out by OpenROAD: placement, clock tree, routes, delay and energy with wires"
EXAMPLE = "tilewright layout --tech asap7"
MORE_EXAMPLES = (
    "tilewright layout float_mul:pipelined --to routed --def float_mul.def",
    "tilewright layout anda_apu --tech asap7 --lef asap7/lef --svg anda_apu.svg",
)
_FILES = {
    "def": "write the layout as DEF",
    "spef": "write resistances and capacitances of its wires",
    "verilog": "write its netlist",
    "path": "write its longest path",
    "svg": "draw it, with the longest path",
    "gds": "write the layout with its cells as GDS (needs klayout; sky130hd)",
    "png": "draw all its layers (needs klayout; sky130hd)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    text = f"{BLOCK} to lay out; without one, the committed records are shown"
    add("block BLOCK", text, nargs="?")
    add("--tech T", "sky130hd or asap7 [sky130hd; of records, both]")
    add("--goal area|balanced|fastest", "goal of synthesis [area]")
    add("--to placed|cts|global|routed", "last step [global]")
    add("--clock CLOCK", "to strive for, as 800 (ps), 0.8ns or 1250MHz [0.9 x the delay unwired]")
    add("--utilisation U", "share of the core that the cells of synthesis fill [0.5]", type=float)
    text = "LEF files of the technology, or their folder [of a package]"
    add("--lef PATH...", text, type=Path)
    add("--extraction FILE", "OpenRCX's extraction rules, for a routed layout")
    for kind, text in _FILES.items():
        add(f"--{kind} FILE", text)
    add("--update-records", "write the result into synth/records; without BLOCK, renew old records")


def run(args: argparse.Namespace) -> int:
    return _lay_out(args) if args.block else _show(args)


def _lay_out(args: argparse.Namespace) -> int:
    from tilewright.studies.synthesis import measured_layout, store_layout
    from tilewright.synth.flow import DEFAULT_GOAL, Goal
    from tilewright.synth.layout.layout import STEPS, UTILISATION, lay_out
    from tilewright.synth.layout.record import layout_table

    if args.update_records:
        refuse(args, ("clock", "utilisation", "extraction"), "goes without --update-records")
    to = args.to or "global"
    with progress("layout", 1 + len(STEPS[: STEPS.index(to) + 1])) as tick:
        layout = lay_out(
            args.block,
            args.tech or "sky130hd",
            goal=Goal(args.goal) if args.goal else DEFAULT_GOAL,
            to=to,
            clock=args.clock,
            utilisation=UTILISATION if args.utilisation is None else args.utilisation,
            lef=args.lef,
            extraction=args.extraction,
            watch=tick,
        )
    _write(layout, {kind: path for kind in _FILES if (path := getattr(args, kind))})
    record = measured_layout(layout)
    if args.update_records:
        store_layout(layout, record)
    print_json([record]) if args.json else show(layout_table([record]))
    return 0


def _write(layout: "Layout", files: dict[str, Path]) -> None:
    from tilewright.base.files import write_atomic
    from tilewright.synth.layout.picture import layout_svg, write_gds, write_png

    for kind, path in files.items():
        if kind == "svg":
            write_atomic(path, layout_svg(layout))
        elif kind == "gds":
            write_gds(layout, path)
        elif kind == "png":
            write_png(layout, path)
        else:
            source = layout.last.file(kind)
            if not source.exists():
                raise CommandError(f"--{kind} needs routes: --to global or routed")
            write_atomic(path, source.read_text())


def _show(args: argparse.Namespace) -> int:
    from tilewright.studies.synthesis import renew_layouts
    from tilewright.synth.layout.record import LAYOUT, layout_table, stale_layout_records
    from tilewright.synth.record import load_kind
    from tilewright.synth.technology import load_technology

    names = ("goal", "to", "clock", "utilisation", "extraction", *_FILES)
    refuse(args, names, "goes with a BLOCK to lay out")
    technology = load_technology(args.tech).name if args.tech else None
    if args.update_records:
        stale = stale_layout_records()
        with progress("layouts", len(stale)) as tick:
            renew_layouts(stale, tick, lef=args.lef)
    records = [r for r in load_kind(LAYOUT).values() if technology in (None, r["technology"])]
    print_json(records) if args.json else show(layout_table(records))
    return 0
