"""Commands that measure functional coverage: run, write the record, print."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import simulation_of

__all__ = ["Reached", "show_coverage"]


class Reached(Protocol):
    """What was reached on one block."""

    def as_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Reached)


def show_coverage(
    args: argparse.Namespace,
    name: str,
    cover: Callable[..., Mapping[str, R]],
    *,
    everything: str,
    record: str,
    header: Iterable[str],
    rows: Callable[[Mapping[str, R]], list[tuple[str, ...]]],
) -> int:
    """Run ``cover`` on the blocks that were asked for; a record is of ``everything``."""
    from tilewright.studies.measured import write_measured

    if args.update_record and args.block:
        raise CommandError(f"--update-record measures {everything}: leave out --block")
    found = cover(args.block, simulation=simulation_of(args))
    data = {block: reached.as_dict() for block, reached in found.items()}
    if args.update_record:
        command = f"tilewright simulate {name} --update-record"
        write_measured(record, {"command": command, "seed": args.seed, "blocks": data})
    if args.json:
        print_json({"seed": args.seed, "coverage_by_block": data})
    else:
        print_table(tuple(header), rows(found))
    return 0
