"""Compiled models against engines that know no machine, and both golden executors."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.compiler.compile import Options, compile_model
from tilewright.compiler.folder import open_folder
from tilewright.compiler.head import choice_of, logits_of
from tilewright.compiler.host import Runner
from tilewright.compiler.machine import machine_of
from tilewright.compiler.quantise import codes, halved, quantised_model
from tilewright.compiler.sizes import Step
from tilewright.golden.anda_machine.reference import RoundedModel
from tilewright.golden.anda_machine.reference import reference as anda_reference
from tilewright.golden.harmonia.attention import attend
from tilewright.golden.harmonia.cache import cached
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.reference import reference as harmonia_reference
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.text import default_text
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.anda_machine import Mantissas
from tilewright.golden.params.harmonia_machine import Conversion, Opcode, Operand
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import dequantise
from tilewright.verify.machine.model_workload import ModelWork, layer_shape

SMALL = resolve("anda:small"), resolve("harmonia:small")
# Root mean square of the difference of logits, in standard deviations of the reference's own:
# fp16 instead of float32 and approximated functions, through two layers with outlying channels.
CLOSE = 0.05
PROMPT = [72, 101, 108]


def with_biases():
    """A model of Qwen2's kind, whose queries, keys and values have biases."""
    shape = replace(tiny_model().config, model_type="qwen2", query_bias=True)
    model, rng = tiny_model(config=shape), np.random.default_rng(1)

    def biased(linear):
        return replace(linear, bias=rng.normal(size=len(linear.weight)).astype(np.float32))

    layers = [
        replace(x, query=biased(x.query), key=biased(x.key), value=biased(x.value))
        for x in model.layers
    ]
    return replace(model, layers=tuple(layers))


KINDS = pytest.mark.parametrize(
    ("bits", "model"),
    [(4, tiny_model()), (8, tiny_model()), (4, with_biases())],
    ids=["4 bits", "8 bits", "biases"],
)
LENGTHS = Mantissas(9, 7, 8, 10)


def quantised(model, bits):
    return quantised_model(model, weight_bits=bits, head_bits=bits, group=64)


def fed(work, first, tokens):
    """Logits after the last of the tokens, which are one step."""
    step = Step.prompt(first, len(tokens))
    work.step(step, tokens=tokens)
    tiles = work.machine.tiles(step)
    work.head(step, len(tiles) - 1)
    bank = max(tiles[-1])
    logits = logits_of(work.lines, work.memory)[bank]
    assert choice_of(work.lines, work.memory, bank) == logits.argmax()
    return logits


@KINDS
@pytest.mark.parametrize("params", SMALL, ids=lambda p: p.block)
def test_logits_follow_the_engine(params, bits, model):
    """Logits close to the engine's, and its choices, but for near ties."""
    machine = machine_of(params, **({"mantissas": LENGTHS} if params.block == "anda" else {}))
    work = ModelWork(machine, model, context=16, weight_bits=bits)
    small, _ = quantised(model, bits)
    window = min(machine.step_tokens, len(PROMPT))
    if params.block == "anda":
        reference = anda_reference(params, LENGTHS, small)
    else:
        reference = harmonia_reference(params, small, window)
    first, tokens = 0, PROMPT[:window]
    for _ in range(4):
        want, got = reference.feed(tokens)[-1], fed(work, first, tokens)
        assert np.sqrt(np.mean((got - want) ** 2)) < CLOSE * want.std()
        assert want.max() - want[got.argmax()] < 2 * CLOSE * want.std()
        first += len(tokens)
        tokens = [PROMPT[first] if first < len(PROMPT) else int(want.argmax())]


@KINDS
def test_every_bit_on_anda_is_that_of_formulas(bits, model):
    machine = machine_of(SMALL[0], mantissas=LENGTHS)
    work = ModelWork(machine, model, context=8, weight_bits=bits)
    tokens = [*PROMPT, 3, 99, 7]
    got = [fed(work, k, [token]) for k, token in enumerate(tokens)]
    formulas = RoundedModel(SMALL[0], LENGTHS, *quantised(model, bits))
    want = np.concatenate([formulas.feed(tokens[:4]), formulas.feed(tokens[4:])])
    assert np.array_equal(got, want)


