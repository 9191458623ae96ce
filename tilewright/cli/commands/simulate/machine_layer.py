"""``tilewright simulate machine.layer``: a decoder layer on an accelerator."""

import argparse
from dataclasses import replace

from tilewright.base.table import Table
from tilewright.cli.options import MEMORY, adder
from tilewright.cli.workloads import UPDATE, Outcome, add_simulation, finish, simulation_of
from tilewright.golden.machine.moves import LATENCY

NAME = "machine.layer"
HELP = "a decoder layer of a real model on Anda or Harmonia: a prompt, then token by token"
EXAMPLE = (
    "tilewright simulate machine.layer --model tiny-llama --block anda:small --tokens 32 --steps 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("--tokens N", "tokens of the text, a sixteenth of them decoded one by one", 104)
    add("--steps N", "run the last N steps", 8)
    add("--model MODEL", "GGUF file, Hugging Face folder or name", "smollm2")
    add("--layer L", "layer of the model", 0)
    add("--memory M", MEMORY)
    add("--latency N", f"latency of the flat memory in cycles [{LATENCY}]")
    add(*UPDATE)
    add_simulation(parser, "harmonia")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.machine_layer import layer_on_machine

    block, simulation = args.block or "harmonia", simulation_of(args)
    if not args.waves and args.simulator != "icarus":  # which the host in C++ does not have
        simulation = replace(simulation, host="native")
    done = layer_on_machine(
        block,
        model=args.model,
        layer=args.layer,
        tokens=args.tokens,
        steps=args.steps,
        latency=args.latency,
        memory=args.memory,
        simulation=simulation,
    )
    verdict = "equal golden's" if done.equal else "DIFFER from golden's"
    heading = (
        f"layer {done.layer} of {done.model}, {done.tokens} tokens"
        f" on {done.block}: memory, counters and cycles {verdict}"
    )
    columns = {
        **{"TOKEN": "first", "TOKENS": "tokens", "INSTRUCTIONS": "instructions:,"},
        **{"CYCLES": "counters.cycles:,", "LINES READ": "counters.lines_read:,"},
        **{"LINES WRITTEN": "counters.lines_written:,", "EQUAL": "equal"},
    }
    options = f"--block {block} --tokens {args.tokens} --steps {len(done.steps)}"
    options += f" --latency {LATENCY if args.latency is None else args.latency} "
    table = Table.of(done.steps, columns)
    outcome = Outcome(done, table, heading, done.equal, vars(done), options)
    return finish(args, NAME, outcome, f"{block.partition(':')[0]}_layer")
