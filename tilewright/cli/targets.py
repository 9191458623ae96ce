"""Options that say which machine a performance model is asked about."""

import argparse
from typing import TYPE_CHECKING

from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.resolve import resolve

if TYPE_CHECKING:
    from tilewright.golden.params.block import BlockParams
    from tilewright.sim.target import Target

__all__ = ["add_target_arguments", "block_of", "settings_of", "target_of"]


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which machine, and how weights or activations are stored in it."""
    parser.add_argument(
        "--system",
        metavar="S",
        help="name (see tilewright list systems), or a TOML file that describes a server or an"
        " accelerator [spr-hbm]",
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE,...",
        dest="settings",
        help="override fields of the system, such as cores=86,clock=2.0GHz,bandwidth=844GB/s;"
        " tilewright list NAME shows those of a server",
    )
    parser.add_argument(
        "--engine",
        metavar="E",
        help="what decompresses on a server: deca, software, optimal, ... [deca]",
    )
    parser.add_argument(
        "--scheme",
        metavar="X",
        help="weight format on a server: mxfp4, bf8_30%%, ... or FILE.py:CLASS of yours [mxfp4];"
        " on anda, mantissa lengths such as 7/7/6/5",
    )
    parser.add_argument(
        "--block",
        metavar="BLOCK",
        help="size of the hardware: the DECA of each core, such as deca,lanes=16,luts=4, or an"
        " accelerator as built, such as harmonia,line_bytes=256,dma_lines=64",
    )
    parser.add_argument(
        "--latency",
        type=int,
        metavar="N",
        help=f"memory latency of block anda or harmonia, in cycles [{LATENCY}]",
    )


def block_of(args: argparse.Namespace) -> "BlockParams | None":
    """Return the block that the options name."""
    return None if args.block is None else resolve(args.block)


def settings_of(args: argparse.Namespace) -> "dict[str, str] | None":
    """Return the fields that ``--set`` changes."""
    from tilewright.sim.system import parse_settings

    return None if args.settings is None else parse_settings(args.settings)


def target_of(args: argparse.Namespace) -> "Target":
    """Return the machine that the options name."""
    from tilewright.sim.target import resolve_target

    return resolve_target(
        args.system,
        engine=args.engine,
        block=block_of(args),
        latency=args.latency,
        settings=settings_of(args),
    )
