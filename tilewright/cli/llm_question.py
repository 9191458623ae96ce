"""Options that ask about a language model: the model, the work, the machines and prices."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.errors import CommandError
from tilewright.cli.targets import add_target_arguments, block_of, settings_of

if TYPE_CHECKING:
    from tilewright.sim.serving import Question
    from tilewright.sim.workload import Batch

__all__ = ["add_question_arguments", "question_of"]


def add_question_arguments(parser: argparse.ArgumentParser) -> None:
    """Add everything that an answer depends on."""
    parser.add_argument(
        "model",
        nargs="?",
        default="",
        metavar="MODEL",
        help="a name (tilewright list models), or a config.json",
    )
    add_target_arguments(parser)
    parser.add_argument(
        "--tensor", type=int, metavar="N", help="sockets or accelerators that share each layer [1]"
    )
    parser.add_argument(
        "--pipeline", type=int, metavar="N", help="groups of them with layers of their own [1]"
    )
    parser.add_argument(
        "--kv", metavar="F", help="keys and values of a server in bf16, fp8, int8, ... [bf16]"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="sequences [1]")
    parser.add_argument(
        "--context", metavar="C", help="tokens of each sequence, or of several: 8x128,2x4096 [1024]"
    )
    parser.add_argument("--phase", help="decode (one more token) or prefill [decode]")
    parser.add_argument(
        "--prompt", metavar="P", help="tokens of a prompt that --tokens follow; instead of a step"
    )
    parser.add_argument("--tokens", type=int, metavar="N", help="that follow the prompt")
    parser.add_argument(
        "--chunk", type=int, metavar="N", help="tokens of a prompt in one pass [all of them]"
    )
    parser.add_argument(
        "--draft", metavar="MODEL", help="model that guesses tokens, which MODEL verifies at once"
    )
    parser.add_argument("--guesses", type=int, metavar="N", help="of a round of --draft [4]")
    parser.add_argument(
        "--acceptance", type=float, metavar="P", help="probability that a guess of it is right"
    )
    parser.add_argument(
        "--within", type=float, metavar="MS", help="the largest batch that takes no longer"
    )
    parser.add_argument(
        "--prices",
        metavar="NAME=DOLLARS,...",
        help="for dollars of a million tokens: hardware=9000,years=4 of a socket with its memory or"
        " of an accelerator, or hour=2.5 of its rent; energy=0.15 of a kWh, overhead=1.3 of the"
        " building, use=60%% of the time",
    )


def question_of(args: argparse.Namespace) -> "Question":
    """Return the question that the options ask."""
    from tilewright.sim.cost import parse_prices
    from tilewright.sim.serving import Question

    return Question(
        model=args.model,
        system=args.system,
        engine=args.engine,
        scheme=args.scheme,
        block=block_of(args),
        latency=args.latency,
        settings=settings_of(args),
        tensor=args.tensor,
        pipeline=args.pipeline,
        kv=args.kv,
        batch=args.batch,
        context=_tokens("--context", args.context),
        phase=args.phase,
        prompt=_tokens("--prompt", args.prompt),
        tokens=args.tokens,
        chunk=args.chunk,
        draft=args.draft,
        guesses=args.guesses,
        acceptance=args.acceptance,
        within_ms=args.within,
        prices=None if args.prices is None else parse_prices(args.prices),
    )


def _tokens(option: str, text: str | None) -> "int | Batch | None":
    from tilewright.sim.workload import Batch

    if text is None:
        return None
    if "x" in text:
        return Batch.parse(text)
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"{option} takes tokens, or 8x128,2x4096, not {text[:40]!r}") from None
