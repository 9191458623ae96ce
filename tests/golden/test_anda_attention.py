"""Attention on Anda's vector lanes: the golden machine against softmax in float64, and its rate."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.attention import softmax_attention
from tilewright.golden.anda_machine.attending import dots, weighed
from tilewright.golden.anda_machine.attention import Attention, attention_program
from tilewright.golden.anda_machine.cycles import program_cycles
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.hazards import first_hazard
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.machine.vector import reduce_rows
from tilewright.golden.params.anda_machine import AndaParams, Counter
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation
from tilewright.golden.vectors import operands

SMALL, PAPER = AndaParams.preset("small"), AndaParams.preset("paper")
BANKED = replace(SMALL, rows=16, line_bytes=32)  # a query in every bank, as at the paper's size
LATENCY = 43  # 150 ns at 285 MHz


def run(work, rng):
    """Outcome, results and what they are in float64."""

    def values(*shape):
        return rng.standard_normal(shape).astype(np.float16)

    q = values(work.heads, work.tokens, work.head_dim)
    k, v = (values(work.kv_heads, work.context, work.head_dim) for _ in range(2))
    program = work.program()
    assert first_hazard(work.params, program) is None
    memory = work.memory(*(x.view(np.uint16) for x in (q, k, v)))
    line = len(memory) // work.params.line_bytes
    assert line == work.lines
    memory = np.concatenate([memory, program_lines(work.params, program)])
    outcome = Machine(work.params, memory).run_stream(line)
    assert outcome.error is Error.NONE
    return outcome, work.results(memory).view(np.float16), softmax_attention(q, k, v)


@pytest.mark.parametrize(
    ("params", "sizes"),
    [
        (SMALL, {"heads": 1, "kv_heads": 1, "head_dim": 16, "context": 1}),
        (SMALL, {"heads": 4, "kv_heads": 2, "head_dim": 16, "context": 7}),
        (SMALL, {"heads": 1, "kv_heads": 1, "head_dim": 48, "context": 45}),
        (SMALL, {"heads": 2, "kv_heads": 1, "head_dim": 16, "context": 1201}),  # in parts
        (SMALL, {"heads": 10, "kv_heads": 5, "head_dim": 16, "context": 45}),  # queries in turns
        (SMALL, {"heads": 10, "kv_heads": 2, "head_dim": 16, "context": 45}),  # in groups of one
        (PAPER, {"heads": 16, "kv_heads": 2, "head_dim": 128, "context": 20}),  # merges in pairs
        (SMALL, {"heads": 2, "kv_heads": 1, "head_dim": 32, "context": 3, "tokens": 3}),
        (SMALL, {"heads": 1, "kv_heads": 1, "head_dim": 16, "context": 45, "tokens": 5}),
        (PAPER, {"heads": 9, "kv_heads": 3, "head_dim": 64, "context": 50}),
        (PAPER, {"heads": 2, "kv_heads": 2, "head_dim": 128, "context": 16}),
        (PAPER, {"heads": 1, "kv_heads": 1, "head_dim": 80, "context": 1111}),
        (PAPER, {"heads": 1, "kv_heads": 1, "head_dim": 64, "context": 33, "tokens": 17}),
        (BANKED, {"heads": 2, "kv_heads": 2, "head_dim": 16, "context": 70, "tokens": 6}),
        (BANKED, {"heads": 3, "kv_heads": 1, "head_dim": 16, "context": 117, "tokens": 117}),
        (BANKED, {"heads": 1, "kv_heads": 1, "head_dim": 16, "context": 250, "tokens": 250}),
        pytest.param(
            *(BANKED, {"heads": 1, "kv_heads": 1, "head_dim": 16, "context": 600, "tokens": 600}),
            marks=pytest.mark.full,
        ),
    ],
    ids=lambda x: "" if isinstance(x, AndaParams) else ",".join(map(str, x.values())),
)
def test_results_are_those_of_softmax(params, sizes):
    _, got, want = run(Attention(params=params, **sizes), np.random.default_rng(1))
    assert got.shape == want.shape
    assert np.abs(got.astype(np.float64) - want).max() < 3e-3


def test_a_long_context_uses_the_lanes():
    """At the paper's size, 4,096 tokens of one head; a group of heads loads K and V once."""
    rates, lines = {}, {}
    for heads, context in ((1, 1024), (1, 4096), (4, 4096)):
        work = Attention(params=PAPER, heads=heads, kv_heads=1, head_dim=128, context=context)
        outcome, *_ = run(work, np.random.default_rng(2))
        assert work.cycles(LATENCY) == program_cycles(PAPER, outcome, LATENCY)
        rates[heads, context] = work.utilisation(LATENCY)
        lines[heads, context] = outcome.counts[Counter.LINES_READ]
    assert 0.5 < rates[1, 1024] < rates[1, 4096]
    assert rates[1, 4096] >= 0.7 and rates[4, 4096] >= 0.8
    assert lines[4, 4096] < 1.1 * lines[1, 4096]


