"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, remark
from tilewright.cli.targets import add_target_arguments, target_of

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult

NAME = "llm"
HELP = "latency, tokens a second, bounds, energy and memory of a model on a system"
EXAMPLE = "tilewright llm llama-2-70b --system spr-hbm --scheme mxfp4 --batch 1 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model's name, or a config.json")
    add_target_arguments(parser)
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="sequences [1]")
    parser.add_argument(
        "--context", type=int, default=1024, metavar="C", help="tokens of each sequence [1024]"
    )
    parser.add_argument(
        "--phase", default="decode", help="decode (one more token) or prefill [decode]"
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.llm import answer_on
    from tilewright.sim.models import resolve_model

    found = answer_on(
        target_of(args),
        resolve_model(args.model),
        scheme=args.scheme,
        batch=args.batch,
        context=args.context,
        phase=args.phase,
    )
    if args.json:
        print_json(found)
    else:
        _print(found)
    return 0


def _print(found: "LlmResult") -> None:
    memory = found.memory_bytes
    use = ", ".join(f"{name} {100 * share:.0f}%" for name, share in found.utilisation.items())
    energy = ", ".join(f"{name} {joules:.3g} J" for name, joules in found.joules_by_part.items())
    engine = f" with {found.engine}" if found.engine else ""
    rows = [
        ("model", f"{found.model}, {found.parameters / 1e9:.2f} billion parameters"),
        ("system", f"{found.system}{engine}, scheme {found.scheme}"),
        *([("block", found.block)] if found.block else []),
        ("work", f"{found.phase}, batch {found.batch}, context {found.context}"),
        ("latency", _duration(found.latency_ms)),
        ("rate", f"{found.tokens_per_second:.2f} tokens/s"),
        ("use", use),
        ("bound by", found.bound),
        ("memory", f"weights {memory.weights / 1e9:.2f} GB, cache {memory.cache / 1e9:.3f} GB"),
        ("energy of a step", energy or "not modelled"),
    ]
    print_table(("WHAT", "VALUE"), rows)
    print()
    parts = found.ms_by_part.items()
    print_table(("PART", "MS"), [(name, f"{value:.3f}") for name, value in parts])
    for line in found.remarks:
        remark(f"tilewright: {line}")


def _duration(milliseconds: float) -> str:
    """In seconds from ten of them on."""
    if milliseconds < 1e4:
        return f"{milliseconds:.2f} ms"
    return f"{milliseconds / 1e3:.1f} s"
