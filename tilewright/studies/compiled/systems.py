"""Accelerators that models are compiled for: what plans, writes, runs and times their programs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.golden.params.resolve import resolve
from tilewright.sim.accelerator import Accelerator

__all__ = ["System", "system_of", "target_params"]


@dataclass(frozen=True)
class System:
    """What differs between accelerators; plans and lines are those of the accelerator's model."""

    name: str
    fields: Any  # of instructions, by opcode
    sources: tuple[str, ...]  # modules that an image depends on
    plan: Callable[..., Any]
    lines: Callable[..., Any]
    constants: Callable[..., Any]
    enter: Callable[..., None]  # names tokens in the program of a step
    logits_of: Callable[..., Any]
    step_program: Callable[..., list]
    head_program: Callable[..., list]
    layer_parts: Callable[..., dict[str, int]]
    machine: Callable[..., Any]
    program_cycles: Callable[..., dict]
    timeline: Callable[..., list]
    first_hazard: Callable[..., Any]
    disassemble: Callable[..., str]
    chooses: Callable[[Any], bool]  # whether programs of a plan find the likeliest token
    choice_of: Callable[..., int]
    activations: Callable[[Any], str]  # the format of a plan's activations, in words
    about: Callable[[Any], dict[str, Any]]  # what else the manifest says of a plan
    accelerator: Callable[[Any], Accelerator]  # clock and energies, of a plan
    units: tuple[str, ...]  # counters of their busy cycles


def target_params(target: str) -> Any:
    """The parameters of the accelerator that a target names."""
    params = resolve(target)
    if params.block not in _SYSTEMS:
        raise CommandError(f"compile runs on a block {' or '.join(_SYSTEMS)}, not {params.block}")
    return params


def system_of(params: Any) -> System:
    """The system of an accelerator's parameters."""
    return _SYSTEMS[params.block]()


@cache
def _harmonia() -> System:
    from tilewright.golden.harmonia_machine.assembler import disassemble
    from tilewright.golden.harmonia_machine.cycles import program_cycles, timeline
    from tilewright.golden.harmonia_machine.hazards import first_hazard
    from tilewright.golden.harmonia_model import choice, head, image, step
    from tilewright.golden.harmonia_model.lines import Lines
    from tilewright.golden.harmonia_model.machine import ModelMachine
    from tilewright.golden.harmonia_model.plan import Plan
    from tilewright.golden.params.harmonia_machine import INSTRUCTION_FIELDS
    from tilewright.sim.accelerator import harmonia

    parts = ("choice", "head", "image", "lines", "plan", "prompt_step", "quantised", "step")
    names = [*(f"harmonia_model.{part}" for part in (*parts, "token_step", "writer"))]
    names.append("harmonia_machine.builder")
    return System(
        name="harmonia",
        fields=INSTRUCTION_FIELDS,
        sources=tuple(f"tilewright.golden.{name}" for name in names),
        plan=Plan,
        lines=Lines,
        constants=image.constants,
        enter=image.enter_tokens,
        logits_of=image.logits_of,
        step_program=step.step_program,
        head_program=head.head_program,
        layer_parts=step.layer_parts,
        machine=ModelMachine,
        program_cycles=program_cycles,
        timeline=timeline,
        first_hazard=first_hazard,
        disassemble=disassemble,
        chooses=lambda plan: choice.HeadRows.of(plan) is not None,
        choice_of=choice.choice_of,
        activations=lambda plan: (
            f"block floating point, 8-bit mantissas, groups of {plan.params.group}"
        ),
        about=lambda plan: {"cache": asdict(plan.params.cache)},
        accelerator=lambda plan: harmonia(plan.params),
        units=("load", "gemm", "vector", "convert", "store"),
    )


@cache
def _anda() -> System:
    from tilewright.golden.anda_machine.assembler import disassemble
    from tilewright.golden.anda_machine.cycles import program_cycles, timeline
    from tilewright.golden.anda_machine.hazards import first_hazard
    from tilewright.golden.anda_model import choice, head, image, step
    from tilewright.golden.anda_model.lines import Lines
    from tilewright.golden.anda_model.machine import ModelMachine
    from tilewright.golden.anda_model.plan import Plan
    from tilewright.golden.params.anda_machine import INSTRUCTION_FIELDS
    from tilewright.sim.accelerator import anda

    def activations(plan: Any) -> str:
        lengths = "/".join(map(str, asdict(plan.mantissas).values()))
        return f"Anda, mantissas of {lengths} bits (qkv, o, u, d), groups of {plan.params.group}"

    parts = ("choice", "head", "image", "lines", "plan", "prompt_step", "step", "token_step")
    names = [f"anda_model.{part}" for part in parts]
    names += ["anda_machine.attention_writer", "harmonia_model.quantised"]
    return System(
        name="anda",
        fields=INSTRUCTION_FIELDS,
        sources=tuple(f"tilewright.golden.{name}" for name in names),
        plan=Plan,
        lines=Lines,
        constants=image.constants,
        enter=image.enter_tokens,
        logits_of=image.logits_of,
        step_program=step.step_program,
        head_program=head.head_program,
        layer_parts=step.layer_parts,
        machine=ModelMachine,
        program_cycles=program_cycles,
        timeline=timeline,
        first_hazard=first_hazard,
        disassemble=disassemble,
        chooses=lambda plan: choice.HeadRows.of(plan) is not None,
        choice_of=choice.choice_of,
        activations=activations,
        about=lambda plan: {
            "mantissas": asdict(plan.mantissas),
            "single_tokens": plan.single_tokens,
            "cache": "fp16",
        },
        accelerator=lambda plan: anda(asdict(plan.mantissas), plan.params),
        units=("load", "gemm", "vector", "store"),
    )


_SYSTEMS: dict[str, Callable[[], System]] = {"harmonia": _harmonia, "anda": _anda}
