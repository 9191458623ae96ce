"""The four linear modules of a real decoder layer on the simulated Anda accelerator.

Every module is a program: its activations, from real text, are compressed to its mantissa length
and multiplied with the int4 weights of its projections. Memory, counters and cycles are compared
with the golden machine, the products also with the golden GeMM.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_table
from tilewright.studies.runs import llm_block
from tilewright.studies.runs.llm_block import (
    block_asked_for,
    finish,
    read_layer,
    run_parts,
    verdict,
)
from tilewright.studies.runs.program import run_program

if TYPE_CHECKING:
    from tilewright.golden.llm.block import Module
    from tilewright.golden.params.anda_machine import AndaParams

TOLERANCE = 0.01  # of the search whose lengths are taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    llm_block.add_arguments(parser)
    group = parser.add_argument_group("anda.block", "on anda without --block")
    group.add_argument(
        "--mantissas",
        metavar="QKV,O,U,D",
        help="mantissa lengths of the modules [those that the committed search found for 1%%]",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.llm.on_anda import mantissas_of

    params = block_asked_for(args)
    args.mantissas = args.mantissas or _searched()
    lengths = mantissas_of(args.mantissas)
    modules, _ = read_layer(args, params.rows)
    parts = [
        (name, partial(_run_module, args, params, name, module, getattr(lengths, name)))
        for name, module in modules.items()
    ]
    answer = {
        "block": params.slug,
        "model": args.model,
        "layer": args.layer,
        "tokens": params.rows,
    }
    options = f" --mantissas {args.mantissas}"
    return finish(args, options, answer, ("modules", run_parts(args, parts)), _print)


def _searched() -> str:
    """The result of Anda's search on SmolLM2, as the record has it."""
    from tilewright.studies.accuracy.records import load_record

    record = load_record("search")
    assert record is not None
    (best,) = (s["best"] for s in record["searches"] if s["tolerance"] == TOLERANCE)
    return ",".join(map(str, best["lengths"]))


def _run_module(
    args: argparse.Namespace, params: "AndaParams", name: str, module: "Module", mantissa: int
) -> dict[str, Any] | None:
    import numpy as np

    from tilewright.golden.llm.on_anda import module_products, module_program

    builder, outputs = module_program(params, module, mantissa)
    done = run_program(args, args.on, builder.program, builder.memory)
    if done is None:
        return None
    got, result = done
    products_equal = all(
        np.array_equal(builder.read_output(got, outputs[part])[: len(want)], want)
        for part, want in module_products(params, module, mantissa).items()
    )
    counters = result["counters"]
    return {
        "module": name,
        "mantissa": mantissa,
        "inputs": module.activations.shape[1],
        "outputs": sum(weights.outputs for weights in module.integers.values()),
        "equal": result["equal"] and products_equal and result["status"]["error"] == "none",
        "cycles": counters["cycles"],
        "gemm_cycles": counters["gemm"],
        "lines_read": counters["lines_read"],
    }


def _print(answer: dict[str, Any]) -> None:
    print(
        f"layer {answer['layer']} of {answer['model']}, {answer['tokens']} tokens"
        f" on {answer['block']}: memory, products and cycles {verdict(answer)}\n"
    )
    print_table(
        ("MODULE", "M", "INPUTS", "OUTPUTS", "CYCLES", "OF GEMM", "LINES READ", "EQUAL"),
        [
            (
                f"A_{m['module']}",
                str(m["mantissa"]),
                *(f"{m[key]:,}" for key in ("inputs", "outputs", "cycles", "gemm_cycles")),
                f"{m['lines_read']:,}",
                "yes" if m["equal"] else "no",
            )
            for m in answer["modules"]
        ],
    )
