"""Attention of a real decoder layer on the simulated Harmonia accelerator, head by head.

Queries, keys and values come from real text; every head is a program whose memory, counters and
cycles are compared with the golden machine, its results also with golden's cache and attention.
"""

import argparse
from typing import Any

from tilewright.console import print_table, progress
from tilewright.errors import CommandError
from tilewright.workloads.llm_block import finish, read_layer
from tilewright.workloads.program import run_program

DEFAULT_BLOCK = "harmonia"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("harmonia.block", f"on {DEFAULT_BLOCK} without --block")
    group.add_argument(
        "--tokens", type=int, default=104, metavar="N", help="of the text, a quarter decoded [104]"
    )
    group.add_argument("--heads", type=int, metavar="N", help="only the first N heads [all]")


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from golden.llm.on_harmonia import head_program, head_results
    from golden.params.harmonia_system import HarmoniaParams
    from golden.params.resolve import resolve

    args.on = args.on or DEFAULT_BLOCK
    params = resolve(args.on)
    if not isinstance(params, HarmoniaParams):
        raise CommandError(f"harmonia.block runs on a block harmonia, not {params.block}")
    modules, attention = read_layer(args, 1, args.tokens)
    heads = len(attention.q) if args.heads is None else args.heads
    if not 1 <= heads <= len(attention.q):
        raise CommandError(f"heads must be 1..{len(attention.q)}, not {heads}")
    results = []
    with progress("harmonia.block", heads) as tick:
        for head in range(heads):
            tick(f"head {head}", steps=0)
            program = head_program(params, attention, modules["o"].weights["output"], head)
            done = run_program(args, args.on, program.builder.program, program.builder.memory)
            if done is None:
                return 1
            got, result = done
            attended = np.array_equal(program.attended(got), head_results(params, attention, head))
            halted = result["status"]["error"] == "none"
            results.append(
                {
                    "head": head,
                    "equal": result["equal"] and attended and halted,
                    "instructions": result["instructions"],
                    "counters": result["counters"],
                }
            )
            tick()
    equal = all(result["equal"] for result in results)
    answer = {
        "block": params.slug,
        "model": args.model,
        "layer": args.layer,
        "tokens": args.tokens,
        "equal": equal,
        "heads": results,
    }
    options = f" --tokens {args.tokens} --heads {heads} --latency {args.latency}"
    return finish(args, options, answer, _print)


def _print(answer: dict[str, Any]) -> None:
    verdict = "equal golden's" if answer["equal"] else "DIFFER from golden's"
    print(
        f"attention of layer {answer['layer']} of {answer['model']}, {answer['tokens']} tokens"
        f" on {answer['block']}: memory, results and cycles {verdict}\n"
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
