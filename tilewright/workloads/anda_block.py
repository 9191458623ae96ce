"""The four linear modules of a real decoder layer on the simulated Anda accelerator.

Every module is a program: its activations, from real text, are compressed to its mantissa length
and multiplied with the int4 weights of its projections. Memory, counters and cycles are compared
with the golden machine, the products also with the golden GeMM.
"""

import argparse
from typing import TYPE_CHECKING, Any

from tilewright.console import print_table, progress
from tilewright.errors import CommandError
from tilewright.workloads import llm_block
from tilewright.workloads.llm_block import finish, read_layer
from tilewright.workloads.program import run_program

if TYPE_CHECKING:
    from golden.llm.block import Module
    from golden.params.anda_system import AndaParams

DEFAULT_BLOCK = "anda"
TOLERANCE = 0.01  # of the search whose lengths are taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    llm_block.add_arguments(parser)
    group = parser.add_argument_group("anda.block", f"on {DEFAULT_BLOCK} without --block")
    group.add_argument(
        "--mantissas",
        metavar="QKV,O,U,D",
        help="mantissa lengths of the modules [those that the committed search found for 1%%]",
    )


def run(args: argparse.Namespace) -> int:
    from golden.llm.on_anda import mantissas_of
    from golden.params.anda_system import AndaParams
    from golden.params.resolve import resolve

    args.on = args.on or DEFAULT_BLOCK
    params = resolve(args.on)
    if not isinstance(params, AndaParams):
        raise CommandError(f"anda.block runs on a block anda, not {params.block}")
    args.mantissas = args.mantissas or _searched()
    lengths = mantissas_of(args.mantissas)
    modules, _ = read_layer(args, params.rows)
    results = []
    with progress("anda.block", len(modules)) as tick:
        for name, module in modules.items():
            tick(name, steps=0)
            result = _run_module(args, params, name, module, getattr(lengths, name))
            if result is None:
                return 1
            results.append(result)
            tick()
    equal = all(result["equal"] for result in results)
    answer = {
        "block": params.slug,
        "model": args.model,
        "layer": args.layer,
        "tokens": params.rows,
        "equal": equal,
        "modules": results,
    }
    return finish(args, f" --mantissas {args.mantissas}", answer, _print)


def _searched() -> str:
    """The result of Anda's search on SmolLM2, as the record has it."""
    from tilewright.accuracy.records import load_record

    record = load_record("search")
    assert record is not None
    (best,) = (s["best"] for s in record["searches"] if s["tolerance"] == TOLERANCE)
    return ",".join(map(str, best["lengths"]))


def _run_module(
    args: argparse.Namespace, params: "AndaParams", name: str, module: "Module", mantissa: int
) -> dict[str, Any] | None:
    import numpy as np

    from golden.llm.on_anda import module_products, module_program

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
    verdict = "equal golden's" if answer["equal"] else "DIFFER from golden's"
    print(
        f"layer {answer['layer']} of {answer['model']}, {answer['tokens']} tokens"
        f" on {answer['block']}: memory, products and cycles {verdict}\n"
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
