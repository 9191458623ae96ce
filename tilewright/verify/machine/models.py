"""Compiled programs of a language model on an accelerator: bits, counters and cycles."""

from typing import Any

from tilewright.verify.machine.check import check_program
from tilewright.verify.machine.model_workload import model_cases
from tilewright.verify.session import Session, system_test


@system_test
async def steps_of_a_model(s: Session) -> None:
    """Prompts, tokens, batches, heads."""
    await check_models(s)


async def check_models(s: Session, **formats: Any) -> None:
    """Without stalls all programs, cycle for cycle; the last one with every stall."""
    cases = [(0.0, case) for case in model_cases(s.params, s.job.seed, **formats)]
    cases += [(stall, cases[-1][1]) for stall in s.job.stalls if stall]
    for number, (stall, case) in enumerate(cases):
        with s.case(f"{case.name}, stall {stall:g}"):
            program, seed = case.program.instructions, s.job.seed + number
            await check_program(s, program, case.memory, seed=seed, stall=stall, line=case.line)
