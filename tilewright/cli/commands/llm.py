"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.llm_tables import contexts_text, print_csv, print_rows, show_remarks
from tilewright.cli.targets import add_target_arguments, block_of, settings_of, system_of

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult, Question
    from tilewright.sim.workload import Batch

NAME = "llm"
HELP = "latency, tokens a second, bounds, energy and memory of a model on a system"
EXAMPLE = "tilewright llm llama-2-70b --system spr-hbm --scheme mxfp4 --batch 1 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_question_arguments(parser)
    parser.add_argument(
        "--sweep",
        action="append",
        metavar="NAME=VALUES",
        help="a row for each value of batch, context, prompt, tokens, model, system, engine,"
        " scheme, kv, phase, ... or of a field of --set, such as batch=1..64 or 1..64*2 or 1,8 or"
        " bandwidth=400GB/s,800GB/s; repeatable",
    )
    parser.add_argument("--plot", metavar="FILE", type=Path, help="plot the sweep (SVG, PNG, PDF)")
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


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
        print_rows(found)
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
    parser.add_argument(
        "model",
        nargs="?",
        default="",
        metavar="MODEL",
        help="name (see tilewright list models) or config.json",
    )
    add_target_arguments(parser)
    parser.add_argument(
        "--kv", metavar="F", help="format of a server's KV cache: bf16, fp8, int8, ... [bf16]"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="number of sequences [1]")
    parser.add_argument(
        "--context", metavar="C", help="tokens per sequence, or groups such as 8x128,2x4096 [1024]"
    )
    parser.add_argument("--phase", help="decode (one more token) or prefill [decode]")
    parser.add_argument(
        "--prompt", metavar="P", help="length of a prompt; with --tokens, in place of one step"
    )
    parser.add_argument("--tokens", type=int, metavar="N", help="tokens generated after --prompt")
    parser.add_argument(
        "--chunk", type=int, metavar="N", help="process the prompt N tokens at a time [all at once]"
    )
    parser.add_argument(
        "--draft", metavar="MODEL", help="small model that drafts tokens for speculative decoding"
    )
    parser.add_argument(
        "--guesses", type=int, metavar="N", help="tokens drafted per verification step [4]"
    )
    parser.add_argument(
        "--acceptance", type=float, metavar="P", help="probability that a drafted token is accepted"
    )
    parser.add_argument(
        "--within",
        type=float,
        metavar="MS",
        help="find the largest batch whose step takes at most MS",
    )


def _question_of(args: argparse.Namespace) -> "Question":
    """Return the question that the options ask."""
    from tilewright.sim.serving import Question

    return Question(
        model=args.model,
        system=system_of(args),
        engine=args.engine,
        scheme=args.scheme,
        block=block_of(args),
        latency=args.latency,
        settings=settings_of(args),
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

    engine = f" with {found.engine}" if found.engine else ""
    active = ""
    if found.active_parameters < 0.75 * found.parameters:
        active = f", {found.active_parameters / 1e9:.2f} billion for a token"
    memory = found.memory_bytes
    rows = [
        ("model", f"{found.model}, {found.parameters / 1e9:.2f} billion parameters{active}"),
        ("system", f"{found.system}{engine}, scheme {found.scheme}"),
        *([("block", found.block)] if found.block else []),
        *(_step(found) if isinstance(found, LlmResult) else _generation(found)),
        ("efficiency", _efficiency(found)),
        (
            "memory",
            f"weights {memory.weights / 1e9:.2f} GB, cache {memory.cache / 1e9:.3f} GB"
            f" in {found.kv_format}",
        ),
    ]
    print_table(("WHAT", "VALUE"), rows)
    if isinstance(found, LlmResult):
        print()
        parts = found.ms_by_part.items()
        print_table(("PART", "MS"), [(name, f"{value:.3f}") for name, value in parts])
    show_remarks([found])


def _efficiency(found: "LlmResult | GenerationResult") -> str:
    area = found.tokens_per_second_per_mm2
    dies = "area not known" if area is None else f"{area:.3g} tokens/s/mm2"
    return f"{found.tokens_per_second_per_watt:.3g} tokens/s/W, {dies}"


def _step(found: "LlmResult") -> list[tuple[str, str]]:
    use = ", ".join(f"{name} {100 * share:.0f}%" for name, share in found.utilisation.items())
    energy = ", ".join(f"{name} {joules:.3g} J" for name, joules in found.joules_by_part.items())
    return [
        ("work", f"{found.phase}, batch {found.batch}, context {contexts_text(found)}"),
        ("latency", _duration(found.latency_ms)),
        ("rate", f"{found.tokens_per_second:.2f} tokens/s"),
        ("use", use),
        ("bound by", found.bound),
        ("energy of a step", energy or "not modelled"),
    ]


def _generation(found: "GenerationResult") -> list[tuple[str, str]]:
    return [
        ("work", f"batch {found.batch}, prompt {contexts_text(found)}, then {found.tokens} tokens"),
        ("first token", _first(found)),
        ("each other token", f"{_duration(found.token_ms)}, the last {found.last_token_ms:.2f} ms"),
        ("total", _duration(found.total_ms)),
        ("rate", f"{found.tokens_per_second:.2f} new tokens/s"),
        ("energy", f"{found.joules_per_token:.3g} J a new token"),
    ]


def _first(found: "GenerationResult") -> str:
    longest = ""
    if found.longest_pass_ms < found.first_token_ms:
        longest = f", in passes of at most {_duration(found.longest_pass_ms)}"
    return _duration(found.first_token_ms) + longest


def _duration(milliseconds: float) -> str:
    """In seconds from ten of them on."""
    if milliseconds < 1e4:
        return f"{milliseconds:.2f} ms"
    return f"{milliseconds / 1e3:.1f} s"