@pytest.mark.parametrize(("heads", "least"), [(1, 0.88), (4, 0.9)])
def test_a_prompt_uses_the_lanes(heads, least):
    """512 tokens: queries in banks of their own need no merging; the longer, the better."""
    work = Attention(params=PAPER, heads=heads, kv_heads=1, head_dim=128, context=512, tokens=512)
    assert least < work.utilisation(LATENCY) < 1
    assert work.prompt_room is not None and work.prompt_room.period(heads) == 32


@pytest.mark.full
@pytest.mark.parametrize("context", [32768, 131072, 262147])
def test_any_context(context):
    """The last one has more scores than the buffer holds, and a ragged tile."""
    work = Attention(params=PAPER, heads=1, kv_heads=1, head_dim=128, context=context)
    outcome, got, want = run(work, np.random.default_rng(3))
    assert outcome.error is Error.NONE and work.utilisation(LATENCY) >= 0.9
    assert np.abs(got.astype(np.float64) - want).max() < 1e-3


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_sums_are_those_of_the_unit(lanes):
    """numpy's arithmetic against golden's, on all kinds of patterns."""
    rng = np.random.default_rng(4)
    results, beats, banks, elements = 5, 6, 3, 5 * lanes + (lanes + 1) // 2
    a, b = (operands((FP16,), rng, 4000)[0] for _ in range(2))
    a = a[: results * beats * banks * lanes].reshape(results, beats, banks, lanes)
    second = b[: beats * banks * lanes].reshape(beats, banks, lanes)
    active = (np.arange(beats * lanes) < elements).reshape(beats, lanes)
    got = dots(a, second, elements, 0x3555)
    flat = got.transpose(1, 0, 2).reshape(banks, -1)
    for n in range(results):
        want = reduce_rows(Operation.DOTS, a[n], second, active, 0x3555)[-1]
        assert np.array_equal(flat[:, n], want)
    assert not flat[:, results:].any()
    weights = b[: banks * beats].reshape(banks, beats)
    spread = np.broadcast_to(weights.T[..., np.newaxis], a.shape[1:])
    for n, got in enumerate(weighed(a, weights)):
        want = reduce_rows(Operation.WEIGH, a[n], spread, np.ones((beats, lanes)), 0)[-1]
        assert np.array_equal(got, want)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "heads must be a multiple of kv_heads, not 3 of 2"),
        ({"tokens": 0}, "tokens must be 1..8, the context, not 0"),
        ({"tokens": 3}, "queries of a prompt begin at a tile of 2: context less tokens is 5"),
        ({"head_dim": 24}, "head_dim must be a multiple of 16, whole lines of .*, not 24"),
        ({"head_dim": 256}, "head_dim 256 is too large: 256 rows"),
    ],
)
def test_refusals(change, message):
    sizes = {"heads": 2, "kv_heads": 2, "head_dim": 16, "context": 8} | change
    with pytest.raises(ValueError, match=f"^{message}$"):
        attention_program(SMALL, **sizes)
