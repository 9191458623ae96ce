"""Counted loops: the next instruction, and the contents of the index registers.

A loop repeats the instructions after it. An index register is the sum of iteration times stride
over the loops around an instruction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.params.machine import INDICES, LINE_FIELD, LOOP_LEVELS, STRIDE_BITS

AnyInstruction = TypeVar("AnyInstruction", bound=BaseInstruction)


class Fetch(NamedTuple):
    """The way to an instruction."""

    number: int  # of the instruction in the program
    turns: int  # loops that went back or ended on the way to it
    base: int  # the first instruction that may still be fetched, now or later


@dataclass
class Level:
    """A loop that runs."""

    left: int  # remaining iterations
    start: int  # the first instruction of the body
    end: int  # the one after its last
    strides: tuple[int, ...]
    before: tuple[int, ...]  # index registers, as they were


class Loops:
    """The loops that run, and the index registers."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.indices: tuple[int, ...] = (0,) * INDICES

    def problem(self, x: BaseInstruction, number: int) -> str | None:
        """Why a loop at ``number`` cannot begin."""
        if len(self.levels) == LOOP_LEVELS:
            return f"is within {LOOP_LEVELS} others already"
        if self.levels and number + 1 + x["body"] > self.levels[-1].end:
            return "ends after the loop around it"
        return None

    def enter(self, x: BaseInstruction, number: int) -> None:
        """Begin the loop at ``number``."""
        strides = tuple(signed(x[f"stride{k + 1}"]) for k in range(INDICES))
        body = number + 1
        self.levels.append(Level(x["count"] - 1, body, body + x["body"], strides, self.indices))

    def go_on(self, number: int) -> Fetch:
        """From the instruction after the last one to the next."""
        turns = 0
        while self.levels and number == self.levels[-1].end:
            turns += 1
            level = self.levels[-1]
            if level.left:
                level.left -= 1
                number = level.start
                self.indices = tuple(
                    (i + s) % (1 << LINE_FIELD)
                    for i, s in zip(self.indices, level.strides, strict=True)
                )
            else:
                self.indices = level.before
                self.levels.pop()
        return Fetch(number, turns, self.levels[0].start if self.levels else number)

    def effective(self, x: AnyInstruction) -> AnyInstruction:
        """The instruction with index registers added to its addresses."""
        if not x.moved:
            return x
        fields = dict(x.fields)
        for address, name, mask in x.moves:
            fields[address] = (fields[address] + self.indices[fields[name] - 1]) & mask
            fields[name] = 0
        # Its fields are valid since those of ``x`` are; skipping the checks saves time.
        made: AnyInstruction = object.__new__(type(x))
        made.__dict__.update(opcode=x.opcode, fields=fields, origin=x)
        return made


def signed(stride: int) -> int:
    """The value of a stride's field."""
    return stride - (stride >> (STRIDE_BITS - 1) << STRIDE_BITS)


def walk(program: Sequence[AnyInstruction]) -> Iterator[tuple[int, AnyInstruction, str | None]]:
    """Instructions in the order of execution: number, instruction, and why a loop cannot begin.

    Ends with the program's text, or with a loop that cannot begin or is empty.
    """
    loops = Loops()
    number = 0
    while number < len(program):
        x = program[number]
        if x.opcode.name == "LOOP":
            problem = loops.problem(x, number)
            if number + 1 + x["body"] > len(program):
                problem = "ends after the program"
            yield number, x, problem
            if problem or not x["count"] or not x["body"]:
                return
            loops.enter(x, number)
        else:
            yield number, loops.effective(x), None
        number = loops.go_on(number + 1).number
