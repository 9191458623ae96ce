"""The likeliest token, found by instructions of the vector unit."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.hazards import first_hazard
from tilewright.golden.harmonia_machine.layout import halves_rows, to_bytes
from tilewright.golden.harmonia_model.choice import (
    HeadRows,
    choice_of,
    choice_tables,
    choose_of_part,
    choose_part,
)
from tilewright.golden.harmonia_model.head import head_program
from tilewright.golden.harmonia_model.image import constants, logits_of
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.harmonia_model.writer import Writer
from tilewright.golden.llm.tiny import SHAPES, tiny_model
from tilewright.golden.params.harmonia_machine import Memory, Opcode
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve

SMALL = resolve("harmonia:small")
PLAN = Plan(params=SMALL, config=SHAPES["llama"], context=16)


def _chosen(logits: np.ndarray, plan: Plan = PLAN) -> list[int]:
    """Choices among fp16 logits (banks, vocabulary) that are loaded as the head leaves them."""
    p, lines, rows = plan.params, Lines(plan), HeadRows.of(plan)
    assert rows is not None
    memory = np.zeros(lines.end * p.line_bytes, np.uint8)

    def put(line: int, data: np.ndarray) -> None:
        memory[line * p.line_bytes :][: len(data)] = data

    for line, data in zip(lines.choice_tables, choice_tables(plan), strict=True):
        put(line, data)
    size = plan.matrices["head"].part_tiles * p.columns
    b = Writer(plan, lines)
    b.all_lanes()
    b.bring(Memory.FP16, rows.ones, 1 + size // p.word_values, lines.choice_tables[0])
    b.bring(Memory.FP16, rows.parts, plan.head_parts, lines.choice_tables[1])
    for part in range(plan.head_parts):
        values = logits[:, part * size : (part + 1) * size].astype(np.float16).view(np.uint16)
        line = lines.logits + part * lines.logit_part
        padded = np.zeros((p.rows, size), np.uint16)  # zeros, which are above negative logits
        padded[:, : values.shape[1]] = values
        put(line, to_bytes(p, Memory.FP16, halves_rows(p, padded)))
        b.bring(Memory.FP16, rows.logits[part % 2], size // p.word_values, line)
        choose_of_part(b, rows, part, values.shape[1], whole=False)
    choose_part(b, rows, plan.head_parts, lines.choice)
    b.emit(Opcode.HALT)
    assert Machine(p, memory).run(b.program).error is Error.NONE
    return [choice_of(plan, lines, memory, bank) for bank in range(p.rows)]


def _random(seed: int, plan: Plan = PLAN) -> np.ndarray:
    shape = (plan.params.rows, plan.config.vocab_size)
    return np.random.default_rng(seed).normal(0, 4, shape).astype(np.float16)


@pytest.mark.parametrize("seed", range(4))
def test_largest(seed):
    """Random logits; those of the last bank are all negative, below what fills the head up."""
    logits = _random(seed)
    logits[-1] = -np.abs(logits[-1]) - 1
    assert _chosen(logits) == logits.argmax(axis=1).tolist()


def test_a_vocabulary_that_fills_no_part():
    plan = Plan(params=SMALL, config=replace(SHAPES["llama"], vocab_size=101), context=16)
    logits = -np.abs(_random(5, plan)) - 1
    assert _chosen(logits, plan) == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("value", [3.0, 0.0, -2.0, 2.0**-24, -(2.0**-24), 60000.0])
def test_the_first_of_equals(value):
    """Within a part and across parts; neighbours in the last place of any size are no equals."""
    logits = np.full((SMALL.rows, PLAN.config.vocab_size), -65504.0, np.float16)
    step = np.float16(value)
    logits[0, 7], logits[0, 9:100:13] = np.nextafter(step, np.float16(-np.inf)), step
    logits[1, 90:] = step
    assert _chosen(logits) == [9, 90]


def test_negative_zero_equals_zero():
    logits = np.full((SMALL.rows, PLAN.config.vocab_size), -1.0, np.float16)
    logits[:, 5], logits[:, 70] = -0.0, 0.0
    assert _chosen(logits) == [5, 5]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused(value):
    logits = _random(1)
    logits[0, 40] = value
    with pytest.raises(ValueError, match=r"^a logit is NaN or infinite, so there is no likeliest"):
        _chosen(logits)


def test_room():
    """Beyond 2,048 fp16 counts no longer by ones, and the host chooses."""
    assert HeadRows.of(PLAN) is not None
    wide = replace(SHAPES["llama"], vocab_size=1 << 20)
    assert HeadRows.of(Plan(params=SMALL, config=wide, context=16)) is None


@pytest.mark.parametrize("words", [600, 620, 700, 64])
def test_the_heads_program_chooses(words):
    """Logits in a loop over many parts, an even or odd number of them, or in one."""
    config = replace(SHAPES["llama"], vocab_size=words)
    plan = Plan(params=SMALL, config=config, context=16, head_bits=4)
    lines = Lines(plan)
    model, head = quantised_model(tiny_model(config=config), plan, group=8)
    memory = np.zeros(lines.end * SMALL.line_bytes, np.uint8)
    for _, line, data in constants(plan, lines, model, head):
        memory[line * SMALL.line_bytes :][: len(data)] = data
    vectors = np.random.default_rng(words).normal(0, 1, (SMALL.rows, 64)).astype(np.float16)
    left = to_bytes(SMALL, Memory.FP16, halves_rows(SMALL, vectors.view(np.uint16)))
    memory[lines.tokens(0) * SMALL.line_bytes :][: len(left)] = left
    program = head_program(plan, lines)
    assert first_hazard(SMALL, program) is None
    assert Machine(SMALL, memory).run(program).error is Error.NONE
    logits = logits_of(plan, lines, memory)
    assert len(set(logits[0])) > words // 2
    for bank in range(SMALL.rows):
        assert choice_of(plan, lines, memory, bank) == logits[bank].argmax()
