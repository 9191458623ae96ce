"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, remark
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.sim.programs import Built

NAME = "llm"
HELP = "latency, tokens a second, bounds, energy and memory of a model on a system"
DEFAULT_SYSTEM = "spr-hbm"
EXAMPLE = "tilewright llm llama-2-70b --system spr-hbm --scheme mxfp4 --batch 1 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model's name, or a config.json")
    add_system_arguments(parser)
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="sequences [1]")
    parser.add_argument(
        "--context", type=int, default=1024, metavar="C", help="tokens of each sequence [1024]"
    )
    parser.add_argument(
        "--phase", default="decode", help="decode (one more token) or prefill [decode]"
    )


def add_system_arguments(parser: argparse.ArgumentParser) -> None:
    """Which machine, and how weights or activations are stored in it."""
    parser.add_argument(
        "--system",
        metavar="S",
        help=f"spr-ddr, spr-hbm, anda, harmonia, fp-fp, ... [{DEFAULT_SYSTEM}]",
    )
    parser.add_argument(
        "--engine", metavar="E", help="of a Xeon: deca, software, optimal, ... [deca]"
    )
    parser.add_argument(
        "--scheme",
        metavar="X",
        help="of a Xeon: mxfp4, bf8_30%%, ... [mxfp4]; of anda: mantissa lengths like 7/7/6/5",
    )
    parser.add_argument(
        "--block",
        metavar="BLOCK",
        help="anda or harmonia as built, with the memory port and the buffers of this block, such"
        " as harmonia,line_bytes=256,dma_lines=64; gemm counts the cycles of its programs",
    )
    parser.add_argument(
        "--latency", type=int, metavar="N", help="of that block's memory, in cycles [30]"
    )


def built_block(args: argparse.Namespace) -> "Built | None":
    """The accelerator that ``--block`` names, behind a memory of ``--latency``."""
    if args.block is None:
        if args.latency is not None:
            raise CommandError("--latency goes with --block")
        return None
    from tilewright.golden.params.resolve import resolve
    from tilewright.sim.programs import LATENCY, Built

    params: Any = resolve(args.block)
    if params.block not in ("anda", "harmonia"):
        raise CommandError(f"--block must be anda or harmonia, not {params.block}")
    if args.system not in (None, params.block) or args.engine is not None:
        raise CommandError(f"--block {args.block} is the system; leave --system and --engine out")
    latency = LATENCY if args.latency is None else args.latency
    if latency < 1:
        raise CommandError(f"latency must be at least 1, not {latency}")
    return Built(params, latency)


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.llm import answer
    from tilewright.sim.models import resolve_model

    built = built_block(args)
    found = answer(
        resolve_model(args.model),
        built.params.block if built else args.system or DEFAULT_SYSTEM,
        built=built,
        scheme=args.scheme,
        engine=args.engine,
        batch=args.batch,
        context=args.context,
        phase=args.phase,
    )
    if args.json:
        print_json(found)
    else:
        _print(found)
    return 0


def _print(found: dict[str, Any]) -> None:
    memory = found["memory_bytes"]
    use = ", ".join(f"{name} {100 * share:.0f}%" for name, share in found["utilisation"].items())
    energy = ", ".join(f"{name} {joules:.3g} J" for name, joules in found["energy_joules"].items())
    engine = f" with {found['engine']}" if found["engine"] else ""
    rows = [
        ("model", f"{found['model']}, {found['parameters'] / 1e9:.2f} billion parameters"),
        ("system", f"{found['system']}{engine}, scheme {found['scheme']}"),
        ("work", f"{found['phase']}, batch {found['batch']}, context {found['context']}"),
        ("latency", _duration(found["latency_ms"])),
        ("rate", f"{found['tokens_per_second']:.2f} tokens/s"),
        ("use", use),
        ("bound by", found["bound"]),
        (
            "memory",
            f"weights {memory['weights'] / 1e9:.2f} GB, cache {memory['cache'] / 1e9:.3f} GB",
        ),
        ("energy of a step", energy or "not modelled"),
    ]
    print_table(("WHAT", "VALUE"), rows)
    print()
    print_table(
        ("PART", "MS"), [(name, f"{value:.3f}") for name, value in found["parts_ms"].items()]
    )
    for line in found["remarks"]:
        remark(f"tilewright: {line}")


def _duration(milliseconds: float) -> str:
    """In seconds from ten of them on."""
    if milliseconds < 1e4:
        return f"{milliseconds:.2f} ms"
    return f"{milliseconds / 1e3:.1f} s"
