"""A language model as programs of Harmonia: its plan, its programs, its fast executor."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.harmonia.attention import attend
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.hazards import first_hazard
from tilewright.golden.harmonia_model.fast_blocks import encoded
from tilewright.golden.harmonia_model.fast_vector import (
    FUNCTIONS,
    arithmetic,
    largest,
    reduced,
    table,
)
from tilewright.golden.harmonia_model.head import head_program
from tilewright.golden.harmonia_model.image import constants, enter_tokens, logits_of
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.machine import ModelMachine
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.harmonia_model.prompt_step import PromptStep, entering_load
from tilewright.golden.harmonia_model.quantised import codes, halved, quantised_model
from tilewright.golden.harmonia_model.reference import Reference
from tilewright.golden.harmonia_model.step import step_program
from tilewright.golden.harmonia_model.token_step import TokenStep
from tilewright.golden.llm.tiny import SHAPES, tiny_model
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.machine.vector import elementwise, reduce_tensor
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia_machine import Conversion, Memory, Opcode, Operand
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import dequantise

SMALL = resolve("harmonia:small")
# Root mean square of the difference of logits, in standard deviations of the reference's own:
# fp16 beside float32 and approximated functions, through two layers with outlying channels.
CLOSE = 0.05


def plan_of(**changes):
    usual = {"params": SMALL, "config": tiny_model().config, "context": 40}
    return Plan(**(usual | changes))


class Setup:
    """A tiny model's image without programs, which are written where they are needed."""

    def __init__(self, **changes):
        self.model = tiny_model()
        self.plan = plan_of(**changes)
        self.lines = Lines(self.plan, 120)
        self.quantised, head = quantised_model(self.model, self.plan, group=64)
        size = SMALL.line_bytes
        self.image = np.zeros(self.lines.end * size, np.uint8)
        for _, line, data in constants(self.plan, self.lines, self.quantised, head):
            self.image[line * size : line * size + len(data)] = data

    def start(self, machine, memory, program, tokens=()):
        data, start = program_lines(SMALL, program), self.lines.programs * SMALL.line_bytes
        memory[start : start + len(data)] = data
        enter_tokens(self.plan, self.lines, memory, self.lines.programs, *tokens)
        outcome = machine.run_stream(self.lines.programs)
        assert outcome.error is Error.NONE
        return outcome

    def step(self, machine, memory, first, tokens):
        program = step_program(self.plan, self.lines, first, len(tokens))
        return self.start(machine, memory, program, tokens)

    def head(self, machine, memory, token, tile=0):
        self.start(machine, memory, head_program(self.plan, self.lines, tile))
        return logits_of(self.plan, self.lines, memory)[token % SMALL.rows]


