"""The load unit's bookkeeping: proofs, each with planted bugs that it refutes.

The memory of the claim owes an answer to every request it took and gives any of them in any cycle;
commands, squashes, waiting memories and full queues come whenever the solver likes.
"""

import pytest
from amaranth import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tests.support.mutate import mutant, planted
from tests.support.prove import Outcome, check_bounded, prove
from tilewright.golden.params.deca import STRUCTURES, DecaParams
from tilewright.hw.arith.adder_tree import tree_sum
from tilewright.hw.deca import load_unit
from tilewright.hw.deca.load_unit import LoadUnit, locations_layout, request_layout
from tilewright.hw.deca.request_cam import RequestCam

SMALL = DecaParams(cam_entries=2, sqq_lines=2, address_bits=16)
ODD = DecaParams(cam_entries=3, sqq_lines=2, address_bits=16)
EIGHT = DecaParams(cam_entries=8, sqq_lines=8)
PAPER = DecaParams()


class AnswersAreExpected(wiring.Component):
    """No answer is spurious, no tag is owed twice, and what counts as outstanding is owed.

    The last part means that no request is outstanding for ever: once the memory has answered
    everything it was asked, nothing is. Nor is one put off for ever: with everything answered and
    room in the queues the next one is on offer within two cycles. And the cycle after a squash the
    unit is idle.

    ``ports_only`` leaves out what is said of the unit's registers, which induction needs;
    ``counts=False`` leaves out the number outstanding: sums of many bits are hard to prove.
    """

    def __init__(self, unit: LoadUnit, *, ports_only: bool = False, counts: bool = True):
        self.unit, self.ports_only, self.counts = unit, ports_only, counts
        p = unit.params
        super().__init__(
            {
                "offers": In(1),
                "command": In(locations_layout(p)),
                "takes": In(1),
                "answers": In(1),
                "key": In(p.tag_bits - 1),
                "free": In(len(STRUCTURES)),
                "squash": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        request = unit.request
        owed = Signal(1 << len(self.key))  # by the tag without the loader's bit
        answers = self.answers & owed.bit_select(self.key, 1)
        asks = request.valid & request.ready
        m.d.comb += [
            unit.command.valid.eq(self.offers),
            unit.command.payload.eq(self.command),
            request.ready.eq(self.takes),
            unit.response.valid.eq(answers),
            unit.response.tag.eq(Cat(self.key, Const(unit.loader, 1))),
            unit.squash.eq(self.squash),
        ]
        for name, free in zip(STRUCTURES, self.free, strict=True):
            m.d.comb += getattr(unit, f"{name}_queue").free.eq(free)
        with m.If(answers):
            m.d.sync += owed.bit_select(self.key, 1).eq(0)
        with m.If(asks):
            m.d.sync += owed.bit_select(request.p.tag[:-1], 1).eq(1)

        squashed, waited, offered = Signal(), Signal(), Signal.like(request.payload)
        m.d.sync += [
            squashed.eq(self.squash),
            waited.eq(request.valid & ~request.ready),
            offered.eq(request.payload),
        ]
        wrong = [
            unit.spurious,
            request.valid & owed.bit_select(request.p.tag[:-1], 1),
            request.valid & (request.p.tag[-1] != unit.loader),
            squashed & ~unit.idle,
            waited & (~request.valid | (request.payload != offered)),
        ]
        # Cycles in which nothing keeps the unit from asking; the first may go to finding a tag.
        could_ask = Signal(2)
        may_ask = self.free.all() & ~owed.any() & ~self.squash
        m.d.sync += could_ask.eq(Cat(may_ask & ~unit.idle & ~request.valid, could_ask))
        wrong.append(could_ask.all() & may_ask & ~unit.idle & ~request.valid)
        if self.counts:
            wrong.append(~request.valid & (unit.outstanding != tree_sum(list(owed))))
        if not self.ports_only:
            wrong += [~holds for holds in self._registers(owed)]
        m.d.comb += self.bad.eq(Cat(wrong).any())
        return m

    def _registers(self, owed) -> list:
        """Invariants of every reachable state."""
        unit, cam, offer = self.unit, self.unit.cam, self.unit.offer
        layout = request_layout(unit.params)
        word, spare = (data.View(layout, w).tag for w in (offer.word, offer.spare))
        second = ~offer.i.ready  # the place after the word on offer is taken
        number_bits = unit.params.tag_bits - 2
        holds = [
            offer.o.valid | ~second,
            tree_sum(list(cam.spare)) == cam.available,
            ~(cam.spare & cam.taken).any(),
        ]
        if self.counts:
            holds.append(cam.outstanding == tree_sum(list(cam.taken)))
        known, known_second = [], []
        for k in range(unit.params.cam_entries):
            other = Cat(Const(k, number_bits), ~cam.generation[k])
            own = Cat(Const(k, number_bits), cam.generation[k])
            tag = Cat(own, Const(unit.loader, 1))
            places = [
                owed.bit_select(own, 1),
                offer.o.valid & (word == tag),
                second & (spare == tag),
            ]
            holds += [tree_sum(places) == cam.taken[k], ~owed.bit_select(other, 1)]
            known.append(word == tag)
            known_second.append(spare == tag)
        holds += [~offer.o.valid | Cat(known).any(), ~second | Cat(known_second).any()]
        # Tags of entries that do not exist, where the number of entries is no power of two.
        for number in range(unit.params.cam_entries, 1 << number_bits):
            holds += [~owed[number], ~owed[number | 1 << number_bits]]
        return holds


@pytest.mark.parametrize("loader", [0, 1])
@pytest.mark.parametrize("params", [SMALL, ODD], ids=["small", "odd"])
def test_answers_are_expected(params, loader):
    claim = AnswersAreExpected(LoadUnit(params, loader))
    assert prove(claim).outcome is Outcome.PROVED


@pytest.mark.full
@pytest.mark.parametrize(("params", "counts"), [(EIGHT, True), (PAPER, False)], ids=["8", "32"])
def test_answers_are_expected_of_many_entries(params, counts):
    claim = AnswersAreExpected(LoadUnit(params, 1), counts=counts)
    assert prove(claim).outcome is Outcome.PROVED


def test_claim_holds_from_reset():
    """The proof starts from the registers' initial values as well."""
    claim = AnswersAreExpected(LoadUnit(SMALL, 0), ports_only=True)
    assert check_bounded(claim, cycles=8).outcome is Outcome.BOUNDED


@pytest.mark.parametrize(
    ("old", "new"),
    planted(
        [
            ("others.eq(~(taken | spare))", "others.eq(~taken)"),
            ("self.outstanding + self.allocate - self.hit", "self.outstanding + self.allocate"),
            ("freed = matches & self.search.replicate(entries)", "freed = matches"),
        ]
    ),
)
def test_bugs_in_the_cam_are_found(monkeypatch, old, new):
    monkeypatch.setattr(load_unit, "RequestCam", mutant(RequestCam, old, new))
    refute(LoadUnit(SMALL, 0))


@pytest.mark.parametrize(
    ("old", "new"),
    planted(
        [
            ("mores.eq(0)", "mores[:2].eq(0)"),
            (
                "wants[k].eq(mores[k] & queue.free)",
                "wants[k].eq(mores[k] & queue.free & (left != 1))",
            ),
            ("offer.i.valid.eq(going)", "offer.i.valid.eq(wants.any() & offer.i.ready)"),
            ("cam.allocate.eq(going)", "cam.allocate.eq(going & ~self.squash)"),
        ]
    ),
)
def test_bugs_in_the_load_unit_are_found(old, new):
    refute(mutant(LoadUnit, old, new)(SMALL, 0))


def refute(unit: LoadUnit) -> None:
    claim = AnswersAreExpected(unit, ports_only=True)
    assert check_bounded(claim, cycles=10).outcome is Outcome.REFUTED
