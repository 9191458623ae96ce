"""The likeliest token on Anda, found by instructions of the vector unit."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.golden.anda_machine.builder import Tensor
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.hazards import first_hazard
from tilewright.golden.anda_machine.layout import fp16_rows, to_bytes
from tilewright.golden.anda_model.choice import (
    HeadRows,
    choice_of,
    choose,
    countdown,
    write_choice,
)
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import Plan
from tilewright.golden.anda_model.token_step import Writer
from tilewright.golden.bits import encode
from tilewright.golden.llm.tiny import SHAPES
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import Error

SMALL = AndaParams.preset("small")
PLAN = Plan(params=SMALL, config=replace(SHAPES["llama"], vocab_size=1000), context=16)
SIZE = PLAN.matrices["head"].part_tiles * PLAN.matrices["head"].columns


def chosen(logits: np.ndarray, plan: Plan = PLAN) -> list[int]:
    """Choices among fp16 logits (banks, vocabulary) that are loaded as the head leaves them."""
    p, lines, rows = plan.params, Lines(plan), HeadRows.of(plan)
    assert rows is not None
    b = Writer(plan, lines)
    content = {lines.end: np.tile(encode(FP16, countdown(plan)), (p.rows, 1))}
    size = plan.tensor_rows(SIZE)
    b.bring(Memory.ACTIVATIONS, rows.countdown, size, lines.end)
    for part in range(-(-logits.shape[1] // SIZE)):
        values = logits[:, part * SIZE : (part + 1) * SIZE].view(np.uint16)
        line, row = lines.logits + part * lines.logit_part, (2 + part % 2) * plan.region
        content[line] = values
        b.bring(Memory.ACTIVATIONS, row, plan.tensor_rows(values.shape[1]), line)
        choose(b, rows, part, Tensor(row, values.shape[1]))
    write_choice(b, rows)
    b.keep(rows.scratch, 2, lines.choice)
    b.emit(Opcode.HALT)
    start, code = lines.end + size, program_lines(p, b.program)
    memory = np.concatenate([np.zeros(start * p.line_bytes, np.uint8), code])
    for line, values in content.items():
        data = to_bytes(p, Memory.ACTIVATIONS, fp16_rows(p, values))
        memory[line * p.line_bytes :][: len(data)] = data
    assert first_hazard(p, b.program) is None
    assert Machine(p, memory).run_stream(start).error is Error.NONE
    return [choice_of(plan, lines, memory, bank) for bank in range(p.rows)]


def random(seed: int) -> np.ndarray:
    shape = (SMALL.rows, PLAN.config.vocab_size)
    return np.random.default_rng(seed).normal(0, 4, shape).astype(np.float16)


def test_there_are_many_parts():
    assert PLAN.config.vocab_size > 4 * SIZE and PLAN.config.vocab_size % SIZE


@pytest.mark.parametrize("seed", range(4))
def test_largest(seed):
    """Random logits; those of the last bank are all negative."""
    logits = random(seed)
    logits[-1] = -np.abs(logits[-1]) - 1
    assert chosen(logits) == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("value", [3.0, 0.0, -2.0, 2.0**-24, -(2.0**-24), 60000.0])
def test_the_first_of_equals(value):
    """Within a part and across parts; neighbours in the last place of any size are no equals."""
    logits = np.full((SMALL.rows, PLAN.config.vocab_size), -65504.0, np.float16)
    step = np.float16(value)
    logits[0, 7], logits[0, 9:100:13] = np.nextafter(step, np.float16(-np.inf)), step
    logits[1, SIZE + 3 :] = step
    assert chosen(logits) == [9, SIZE + 3]


def test_negative_zero_equals_zero():
    logits = np.full((SMALL.rows, PLAN.config.vocab_size), -1.0, np.float16)
    logits[:, 5], logits[:, 3 * SIZE] = -0.0, 0.0
    assert chosen(logits) == [5, 5]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 2 * SIZE, PLAN.config.vocab_size - 1])
def test_what_is_no_number_is_refused(value, place):
    logits = random(1)
    logits[0, place] = value
    with pytest.raises(ValueError, match=r"^a logit is NaN or infinite, so there is no likeliest"):
        chosen(logits)


def test_room():
    """Beyond 2,048 parts fp16 no longer counts by ones, and the host chooses."""
    wide = replace(SHAPES["llama"], vocab_size=1 << 20)
    assert HeadRows.of(Plan(params=SMALL, config=wide, context=16)) is None
