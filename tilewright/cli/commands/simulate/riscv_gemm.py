"""``tilewright simulate riscv.gemm``: a GEMM that a RISC-V processor starts from C."""

import argparse

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import add_simulation, add_update_record, simulation_of, yes_or_no

NAME = "riscv.gemm"
HELP = "a GEMM from C, on a RISC-V processor with an accelerator on AXI"
EXAMPLE = "tilewright simulate riscv.gemm --block anda:small --tokens 8"
SIZES = {"tokens": 4, "inputs": 64, "outputs": 32}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, metavar="N", help=f"[{size}]")
    parser.add_argument(
        "--latency", type=int, default=20, metavar="CYCLES", help="of the shared memory [20]"
    )
    text = "the accelerator reads its program from memory; without, the processor loads it"
    parser.add_argument("--stream", action="store_true", help=text)
    add_update_record(parser)
    add_simulation(parser, "anda:small; or a block harmonia")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.riscv.gemm import gemm_from_c
    from tilewright.studies.riscv.record import update_record

    options = {name: getattr(args, name) for name in (*SIZES, "latency")}
    simulation = simulation_of(args)
    if args.update_record:
        if args.block or args.stream or args.waves:
            raise CommandError(
                "the record has both accelerators and both kinds of program, without waves;"
                " --update-record goes without --block, --stream and --waves"
            )
        runs = update_record(NAME, simulation=simulation, **options)
    else:
        block = args.block or "anda:small"
        runs = [gemm_from_c(block, stream=args.stream, simulation=simulation, **options)]
    if args.json:
        print_json(runs if args.update_record else runs[0])
    else:
        print_table(
            ("BLOCK", "PROGRAM FROM", "ACCELERATOR", "GOLDEN", "DRIVER", "PROCESSOR", "EQUAL"),
            [
                (
                    run.block,
                    "memory" if run.stream else "processor",
                    f"{sum(run.program_cycles):,}",
                    f"{sum(run.golden_cycles):,}",
                    f"{run.driver_cycles:,}",
                    f"{run.total_cycles:,}",
                    yes_or_no(run.equal),
                )
                for run in runs
            ],
        )
        print("\ncycles of one clock, measured on Verilog; memory equals golden's")
    return 0 if all(run.equal for run in runs) else 1
