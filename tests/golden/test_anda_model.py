"""A whole tiny model on the small Anda accelerator: against the engine, and fast against exact."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.golden.anda_machine.block import Mantissas
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.hazards import first_hazard
from tilewright.golden.anda_model.choice import choice_of
from tilewright.golden.anda_model.head import head_program
from tilewright.golden.anda_model.image import constants, enter_tokens, logits_of
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.machine import ModelMachine
from tilewright.golden.anda_model.plan import Plan
from tilewright.golden.anda_model.reference import Reference
from tilewright.golden.anda_model.same_rounding import PLACES, SameRounding
from tilewright.golden.anda_model.step import layer_parts, step_program
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.machine import Error

SMALL, PAPER = AndaParams.preset("small"), AndaParams.preset("paper")
CLOSE = 0.06  # of the logits' spread: fp16 and approximations beside float32


class Setup:
    """A compiled tiny model, without files."""

    def __init__(self, model=None, params=SMALL, **options):
        self.model = model or tiny_model("llama")
        self.plan = Plan(params=params, config=self.model.config, context=48, **options)
        self.lines = Lines(self.plan, 1500)
        self.quantised, self.integers = quantised_model(self.model, self.plan, group=64)
        size = params.line_bytes
        self.image = np.zeros(self.lines.end * size, np.uint8)
        for _, line, data in constants(self.plan, self.lines, self.quantised, self.integers):
            self.image[line * size : line * size + len(data)] = data

    def start(self, machine, memory, program, *tokens):
        params = self.plan.params
        data, start = program_lines(params, program), self.lines.programs * params.line_bytes
        memory[start : start + len(data)] = data
        enter_tokens(self.plan, self.lines, memory, self.lines.programs, *tokens)
        outcome = machine.run_stream(self.lines.programs)
        assert outcome.error is Error.NONE
        return outcome

    def step(self, machine, memory, first, *tokens):
        program = step_program(self.plan, self.lines, first, len(tokens))
        return self.start(machine, memory, program, *tokens)

    def head(self, machine, memory):
        self.start(machine, memory, head_program(self.plan, self.lines))
        return logits_of(self.plan, self.lines, memory)


def with_biases():
    """A model of Qwen2's kind, whose queries, keys and values have biases of their size."""
    shape = replace(tiny_model("llama").config, model_type="qwen2", query_bias=True)
    model, rng = tiny_model(config=shape), np.random.default_rng(1)

    def biased(linear):
        return replace(linear, bias=rng.normal(size=len(linear.weight)).astype(np.float32))

    layers = [
        replace(x, query=biased(x.query), key=biased(x.key), value=biased(x.value))
        for x in model.layers
    ]
    return replace(model, layers=tuple(layers))


KINDS = pytest.mark.parametrize(
    "options",
    [
        {"weight_bits": 4},
        {"weight_bits": 8, "mantissas": Mantissas(9, 7, 8, 10)},
        {"weight_bits": 4, "model": with_biases()},
    ],
    ids=["4 bits", "8 bits", "biases"],
)


@KINDS
def test_logits_follow_the_engine(options):
    """Choices of the engine in the same formats, but for near ties, and logits close to its."""
    setup = Setup(**options)
    memory = setup.image.copy()
    machine = ModelMachine(setup.plan, setup.lines, memory)
    reference = Reference(setup.plan, setup.quantised)
    prompt, token, near = [72, 101, 108], 0, []
    for first in range(7):
        token = prompt[first] if first < len(prompt) else token
        want = reference.feed([token])[-1]
        setup.step(machine, memory, first, token)
        logits = setup.head(machine, memory)
        assert (logits == logits[0]).all()  # every bank has the token
        assert choice_of(setup.plan, setup.lines, memory, 0) == logits[0].argmax()
        near.append(np.sqrt(np.mean((logits[0] - want) ** 2)) / want.std())
        token = int(want.argmax())
        # Another choice is a near tie of the engine's own.
        assert want[token] - want[logits[0].argmax()] < 2 * CLOSE * want.std()
    assert max(near) < CLOSE


@KINDS
def test_every_bit_is_that_of_the_formulas(options):
    """Steps of two tokens, then single ones: logits of formulas that know no instruction."""
    setup = Setup(**options)
    memory = setup.image.copy()
    machine = ModelMachine(setup.plan, setup.lines, memory)
    tokens, got = [72, 101, 108, 3, 99, 7], []
    for first, count in ((0, 2), (2, 2), (4, 1), (5, 1)):
        setup.step(machine, memory, first, *tokens[first : first + count])
        got += list(setup.head(machine, memory)[:count])
    formulas = SameRounding(setup.plan, setup.quantised, setup.integers)
    assert np.array_equal(
        got, np.concatenate([formulas.feed(tokens[:3]), formulas.feed(tokens[3:])])
    )
    # Each place of rounding matters, and none of them much.
    for place in PLACES:
        others = [name for name in PLACES if name != place]
        found = SameRounding(setup.plan, setup.quantised, setup.integers, others).feed(tokens)
        assert 0 < np.sqrt(np.mean((found - got) ** 2)) < CLOSE * np.std(got)