def test_the_first_of_equal_logits_is_chosen():
    """Every word of the vocabulary is there four times; ``fed`` compares the choice."""
    for params in SMALL:
        model = tiny_model()
        model = replace(model, head=np.tile(model.head[:32], (4, 1)))
        work = ModelWork(machine_of(params), model, context=8)
        for position, token in enumerate(PROMPT):
            logits = fed(work, position, [token])
            assert (logits == logits.max()).sum() >= 4 and logits.argmax() < 32


@pytest.mark.full
def test_smollm2_has_the_bits_of_formulas(tmp_path):
    """Single tokens at the paper's size: all logits, in every bit."""
    smollm2_or_skip()
    compile_model("smollm2", tmp_path / "smollm2", Options(target="anda", context=40))
    folder, model = open_folder(tmp_path / "smollm2", check=False), load_model("smollm2")
    tokens = [int(k) for k in model.tokenizer.encode(default_text()[:100])[:6]]
    runner, plan = Runner(folder), folder.plan
    got = [runner.feed([token]) for token in tokens]
    small = quantised_model(model, weight_bits=plan.weight_bits, head_bits=plan.head_bits, group=64)
    formulas = RoundedModel(plan.machine.params, plan.machine.mantissas, *small)
    assert np.array_equal(got, formulas.feed(tokens))


class Recorder(Machine):
    """Notes a token's queries, keys, values and results of the first head of keys."""

    def watch(self, lane, place):
        self.lane, self.place = lane, place
        self.seen, self.converted, self.row = {}, {}, None

    def _execute(self, x):
        if x.opcode is Opcode.CONVERT:
            kind = Conversion(x["conversion"])
            count = self.params.converter.loops if kind is Conversion.VALUES else 1
            values = self._tensor(x["source"], x["elements"], count)
            if kind is Conversion.ACTIVATIONS:
                self.converted[x["destination"]] = values[0].copy()
            else:
                own = values[self.place if kind is Conversion.VALUES else self.lane]
                self.seen.setdefault(kind, own.copy())
        if x.opcode is Opcode.GEMM and x["operand"] == Operand.KEYS:
            self.seen.setdefault("queries", self.converted[x["source"]])
        if x.opcode is Opcode.GEMM and x["operand"] == Operand.VALUES and self.row is None:
            self.row = x["destination"]
        error = super()._execute(x)
        # The last word on a head's results is the division by the sum of its powers.
        is_result = x.opcode is Opcode.VECTOR and x["destination"] == self.row
        if is_result and x["operation"] == Operation.MULTIPLY and "result" not in self.seen:
            self.seen["result"] = self._tensor(self.row, x["elements"])[0].copy()
        return error


def test_attention_on_harmonia_is_that_of_its_cache():
    """Tokens one by one through all ages of the cache: a head's results, bit by bit."""
    params = SMALL[1]
    machine = machine_of(params)
    model = tiny_model(config=layer_shape(machine))
    tokens = params.initial + params.local + params.group
    work, keys, values = ModelWork(machine, model, context=tokens), [], []
    for position in range(tokens):
        case = work.step(Step.prompt(position, 1))
        recorder = Recorder(params, case.memory)
        recorder.watch(position % params.rows, position % params.group)
        recorder.run_stream(case.line)
        seen = recorder.seen
        keys.append(seen[Conversion.KEYS])
        values.append(seen[Conversion.VALUES])
        cache = cached(params.cache, np.array(keys), np.array(values), 1)
        want = attend(params.numerics, cache, seen["queries"][np.newaxis])
        assert np.array_equal(want[0], seen["result"]), position


def test_weights_of_8_bits_are_two_of_4():
    rng = np.random.default_rng(5)
    weights = codes(rng.standard_normal((6, 64)).astype(np.float32), 32)
    halves = halved(weights, 8)
    assert halves.inputs == 2 * weights.inputs
    both = dequantise(halves)
    assert np.array_equal(both[:, :64] + both[:, 64:], dequantise(weights))
