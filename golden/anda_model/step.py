"""The program of a step: a token, or tokens of a prompt, through all layers."""

from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import Plan
from tilewright.golden.anda_model.prompt_step import PromptStep
from tilewright.golden.anda_model.token_step import TokenStep
from tilewright.golden.params.block import require

__all__ = ["layer_parts", "step_program"]


def step_program(
    plan: Plan, lines: Lines, first: int, count: int = 1, *, layers: int | None = None
) -> list[Instruction]:
    """Tokens from ``first`` on through all layers, or through so many of them.

    Several tokens begin a tile, and are at most a tile.
    """
    step = _step(plan, lines, first, count)
    step.write(plan.config.num_hidden_layers if layers is None else layers)
    return step.writer.program


def layer_parts(plan: Plan, lines: Lines, first: int, count: int = 1) -> dict[str, int]:
    """Numbers of the instructions with which the parts of a layer begin; ``end`` is behind it.

    Where there is no loop they are those of the first layer, and ``period`` is the length of one.
    """
    step = _step(plan, lines, first, count)
    step.write(plan.config.num_hidden_layers)
    return step.parts


def _step(plan: Plan, lines: Lines, first: int, count: int) -> TokenStep:
    most = plan.step_tokens
    require(1 <= count <= most, f"a step has 1..{most} tokens, not {count}")
    require(
        count == 1 or first % plan.params.rows == 0,
        f"a step of several tokens begins a tile of {plan.params.rows}, not at token {first}",
    )
    last = first + count - 1
    require(last < plan.context, f"token {last} is beyond the context of {plan.context}")
    return TokenStep(plan, lines, first) if count == 1 else PromptStep(plan, lines, first, count)
