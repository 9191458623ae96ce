"""Stream units neither lose, duplicate nor reorder: proofs, each with a planted bug it refutes."""

import pytest
from amaranth import Module, Mux, Value

from tests.formal.claims import KeepsOrder
from tests.support.mutate import mutant, planted
from tests.support.prove import Outcome, check_bounded, prove
from tilewright.golden.params.arith import MaxTreeParams
from tilewright.golden.params.stream import QueueParams, RegisterSliceParams
from tilewright.hw.arith.max_tree import MaxTree
from tilewright.hw.stream.pipeline import PipelinedUnit
from tilewright.hw.stream.queue import QueueBlock
from tilewright.hw.stream.register_slice import RegisterSliceBlock


def inside_queue(m: Module, queue: QueueBlock, inside: Value, place: Value):
    depth = queue.params.depth
    probe = queue.words.read_port(domain="comb")

    def wrapped(address):
        return Mux(address < depth, address, address - depth)

    m.d.comb += probe.addr.eq(wrapped(queue.read.addr + place))
    holds = [
        queue.level == inside,
        queue.read.addr < depth,
        queue.write.addr == wrapped(queue.read.addr + queue.level),
    ]
    return holds, Value.cast(probe.data)


def inside_slice(m: Module, slice_: RegisterSliceBlock, inside: Value, place: Value):
    holds = [slice_.o.valid == (inside != 0), slice_.i.ready == (inside != 2)]
    return holds, Mux(place == 0, Value.cast(slice_.word), Value.cast(slice_.spare))


@pytest.mark.parametrize("name", QueueParams.PRESETS)
def test_queue_keeps_order(name):
    params = QueueParams.preset(name)
    claim = KeepsOrder(QueueBlock(params), capacity=params.depth, look=inside_queue)
    assert prove(claim).outcome is Outcome.PROVED


@pytest.mark.parametrize("name", ["default", "tiny", pytest.param("line", marks=pytest.mark.full)])
def test_register_slice_keeps_order(name):
    claim = KeepsOrder(
        RegisterSliceBlock(RegisterSliceParams.preset(name)), capacity=2, look=inside_slice
    )
    assert prove(claim).outcome is Outcome.PROVED


@pytest.mark.parametrize("latency", [1, 2, 3])
def test_pipeline_keeps_order(latency):
    unit = MaxTree(MaxTreeParams(terms=1, width=2, latency=latency))
    verdict = check_bounded(KeepsOrder(unit, capacity=latency), cycles=24)
    assert verdict.outcome is Outcome.BOUNDED


# Each planted bug breaks one promise; the claim must find it from the ports alone.
QUEUE, SLICE = QueueParams(width=2, depth=3), RegisterSliceParams(width=2)
RELAY = MaxTreeParams(terms=1, width=2, latency=2)  # hands its word through two registers


def queue(old: str, new: str) -> KeepsOrder:
    return KeepsOrder(mutant(QueueBlock, old, new)(QUEUE), capacity=QUEUE.depth)


def register_slice(old: str, new: str) -> KeepsOrder:
    return KeepsOrder(mutant(RegisterSliceBlock, old, new)(SLICE), capacity=2)


def pipeline(old: str, new: str) -> KeepsOrder:
    relay = type("Relay", (mutant(PipelinedUnit, old, new),), {"stages": MaxTree.stages})
    return KeepsOrder(relay(RELAY), capacity=RELAY.latency)


STEP = "step.eq(~held_valid | held_ready)"


@pytest.mark.parametrize(
    ("claim", "old", "new"),
    planted(
        {
            "queue takes one too many": (queue, "level != depth", "level <= depth"),
            "queue refuses its last place": (queue, "level != depth", "level < 2"),
            "queue wraps early": (queue, "place == depth - 1", "place == depth - 2"),
            "slice loses": (register_slice, "word.eq(self.spare)", "word.eq(0)"),
            "slice invents": (register_slice, "eq(self.i.valid)", "eq(1)"),
            "slice repeats": (register_slice, "(~valid | self.o.ready)", "(~valid)"),
            "pipeline overwrites": (pipeline, STEP, "step.eq(1)"),
            "pipeline keeps its bubbles": (pipeline, STEP, "step.eq(held_ready)"),
        }
    ),
)
def test_planted_bug_is_refuted(claim, old, new):
    verdict = check_bounded(claim(old, new), cycles=8)
    assert verdict.outcome is Outcome.REFUTED
    assert "bad" in verdict.counterexample
