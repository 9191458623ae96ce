"""``tilewright compare pe``: processing elements compared with each other and with the papers."""

import argparse
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder
from tilewright.cli.tables import print_records

if TYPE_CHECKING:
    from tilewright.studies.pe.arrays import ArrayComparison
    from tilewright.studies.pe.compare import Comparison, PEComparison, Survival
    from tilewright.studies.pe.own_pe import OwnPE

NAME = "pe"
HELP = "put processing elements on one workload: area, delay, energy, with the paper's figures"
EXAMPLE = "tilewright compare pe --tech asap7"
OWN = ("top", "macs", "cycles", "format")  # what --with goes with
COLUMNS = {
    **{"PE": "name", "MAC/CYCLE": "macs_per_cycle:.2f", "AREA UM2": "area_um2:.0f"},
    **{"DELAY PS": "delay_ps:.0f", "FJ/MAC": "energy_fj_per_mac:.1f"},
    **{"TOPS/MM2": "tops_per_mm2:.3f", "TOPS/W": "tops_per_watt:.2f"},
    **{"AREA X": "area_x:.2f", "POWER X": "power_x:.2f"},
    **{"AREA EFF X": "area_efficiency_x:.2f", "ENERGY EFF X": "energy_efficiency_x:.2f"},
    **{"RANDOM FJ": "random_fj_per_mac:.1f", "ZERO FJ": "zero_fj_per_mac:.1f"},
    **{"DIE UM2": "die_um2:.0f", "LAYOUT PS": "layout_ps:.0f"},
    "LAYOUT FJ": "layout_fj_per_mac:.1f",
}
ARRAY_COLUMNS = {
    **{"ARRAY": "name", "TILE": "tile", "SIZE": "size", "MAC/CYCLE": "macs_per_cycle:.0f"},
    **{"PE ALONE UM2": "pe_um2:.0f", "IN PE UM2": "element_um2:.0f"},
    **{"A PE'S SHARE UM2": "share_um2:.0f", "ARRAY UM2": "array_um2:.0f", "AREA X": "area_x:.2f"},
    **{"UM2 PER MAC/CYCLE": "um2_per_mac:.1f", "X": "um2_per_mac_x:.2f"},
    **{"PE ALONE FJ/MAC": "pe_fj_per_mac:.1f", "IN PE FJ": "element_fj_per_mac:.1f"},
    **{"ARRAY FJ/MAC": "energy_fj_per_mac:.1f", "ENERGY X": "energy_x:.2f"},
    **{"MEMORIES UM2": "memory_um2:.0f", "MEMORIES FJ": "memory_fj_per_mac:.1f"},
}
CHECK_COLUMNS = {
    **{"RULE CHECKED ON": "name", "FROM": "smaller", "TO": "size"},
    **{"AREA X": "area_x:.3f", "ENERGY X": "energy_x:.3f"},
}
CLAIMS = {
    **{"PAPER SAYS": "name", "PAPER": "shown", "HERE": "measured:.2f"},
    "DEVIATION %": "deviation_percent:+.0f",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("--tech T", "asap7 or sky130hd; by default both")
    text = "compare this PE too, measured now without a record; of --update-records, only this one"
    add("--block BLOCK...", text)
    add("--with FILE.v", "compare a PE of your own too", dest="own", type=Path)
    add("--top NAME", "module name of the PE in FILE.v")
    add("--macs N", "multiply-adds that it does in --cycles")
    add("--cycles N", "cycles that it takes for --macs")
    add("--format AxB", "formats of its activations and weights, such as int8xint4")
    add("--array", "compare arrays of the published sizes, extended from tiles")
    add("--by-layer", "show energy on tensors of three layers each of three models")
    add("--update-records", "synthesise and simulate again; writes synth/records")
    add("--stale", "with --update-records, only PEs without an up-to-date record")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.pe.arrays import ARRAYS, CHECKED, CHECKS, compare_arrays
    from tilewright.studies.pe.compare import compare
    from tilewright.studies.pe.energy import record_jobs, update_records
    from tilewright.synth.technology import TECHNOLOGIES, load_technology

    technologies = [load_technology(name) for name in ([args.tech] if args.tech else TECHNOLOGIES)]
    if args.stale and not args.update_records:
        raise CommandError("--stale goes with --update-records")
    own = _own(args)
    if args.array and (own or args.block):
        raise CommandError(f"--{'with' if own else 'block'} adds PEs; --array has arrays alone")
    if args.by_layer:
        if own or args.block or args.array or args.update_records:
            raise CommandError(
                "--by-layer shows its own record, which `python -m tilewright.studies.pe.by_layer`"
                " makes; leave out other options"
            )
        return _by_layer(args.json)
    if args.update_records:
        larger = [*chain(*CHECKS.values())]
        specs = [*chain(*ARRAYS.values()), *larger] if args.array else args.block
        jobs = record_jobs(specs, technologies, only_stale=args.stale)
        if args.array:  # with clock gates
            jobs = [(s, t, g) for s, t, g in jobs if g and (s not in larger or t.name == CHECKED)]
        with progress("PEs", len(jobs)) as tick:
            for done in update_records(jobs):
                tick(done)
    if args.array:
        arrays = compare_arrays(technologies)
        print_json(arrays) if args.json else _print_arrays(arrays)
        return 0
    result = compare(technologies, args.block, own)
    print_json(result) if args.json else _print(result)
    return 0


def _own(args: argparse.Namespace) -> "list[OwnPE]":
    from tilewright.studies.pe.own_pe import OwnPE

    given = [name for name in OWN if getattr(args, name) is not None]
    if args.own is None:
        if given:
            raise CommandError(f"--{given[0]} goes with --with")
        return []
    missing = [f"--{name}" for name in OWN if name not in given]
    if missing:
        raise CommandError(f"--with needs {', '.join(missing)} too")
    pe = OwnPE(path=args.own, top=args.top, macs=args.macs, cycles=args.cycles, formats=args.format)
    return [pe]


def _by_layer(as_json: bool) -> int:
    from tilewright.studies.pe.by_layer import TECHNOLOGY, energy_by_layer

    found = energy_by_layer()
    if as_json:
        print_json(found)
        return 0
    layers = [f"{m} {'/'.join(map(str, n))}".upper() for m, n in found.layers.items()]
    print(f"{TECHNOLOGY}, fJ a multiply-add by layer; usual: the tensors of the comparison")
    rows = [
        (
            name,
            f"{usual:.1f}",
            *("/".join(f"{x:.1f}" for x in fj) for fj in found.fj[name].values()),
        )
        for name, usual in found.usual_fj.items()
    ]
    print_table(("PE", "USUAL", *layers), rows)
    print(f"\norder by energy: {found.pairs - len(found.turned)} of {found.pairs} pairs the same")
    for pair in found.turned:
        print(f"  {' and '.join(pair)} change places")
    return 0


def _print_arrays(comparisons: "tuple[ArrayComparison, ...]") -> None:
    for k, c in enumerate(comparisons):
        print(end="\n" if k else "")
        print(f"{c.technology}, {c.clock_mhz} MHz, real data; x: over FP-FP; from {c.boundary}")
        if c.arrays:
            print_records(c.arrays, ARRAY_COLUMNS)
        if c.checks:
            print()
            print_records(c.checks, CHECK_COLUMNS)
        if c.missing:
            print(f"not on record: {' '.join(c.missing)}; --update-records --stale measures them")


def _print(found: "PEComparison") -> None:
    """Print every technology, and what survives the change between them."""
    for k, comparison in enumerate(found.comparisons):
        print(end="\n" if k else "")
        _print_one(comparison)
    for technology, survival in found.wires_by_technology.items():
        print(
            f"\nwhat survives wires in {technology}: PEs that are laid out, by die and energy then"
        )
        _print_survival([technology, f"{technology} laid out"], survival)
    if found.survival is not None:
        names = [c.technology for c in found.comparisons]
        print(f"\nwhat survives the change from {' to '.join(names)}")
        _print_survival(names, found.survival)


def _print_survival(names: list[str], survival: "Survival") -> None:
    words = {True: "holds", False: "does not"}
    if survival.claims:
        print_table(
            ["PAPER SAYS", *(name.upper() for name in names), "OUTCOME"],
            [
                [c.statement, *(words[c.holds_by_technology[n]] for n in names), c.outcome]
                for c in survival.claims
            ],
        )
    for kind in ("area_efficiency", "energy_efficiency"):
        orders = getattr(survival, kind)
        changed = [c for c in orders if c.outcome == "changes"]
        same = len(orders) - len(changed)
        print(f"\norder by {kind.replace('_', ' ')}: {same} of {len(orders)} pairs the same")
        for c in changed:
            print(
                f"  {c.statement}: only in {' '.join(n for n in names if c.holds_by_technology[n])}"
            )


def _print_one(comparison: "Comparison") -> None:
    print(f"{comparison.technology}, {comparison.clock_mhz} MHz, real data; x: over FP-FP")
    print("operand registers are outside PEs, but for Anda buffered; tilewright claims: in all PEs")
    print_records(comparison.pes, COLUMNS)
    print()
    print_records(comparison.claims, CLAIMS)
    if comparison.decompression is not None:
        d = comparison.decompression
        print(
            f"\nall of {d.spec}, memories and loaders too: {d.area_um2 / d.lanes:.0f} um2 a lane,"
            f" {d.area_um2_per_weight:.0f} um2 per 4-bit weight decompressed a cycle"
        )
