"""Attention of a real decoder layer on the simulated Harmonia accelerator, head by head.

Queries, keys and values come from real text; every head is a program whose memory, counters and
cycles are compared with the golden machine, its results also with golden's cache and attention.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_table
from tilewright.base.errors import CommandError
from tilewright.studies.runs.llm_block import (
    block_asked_for,
    finish,
    read_layer,
    run_parts,
    verdict,
)
from tilewright.studies.runs.program import run_program

if TYPE_CHECKING:
    import numpy as np

    from tilewright.golden.llm.block import Attention
    from tilewright.golden.params.harmonia_machine import HarmoniaParams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("harmonia.block", "on harmonia without --block")
    group.add_argument(
        "--tokens", type=int, default=104, metavar="N", help="of the text, a quarter decoded [104]"
    )
    group.add_argument("--heads", type=int, metavar="N", help="only the first N heads [all]")


def run(args: argparse.Namespace) -> int:
    params = block_asked_for(args)
    modules, attention = read_layer(args, 1, args.tokens)
    heads = len(attention.q) if args.heads is None else args.heads
    if not 1 <= heads <= len(attention.q):
        raise CommandError(f"heads must be 1..{len(attention.q)}, not {heads}")
    output = modules["o"].weights["output"]
    parts = [
        (f"head {head}", partial(_run_head, args, params, attention, output, head))
        for head in range(heads)
    ]
    answer = {
        "block": params.slug,
        "model": args.model,
        "layer": args.layer,
        "tokens": args.tokens,
    }
    options = f" --tokens {args.tokens} --heads {heads} --latency {args.latency}"
    return finish(args, options, answer, ("heads", run_parts(args, parts)), _print)


def _run_head(
    args: argparse.Namespace,
    params: "HarmoniaParams",
    attention: "Attention",
    output: "np.ndarray",
    head: int,
) -> dict[str, Any] | None:
    import numpy as np

    from tilewright.golden.llm.on_harmonia import head_program, head_results

    program = head_program(params, attention, output, head)
    done = run_program(args, args.on, program.builder.program, program.builder.memory)
    if done is None:
        return None
    got, result = done
    attended = np.array_equal(program.attended(got), head_results(params, attention, head))
    halted = result["status"]["error"] == "none"
    return {
        "head": head,
        "equal": result["equal"] and attended and halted,
        "instructions": result["instructions"],
        "counters": result["counters"],
    }


def _print(answer: dict[str, Any]) -> None:
    print(
        f"attention of layer {answer['layer']} of {answer['model']}, {answer['tokens']} tokens"
        f" on {answer['block']}: memory, results and cycles {verdict(answer)}\n"
    )
    print_table(
        ("HEAD", "INSTRUCTIONS", "CYCLES", "LINES READ", "LINES WRITTEN", "EQUAL"),
        [
            (
                str(h["head"]),
                f"{h['instructions']:,}",
                *(f"{h['counters'][key]:,}" for key in ("cycles", "lines_read", "lines_written")),
                "yes" if h["equal"] else "no",
            )
            for h in answer["heads"]
        ],
    )