@pytest.mark.parametrize("bits", [4, 8])
def test_logits_follow_the_engine(bits):
    """A prompt and three tokens: the same choices as the engine's, and logits close to its."""
    setup = Setup(weight_bits=bits)
    memory = setup.image.copy()
    machine = ModelMachine(setup.plan, setup.lines, memory)
    prompt = [72, 101, 108]
    reference = Reference(setup.plan, setup.quantised, len(prompt))
    tokens, first = prompt, 0
    for _ in range(4):
        want = reference.feed(tokens)[-1]
        setup.step(machine, memory, first, tokens)
        first += len(tokens)
        got = setup.head(machine, memory, first - 1, (len(tokens) - 1) // SMALL.rows)
        assert np.sqrt(np.mean((got - want) ** 2)) < CLOSE * want.std()
        assert got.argmax() == want.argmax()
        tokens = [int(want.argmax())]


def test_fast_machine_is_the_executor():
    """Every memory, register, counter and line, for steps of one and of several tokens."""
    setup = Setup(weight_bits=4)
    slow, fast = setup.image.copy(), setup.image.copy()
    machines = Machine(SMALL, slow), ModelMachine(setup.plan, setup.lines, fast)
    rng = np.random.default_rng(1)
    for first, count in ((0, 3), (3, 1), (4, 4), (28, 1), (32, 2)):
        tokens = rng.integers(0, 128, count)
        one, other = (
            setup.step(machine, memory, first, tokens)
            for machine, memory in zip(machines, (slow, fast), strict=True)
        )
        assert one.counts == other.counts
        assert one.saturated == other.saturated
        assert [s.instruction.encode() for s in one.trace] == [
            s.instruction.encode() for s in other.trace
        ]
        for machine, memory in zip(machines, (slow, fast), strict=True):
            setup.head(machine, memory, first)
        machines[1].settle()
        assert np.array_equal(slow, fast)
        assert np.array_equal(machines[0].scalars, machines[1].scalars)
        for memory in Memory:
            assert np.array_equal(machines[0].memories[memory], machines[1].memories[memory])


class Entering(Machine):
    """Notes the tokens' rows when the first layer begins."""

    def _execute(self, x):
        if x.opcode is Opcode.CONVERT and self.entered is None:
            self.entered = self.memories[Memory.FP16].copy()
        return super()._execute(x)


@pytest.mark.parametrize(("first", "tokens"), [(0, [127, 0, 9, 127]), (5, [64]), (2, [3, 126])])
def test_embeddings_are_looked_up_by_loads(first, tokens):
    """Every token's vector in fp16 lies in its bank, and in banks without one that of another."""
    setup = Setup(weight_bits=4)
    machine = Entering(SMALL, setup.image.copy())
    machine.entered = None
    setup.step(machine, machine.external.reshape(-1), first, tokens)
    rows, words = SMALL.rows, setup.plan.width_words
    want = setup.model.embedding.astype(np.float16).view(np.uint16)
    for tile in range(first // rows, (first + len(tokens) - 1) // rows + 1):
        row = setup.plan.tokens_row(tile - first // rows)
        got = by_bank(machine.entered[row : row + words])
        places = range(max(first, tile * rows), first + len(tokens))
        for bank in range(rows):
            # A bank without a token has the first one of its tile.
            place = tile * rows + bank
            token = tokens[(place if place in places else places[0]) - first]
            assert np.array_equal(got[bank], want[token]), (tile, bank)


def test_hosts_name_tokens_in_the_loads_that_a_step_begins_with():
    plan = plan_of()
    program = step_program(plan, Lines(plan), 0, 4)
    assert all(program[entering_load(k)].opcode is Opcode.LOAD for k in range(4))
    assert all(program[entering_load(k) - 1].opcode is Opcode.CONFIGURE for k in range(4))
    with pytest.raises(ValueError, match=r"^token 128 is not in the vocabulary of 128$"):
        Lines(plan).embedding(128)


class Recorder(ModelMachine):
    """Notes queries, keys, values and results of the first head of the first layer."""

    def watch(self, lane):
        self.lane, self.seen, self.row = lane, {}, None

    def _execute(self, x):
        kind = None
        if x.opcode is Opcode.CONVERT and x["conversion"] == Conversion.KEYS:
            kind = "keys"
        elif x.opcode is Opcode.CONVERT and x["conversion"] == Conversion.VALUES:
            kind = "values"
        elif (
            x.opcode is Opcode.GEMM and x["operand"] == Operand.KEYS and "queries" not in self.seen
        ):
            channels = self.plan.config.head_dim // 2
            halves = [
                self._tensor(self.plan.projections_row(0) + k * self.plan.rotated_words, channels)
                for k in range(2)
            ]
            self.seen["queries"] = np.concatenate([h[self.lane] for h in halves])
        if kind and kind not in self.seen:
            count = SMALL.converter.loops if kind == "values" else 1
            rows = self._tensor(x["source"], x["elements"], count)
            self.seen[kind] = rows[self.place if kind == "values" else self.lane].copy()
        error = super()._execute(x)
        if x.opcode is Opcode.GEMM and x["operand"] == Operand.VALUES:
            self.row = x["destination"] if self.row is None else self.row
        # The last word on a head's results is the division by the sum of its powers.
        is_result = x.opcode is Opcode.VECTOR and x["destination"] == self.row
        if is_result and x["operation"] == Operation.MULTIPLY and "result" not in self.seen:
            result = self._tensor(self.row, self.plan.config.head_dim)
            self.seen["result"] = result[0].copy()  # heads that share keys are in banks
        return error


def test_attention_is_golden():
    """Tokens one by one through all ages of the cache: a head's results, bit by bit."""
    setup = Setup(weight_bits=4)
    memory = setup.image.copy()
    machine = Recorder(setup.plan, setup.lines, memory)
    cache = KvCache(SMALL.cache, setup.plan.config.head_dim)
    tokens = np.random.default_rng(2).integers(0, 128, 32)
    assert len(tokens) > SMALL.initial + SMALL.local
    for position, token in enumerate(tokens):
        machine.place = position % SMALL.group
        machine.watch(position % SMALL.rows)
        setup.step(machine, memory, position, [token])
        seen = machine.seen
        cache.append(seen["keys"][np.newaxis], seen["values"][np.newaxis])
        want = attend(SMALL.numerics, cache, seen["queries"][np.newaxis])
        assert np.array_equal(want[0], seen["result"])


@pytest.mark.parametrize(
    ("spec", "scores"), [("harmonia:small", 2), ("harmonia:small,halves_rows=240", 1)]
)
def test_heads_in_rows_have_the_bits_of_heads_alone(spec, scores):
    """A decoded token and all caches, in every bit, through all ages of the cache."""
    params = resolve(spec)
    setup = Setup(weight_bits=4, params=params)
    plan, lines = setup.plan, setup.lines
    assert plan.shares_rows and len(TokenStep(plan, lines, 5).score_rows) == scores
    images = setup.image.copy(), setup.image.copy()
    machines = [ModelMachine(plan, lines, image) for image in images]
    rng = np.random.default_rng(7)
    kept = [slice(lines.tokens(0), lines.choice), slice(lines.caches, lines.end)]
    for token in range(plan.context):
        word = int(rng.integers(0, 128))
        alone = PromptStep(plan, lines, token, 1)
        alone.write(2)
        for program, machine, image in zip(
            (step_program(plan, lines, token, 1), alone.writer.program),
            machines,
            images,
            strict=True,
        ):
            setup.start(machine, image, program, [word])
        one, other = (image.reshape(-1, params.line_bytes) for image in images)
        bank = token % params.rows
        for lines_of in kept:
            left, right = (x[lines_of].reshape(-1).view(np.uint16) for x in (one, other))
            if lines_of is kept[0]:  # other banks hold what nobody reads
                left, right = (
                    x.reshape(-1, params.rows, params.word_values)[:, bank] for x in (left, right)
                )
            assert np.array_equal(left, right), token


def test_no_program_depends_on_timing():
    plan = plan_of()
    lines = Lines(plan, 120)
    steps = [*((first, 1) for first in range(plan.context)), (0, 2), (0, 3), (0, 4), (36, 4)]
    for first, count in steps:
        program = step_program(plan, lines, first, count, layers=2)
        assert first_hazard(SMALL, program) is None
        assert len(program) <= SMALL.longest_loop
    for tile in range(plan.step_tiles):
        assert first_hazard(SMALL, head_program(plan, lines, tile)) is None


# The vector unit by numpy.


def special(rng, shape):
    """fp16 patterns with every kind of value among them."""
    values = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    kinds = np.array([0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x7BFF], np.uint16)
    return np.where(rng.random(shape) < 0.2, rng.choice(kinds, shape), values)


def by_bank(words):
    return words.swapaxes(0, 1).reshape(words.shape[1], -1)


@pytest.mark.parametrize("operation", [Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY])
def test_arithmetic(operation):
    rng = np.random.default_rng(3)
    a, b = (special(rng, (400, 8, 4)) for _ in range(2))
    with np.errstate(all="ignore"):
        assert np.array_equal(arithmetic(operation, a, b), elementwise(operation, a, b))


@pytest.mark.parametrize("finite", [False, True])
def test_reductions(finite):
    rng = np.random.default_rng(4)
    for elements in (4, 5, 63, 64):
        shape = (-(-elements // 4), 8, 4)
        a, b = (special(rng, shape) for _ in range(2))
        if finite:
            a, b = rng.standard_normal((2, *shape)).astype(np.float16).view(np.uint16)
        with np.errstate(all="ignore"):
            found = {
                Operation.LARGEST: largest(a, elements),
                Operation.SUM: reduced(a, None, elements, 0x2E66),
                Operation.DOT: reduced(a, b, elements, 0x2E66),
            }
        for operation, got in found.items():
            want = reduce_tensor(operation, by_bank(a), by_bank(b), elements, 4, 0x2E66)
            assert np.array_equal(got, want), operation


def test_functions():
    patterns = np.arange(1 << 16, dtype=np.uint16)
    for operation in FUNCTIONS:
        assert np.array_equal(table(operation), elementwise(operation, patterns))


def test_blocks():
    rng = np.random.default_rng(6)
    for shape in ((8, 64), (8, 61), (3, 5, 32)):
        values = special(rng, shape)
        for content in (values, values & 0x83FF, values & 0xBFFF):  # subnormals; finite
            blocks, saturated = encoded(content, 32)
            want = bfp.encode(BlockFormat(group=32, mantissa_bits=8), content, saturate=True)
            for name in ("sign", "mantissa", "exponent", "length"):
                assert np.array_equal(getattr(blocks, name), getattr(want, name))
            assert saturated == bool(((content & 0x7FFF) > 0x7BFF).any())


# Weights.


def test_weights_of_8_bits_are_two_of_4():
    rng = np.random.default_rng(5)
    weights = codes(rng.standard_normal((6, 64)).astype(np.float32), 32)
    halves = halved(weights, 8)
    assert halves.inputs == 2 * weights.inputs
    both = dequantise(halves)
    assert np.array_equal(both[:, :64] + both[:, 64:], dequantise(weights))


# Refusals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"context": 0}, "context must be 1..256, not 0"),
        ({"weight_bits": 5}, "weights have 4 or 8 bits, not 5"),
        (
            {"params": resolve("harmonia")},
            "head_dim is 16; on harmonia it must be a multiple of 64",
        ),
        ({"config": replace(SHAPES["opt"], name="o")}, "a model of type opt is not supported"),
        (
            {"config": replace(SHAPES["llama"], hidden_size=60, name="odd")},
            "hidden_size is 60, no multiple of 8",
        ),
        (
            {"params": resolve("harmonia:small,operand_rows=160")},
            "qkv: 64 inputs of 4 bits need 8 operand rows",
        ),
        (
            {"params": resolve("harmonia:small,halves_rows=180")},
            r"a layer with 40 tokens needs \d+ fp16 rows",
        ),
    ],
)
def test_refused_plans(changes, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        plan_of(**changes)


def test_refused_steps():
    plan = plan_of()
    with pytest.raises(ValueError, match=r"^a step has tokens of one tile of 4, not 3\.\.4$"):
        step_program(plan, Lines(plan), 3, 2)
    with pytest.raises(ValueError, match=r"^token 40 is beyond the context of 40$"):
        step_program(plan, Lines(plan), 40, 1)
