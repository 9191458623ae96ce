"""Options that say which machine a performance model is asked about."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.errors import CommandError
from tilewright.cli.options import MEMORY, adder
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.resolve import BLOCKS, resolve

if TYPE_CHECKING:
    from tilewright.golden.params.block import BlockParams
    from tilewright.sim.target import Target


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which machine, and how weights or activations are stored in it."""
    add = adder(parser)
    add(
        "--on --system S",
        "name (see tilewright list systems), a TOML file that describes a server or an"
        " accelerator, or an accelerator's block, such as harmonia:small [spr-hbm]",
        dest="system",
    )
    add(
        "--set FIELD=VALUE,...",
        "override fields of the system, such as cores=86,clock=2.0GHz,bandwidth=844GB/s;"
        " tilewright list NAME shows those of a server",
    )
    add("--engine E", "decompressor on a server: deca, software, optimal, ... [deca]")
    add(
        "--scheme X",
        "weight format on a server: mxfp4, bf8_30%%, ... or FILE.py:CLASS of yours [mxfp4];"
        " on anda, mantissa lengths such as 7/7/6/5",
    )
    add(
        "--block BLOCK",
        "the DECA of each core of a server, such as deca,lanes=16,luts=4; of an accelerator"
        " the same as --on",
    )
    add("--memory M", MEMORY)
    add("--latency N", f"memory latency of block anda or harmonia, in cycles [{LATENCY}]")


def system_of(args: argparse.Namespace) -> str | None:
    """Return the system that the options name, None where they name a block."""
    return None if _names_a_block(args.system) else args.system


def block_of(args: argparse.Namespace) -> "BlockParams | None":
    """Return the block that the options name."""
    if not _names_a_block(args.system):
        return None if args.block is None else resolve(args.block)
    if args.block is not None:
        raise CommandError(f"--on {args.system} is a block; leave --block out")
    return resolve(args.system)


def _names_a_block(text: str | None) -> bool:
    """Whether a text has a preset or fields; a name alone is a system's."""
    if text is None or text.endswith(".toml"):
        return False
    head = text.partition(",")[0].partition(":")[0]
    return head != text and head in BLOCKS


def settings_of(args: argparse.Namespace) -> "dict[str, str] | None":
    """Return the fields that ``--set`` changes."""
    from tilewright.sim.system import parse_settings

    return None if args.set is None else parse_settings(args.set)


def target_of(args: argparse.Namespace) -> "Target":
    """Return the machine that the options name."""
    from tilewright.sim.target import resolve_target

    return resolve_target(
        system_of(args),
        engine=args.engine,
        block=block_of(args),
        latency=args.latency,
        memory=args.memory,
        settings=settings_of(args),
    )