def test_tokens_of_a_prompt_as_single_ones():
    """A tile that is not full too: the caches, and what follows, are those of single tokens.

    The norm's epsilon is none in fp16: a bank of zeros would have no norm.
    """
    shape = replace(tiny_model("llama").config, num_hidden_layers=1, norm_eps=1e-6)
    params = AndaParams.preset(
        "small", rows=4, activation_rows=2048, instructions=256, weight_rows=1024
    )
    model = tiny_model(config=shape)
    found = []
    for steps in (((0, 3), (3, 1), (4, 4)), [(first, 1) for first in range(8)]):
        setup = Setup(model, params=params)
        memory = setup.image.copy()
        machine = ModelMachine(setup.plan, setup.lines, memory)
        for first, count in steps:
            setup.step(machine, memory, first, *range(20 + first, 20 + first + count))
        caches = memory[setup.lines.caches * params.line_bytes :].view(np.float16)
        assert np.any(caches)
        found.append((caches, setup.head(machine, memory)[-1]))
    (several, logits), (single, wanted) = found
    assert np.array_equal(several, single) and np.array_equal(logits, wanted)


def test_where_prompts_pass_token_by_token():
    plan = Setup(single_tokens=True).plan
    assert plan.step_tokens == 1 and Lines(plan).rotated_tiles == 0
    with pytest.raises(ValueError, match=r"^a step has 1..1 tokens, not 2$"):
        step_program(plan, Lines(plan), 0, 2)
    shape = replace(tiny_model().config, num_attention_heads=5, num_key_value_heads=1)
    assert Plan(params=SMALL, config=shape, context=16).step_tokens == 1  # no room for queries


def test_fast_machine_is_the_executor():
    """Every memory, register, counter and line; the cache begins a second tile."""
    setup = Setup(weight_bits=4)
    slow, fast = setup.image.copy(), setup.image.copy()
    machines = Machine(SMALL, slow), ModelMachine(setup.plan, setup.lines, fast)
    for first, tokens in ((0, (3, 99)), (2, (7,)), (3, (5,))):
        one, other = (
            setup.step(machine, memory, first, *tokens)
            for machine, memory in zip(machines, (slow, fast), strict=True)
        )
        assert one.counts == other.counts and one.saturated == other.saturated
        for machine, memory in zip(machines, (slow, fast), strict=True):
            setup.head(machine, memory)
        machines[1].settle()
        assert np.array_equal(slow, fast)
        for name in ("scalars", "activations", "exponents", "weights", "scales"):
            assert np.array_equal(*(getattr(machine, name) for machine in machines))


@pytest.mark.parametrize("model", [None, with_biases()], ids=["plain", "biases"])
def test_programs_do_not_depend_on_timing(model):
    plan = Setup(model).plan
    lines = Lines(plan)
    for program in (
        *(step_program(plan, lines, first, layers=2) for first in (0, 1, 47)),
        *(step_program(plan, lines, first, 2, layers=2) for first in (0, 46)),
        head_program(plan, lines),
    ):
        assert first_hazard(SMALL, program) is None


def test_layers_are_a_loop_where_it_fits():
    """SmolLM2's layers at the paper's size, and tiny ones that the small memory cannot hold."""
    shape = replace(
        tiny_model("llama").config,
        num_hidden_layers=30,
        hidden_size=576,
        intermediate_size=1536,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
        vocab_size=49152,
    )
    for params, config, looped in ((PAPER, shape, True), (SMALL, tiny_model().config, False)):
        plan = Plan(params=params, config=config, context=64)
        parts = layer_parts(plan, Lines(plan), 40)
        program = step_program(plan, Lines(plan), 40)
        assert any(x.opcode.name == "LOOP" for x in program) == looped
        assert ("period" in parts) != looped
        assert parts["projections"] < parts["attention"] < parts["feed-forward"] < parts["end"]
        for first, count in ((40, 1), (32, plan.step_tokens), (0, plan.step_tokens - 1)):
            program = step_program(plan, Lines(plan), first, count, layers=2)
            assert first_hazard(params, program) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": 0}, "context must be 1..256, not 0"),
        ({"weight_bits": 5}, "weights have 4 or 8 bits, not 5"),
        ({"mantissas": Mantissas(8, 8, 17, 8)}, "a mantissa has 1..16 bits, not 17"),
        ({"params": AndaParams.preset("small", regions=2)}, "a model needs 4 regions .*, not 2"),
    ],
)
def test_refusals(change, message):
    options = {"params": SMALL, "config": tiny_model("llama").config, "context": 16} | change
    with pytest.raises(ValueError, match=f"^{message}$"):
        Plan(**options)


def test_only_what_the_programs_have():
    with pytest.raises(ValueError, match=r"^a model of type opt is not supported"):
        Plan(params=SMALL, config=tiny_model("opt").config, context=16)
    plan = Setup().plan
    for (first, count), message in {
        (0, 3): "a step has 1..2 tokens, not 3",
        (1, 2): "a step of several tokens begins a tile of 2, not at token 1",
        (48, 1): "token 48 is beyond the context of 48",
    }.items():
        with pytest.raises(ValueError, match=f"^{message}$"):
            step_program(plan, Lines(plan), first, count)
