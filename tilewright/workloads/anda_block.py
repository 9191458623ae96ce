"""The four linear modules of a real decoder layer on the simulated Anda accelerator.

Every module is a program: its activations, from real text, are compressed to its mantissa length
and multiplied with the int4 weights of its projections. Memory, counters and cycles are compared
with the golden machine, the products also with the golden GeMM.
"""

import argparse
from typing import Any

from tilewright.console import print_json, print_table, progress
from tilewright.errors import CommandError
from tilewright.workloads import anda
from tilewright.workloads.llm_block import read_layer

DEFAULT_BLOCK = "anda"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("anda.block", f"on {DEFAULT_BLOCK} without --block")
    group.add_argument(
        "--mantissas", default="8,5,7,6", metavar="QKV,O,U,D", help="of the modules [8,5,7,6]"
    )


def run(args: argparse.Namespace) -> int:
    from golden.llm.block import mantissas_of
    from golden.params.anda_system import AndaParams
    from golden.params.resolve import resolve

    args.on = args.on or DEFAULT_BLOCK
    params = resolve(args.on)
    if not isinstance(params, AndaParams):
        raise CommandError(f"anda.block runs on a block anda, not {params.block}")
    lengths = mantissas_of(args.mantissas)
    modules, _ = read_layer(args, params.rows)
    results = []
    with progress("anda.block", len(modules)) as tick:
        for name, module in modules.items():
            tick(name, steps=0)
            results.append(_run_module(args, params, name, module, getattr(lengths, name)))
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
    print_json(answer) if args.json else _print(answer)
    return 0 if equal else 1


def _run_module(
    args: argparse.Namespace, params: Any, name: str, module: Any, mantissa: int
) -> dict[str, Any]:
    import numpy as np

    from golden.anda_system.cycles import program_cycles
    from golden.anda_system.executor import Machine
    from golden.llm.block import module_products, module_program

    builder, outputs = module_program(params, module, mantissa)
    wanted = builder.memory.copy()
    outcome = Machine(params, wanted).run(builder.program)
    got, numbers, failure = anda.simulate_program(
        args, args.on, params, builder.program, builder.memory
    )
    if failure is not None:
        raise CommandError(f"module {name}: {failure}")
    counts = outcome.counts | program_cycles(params, outcome, args.latency)
    model = {counter.name.lower(): value for counter, value in counts.items()}
    products = module_products(params, module, mantissa)
    as_gemm = all(
        np.array_equal(builder.read_output(got, outputs[part])[: len(want)], want)
        for part, want in products.items()
    )
    as_machine = np.array_equal(got, wanted) and numbers["counters"] | model == numbers["counters"]
    return {
        "module": name,
        "mantissa": mantissa,
        "inputs": module.activations.shape[1],
        "outputs": sum(len(linear.weight) for linear in module.linears.values()),
        "equal": bool(as_gemm and as_machine and numbers["status"]["error"] == "none"),
        "cycles": numbers["counters"]["cycles"],
        "golden_cycles": model["cycles"],
        "gemm_cycles": numbers["counters"]["gemm"],
        "lines_read": numbers["counters"]["lines_read"],
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
