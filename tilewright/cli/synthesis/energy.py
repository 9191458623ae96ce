"""``tilewright synth --energy``: power and energy of a DECA PE at the paper's clock."""

import argparse
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve_as
from tilewright.studies.deca_energy.run import CASES, IDLE, PERIOD, deca_energy_record
from tilewright.studies.pe.energy import ENERGY
from tilewright.synth.record import record_name, store_record
from tilewright.synth.technology import load_technology

__all__ = ["measure_energy"]


def measure_energy(args: argparse.Namespace) -> int:
    """Measure power and energy of a DECA PE at the paper's clock."""
    if args.block is None:
        raise CommandError("--energy needs a BLOCK that is a DECA PE, such as deca:small")
    params = resolve_as(DecaParams, args.block)
    technology = load_technology(args.tech or "asap7")
    with progress("energy", len([*CASES, IDLE])) as tick:
        record = deca_energy_record(args.block, technology, tick, gating=args.gating)
    if args.update_records:
        name = record_name(params, technology.name, gating=args.gating)
        store_record(ENERGY, technology.name, name, record)
    if args.json:
        print_json(record)
    else:
        print(f"{args.block} in {technology.name} at {1e3 / PERIOD:g} GHz; power in mW\n")
        _print_energy(record)
    return 0


def _print_energy(record: dict[str, Any]) -> None:
    names = ("internal", "switching", "clock", "memory", "leakage", "total", "least")
    rows = []
    for case, run in record["runs"].items():
        per_tile = run.get("cycles_per_tile", "-"), run.get("pj_per_tile", "-")
        rows.append((case, *per_tile, *(f"{run['power'][part]:.3f}" for part in names)))
    print_table(("RUN", "CYCLES/TILE", "PJ/TILE", *map(str.upper, names)), rows)
