"""The pipeliner and the allocator, on instructions and rows that are made up."""

import numpy as np
import pytest

from tests.support.tiny_machine import TinyMachine
from tilewright.compiler.program import _fitting
from tilewright.compiler.rows import NoRoomError, Rows, _best_fit
from tilewright.compiler.schedule import Access, Item, dependences, schedule, written
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.clock import Task
from tilewright.golden.params.machine import UnitOfWork


class Machine:
    """Instructions are (unit, cycles, reads, writes), rows of one memory in regions of 8."""

    control_cycles, loads = 4, 1

    def accesses(self, item):
        _, _, reads, writes = item.instruction
        return tuple([Access("rows", *r) for r in part] for part in (reads, writes))

    def tasks(self, latency):
        def task(item):
            unit, cycles, reads, writes = item.instruction
            touched = {k // 8 for first, end in (*reads, *writes) for k in range(first, end)}
            return Task(unit, cycles, sum(1 << k for k in touched))

        return task

    def configure(self, settings):
        return ("configure", settings)


def first_violation(before, order):
    """The first pair of instructions that an order exchanges although one depends on the other."""
    place = {number: k for k, number in enumerate(order)}
    for number in order:
        for earlier in sorted(before[number]):
            if place[earlier] > place[number]:
                return earlier, number
    return None


def item(unit, cycles, reads=(), writes=(), needs=()):
    return Item((UnitOfWork[unit], cycles, reads, writes), needs, "")


def test_dependences_are_all_three_kinds():
    items = [
        item("LOAD", 10, writes=[(0, 4)]),
        item("MATRIX", 10, reads=[(0, 4)], writes=[(8, 12)]),  # after its load
        item("LOAD", 10, writes=[(2, 6)]),  # rows 2 and 3 are read and were written
        item("STORE", 10, reads=[(8, 9)]),
        item("MATRIX", 10, reads=[(4, 6)], writes=[(8, 9)]),
    ]
    assert dependences(Machine(), items) == [set(), {0}, {0, 1}, {1}, {1, 2, 3}]


def test_loads_are_issued_before_the_work_that_they_do_not_wait_for():
    items = []
    for k in range(4):  # load, multiply, load, multiply, ...: two places in turn
        place = (k % 2 * 8, k % 2 * 8 + 8)
        items += [
            item("LOAD", 100, writes=[place]),
            item("MATRIX", 100, reads=[place], writes=[(16 + k, 17 + k)]),
        ]
    order = schedule(Machine(), items, 30)
    assert order == [0, 2, 1, 3, 4, 6, 5, 7]
    assert first_violation(dependences(Machine(), items), order) is None
    assert first_violation(dependences(Machine(), items), [1, 0, *range(2, 8)]) == (0, 1)


def test_any_order_keeps_all_dependences():
    rng = np.random.default_rng(5)
    units = [unit.name for unit in UnitOfWork]
    for _ in range(20):
        items = []
        for _ in range(60):
            spans = [(int(a), int(a + b)) for a, b in rng.integers(1, 24, (2, 2))]
            items.append(
                item(str(rng.choice(units)), int(rng.integers(5, 99)), *[[s] for s in spans])
            )
        order = schedule(Machine(), items, 30)
        assert sorted(order) == list(range(60))
        assert first_violation(dependences(Machine(), items), order) is None


def test_settings_are_written_where_they_change():
    items = [item("LOAD", 1, needs=n) for n in ((3, None), (), (3, 5), (None, 5), (4, None))]
    program, _ = written(Machine(), items, (0, 0))
    given = [x[1] for x in program if x[0] == "configure"]
    assert given == [(3, 0), (3, 5), (4, 5)]
    assert len(program) == len(items) + len(given)


@pytest.mark.parametrize("target", ["anda:small", "harmonia:small"])
def test_every_section_of_a_step_is_scheduled_without_a_violation(target):
    tiny = TinyMachine(target, sequences=3)
    for step in (Step.prompt(9, 1), Step.batch({0: 3, 1: 7, 2: 1})):
        for items in _fitting(tiny.lines, step, [(0, 0)] * len(step.tokens)).sections:
            order = schedule(tiny.machine, items, 30)
            assert first_violation(dependences(tiny.machine, items), order) is None


# Rows.


def test_rows_rotate_through_the_memory():
    rows = Rows("weights", 64, 16)
    taken = []
    for _ in range(6):
        place = rows.take(16)
        taken.append(place.first)
        rows.give(place)
    assert taken == [0, 16, 32, 48, 0, 16]


def test_rows_keep_apart_within_one_region_and_aligned():
    rows = Rows("fp16", 64, 16)
    first = rows.take(6)
    assert rows.take(6, apart=[first]).first == 16
    assert rows.take(5, align=4).first == 8
    with rows.within(3):
        assert rows.take(4).first == 48
    assert rows.take(16).first == 32


@pytest.mark.parametrize("target", ["anda:small", "harmonia:small"])
def test_a_program_does_not_depend_on_those_before_it(target):
    """Requests that were answered for other contexts are answered alike."""
    tiny = TinyMachine(target)
    steps = [Step.prompt(position, 1) for position in (5, 9, 14, 6)]
    after_others = [_fitting(tiny.lines, step, [(0, 0)]).sections for step in steps]
    for step, sections in zip(steps, after_others, strict=True):
        _best_fit.cache_clear()
        assert _fitting(tiny.lines, step, [(0, 0)]).sections == sections


def test_rows_refuse_what_does_not_fit_and_never_overlap():
    rows = Rows("acts", 32, 8)
    with pytest.raises(NoRoomError, match=r"^acts: no 33 consecutive rows are free of 32$"):
        rows.take(33)
    rng, live, held = np.random.default_rng(2), [], np.zeros(32, bool)
    for _ in range(300):
        if live and rng.random() < 0.5:
            place = live.pop(int(rng.integers(len(live))))
            held[place.first : place.end] = False
            rows.give(place)
            continue
        try:
            place = rows.take(int(rng.integers(1, 9)), align=int(rng.choice([1, 2, 4])))
        except NoRoomError:
            continue
        assert not held[place.first : place.end].any() and place.end <= 32
        held[place.first : place.end] = True
        live.append(place)
