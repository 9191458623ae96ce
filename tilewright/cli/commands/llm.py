"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress, show
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder
from tilewright.cli.tables import print_answers, print_csv, show_remarks
from tilewright.cli.targets import add_target_arguments, block_of, settings_of, system_of

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult, Question
    from tilewright.sim.workload import Batch

NAME = "llm"
HELP = "latency, tokens a second, bounds, energy and memory of a model on a system"
_AS_THEY_ARE = (  # options that are fields of a question
    *("model", "engine", "scheme", "latency", "memory", "kv", "batch", "phase", "tokens"),
    *("chunk", "draft", "guesses", "acceptance"),
)
EXAMPLE = "tilewright llm llama-2-70b --on spr-hbm --scheme mxfp4 --batch 1 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    _add_question_arguments(parser)
    add(
        "--sweep NAME=VALUES...",
        "a row for each value of batch, context, prompt, tokens, model, system, engine,"
        " scheme, kv, phase, ... or of a field of --set, such as batch=1..64 or 1..64*2 or 1,8 or"
        " bandwidth=400GB/s,800GB/s",
    )
    add("--plot FILE", "draw the sweep as SVG")
    add("--csv", "print comma-separated values")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.serving import ask

    if args.csv and args.json:
        raise CommandError("--csv does not go with --json")
    question = _question_of(args)
    axes = _axes(args)
    if not question.model and "model" not in axes:
        raise CommandError("give a MODEL; tilewright list models names those that are known")
    found = [ask(question)] if not axes else _sweep(args, question, axes)
    if args.csv:
        print_csv(found)
        show_remarks(found)
    elif args.json:
        print_json(found if axes else found[0])
    elif axes:
        print_answers(found)
        show_remarks(found)
    else:
        _print_answer(found[0])
    return 0


def _axes(args: argparse.Namespace) -> dict[str, tuple[int | str, ...]]:
    from tilewright.sim.sweep import parse_axis

    axes: dict[str, tuple[int | str, ...]] = {}
    for name, values in map(parse_axis, args.sweep or ()):
        if name in axes:
            raise CommandError(f"--sweep names {name} more than once")
        axes[name] = values
    if not axes and args.plot is not None:
        raise CommandError("--plot goes with --sweep")
    return axes


def _sweep(
    args: argparse.Namespace, question: "Question", axes: dict[str, tuple[int | str, ...]]
) -> "list[LlmResult | GenerationResult]":
    from tilewright.sim.sweep import points_of, sweep
    from tilewright.site.llm_plot import check_plot, plot_sweep

    if args.plot is not None:
        check_plot(args.plot)
    with progress("sweep", prod(map(len, axes.values()))) as tick:
        found = sweep(question, axes, tick)
    if args.plot is not None:
        plot_sweep(found, points_of(question, axes), args.plot)
    return found


def _add_question_arguments(parser: argparse.ArgumentParser) -> None:
    """Add everything that an answer depends on."""
    add = adder(parser)
    add("model MODEL", "name (see tilewright list models) or config.json", "", nargs="?")
    add_target_arguments(parser)
    add("--kv F", "format of a server's KV cache: bf16, fp8, int8, ... [bf16]")
    add("--batch N", "number of sequences [1]")
    add("--context C", "tokens per sequence, or groups such as 8x128,2x4096 [1024]")
    add("--phase PHASE", "decode (one more token) or prefill [decode]")
    add("--prompt P", "length of a prompt; with --tokens, in place of one step")
    add("--tokens N", "tokens generated after --prompt")
    add("--chunk N", "process the prompt N tokens at a time [all at once]")
    add("--draft MODEL", "small model that drafts tokens for speculative decoding")
    add("--guesses N", "tokens drafted per verification step [4]")
    add("--acceptance P", "probability that a drafted token is accepted", type=float)
    add("--within MS", "find the largest batch whose step takes at most MS", type=float)


def _question_of(args: argparse.Namespace) -> "Question":
    """Return the question that the options ask."""
    from tilewright.sim.serving import Question

    return Question(
        **{name: getattr(args, name) for name in _AS_THEY_ARE},
        system=system_of(args),
        block=block_of(args),
        settings=settings_of(args),
        context=_tokens("--context", args.context),
        prompt=_tokens("--prompt", args.prompt),
        within_ms=args.within,
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


def _print_answer(found: "LlmResult | GenerationResult") -> None:
    """Print one answer, and what there is to remark about it."""
    from tilewright.sim.llm import LlmResult

    show(found.report)
    if isinstance(found, LlmResult):
        print(f"\n{found.parts}")
    show_remarks([found])
