"""The program of a step: a token, or tokens of a prompt, through all layers."""

from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.harmonia_model.prompt_step import PromptStep
from tilewright.golden.harmonia_model.token_step import TokenStep
from tilewright.golden.params.block import require

__all__ = ["layer_parts", "step_program"]


def step_program(
    plan: Plan, lines: Lines, first: int, count: int, *, layers: int | None = None
) -> list[Instruction]:
    """Tokens ``first`` to ``first + count - 1``, all of one tile of keys, through all layers.

    With ``layers`` only through so many: what makes a result depend on timing shows in two.
    """
    end = first + count
    require(
        count >= 1 and first // plan.step_tokens == (end - 1) // plan.step_tokens,
        f"a step has tokens of one tile of {plan.step_tokens}, not {first}..{end - 1}",
    )
    require(end <= plan.context, f"token {end - 1} is beyond the context of {plan.context}")
    step = _step(plan, lines, first, count)
    step.write(plan.config.num_hidden_layers if layers is None else layers)
    return step.writer.program


def layer_parts(plan: Plan, lines: Lines, first: int, count: int) -> dict[str, int]:
    """Numbers of the instructions with which the parts of a layer begin; ``end`` is behind it."""
    step = _step(plan, lines, first, count)
    step.write(plan.config.num_hidden_layers)
    return step.parts


def _step(plan: Plan, lines: Lines, first: int, count: int) -> PromptStep:
    alone = count == 1 and plan.shares_rows
    return TokenStep(plan, lines, first) if alone else PromptStep(plan, lines, first, count)
