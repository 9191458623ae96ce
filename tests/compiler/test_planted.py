"""Errors planted in graph, allocator, pipeliner and lowerings: what finds them.

Each is one wrong line of the compiler. It is found if a tiny model on the golden machine has other
logits, a program depends on timing, or the compiler refuses.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.support.tiny_machine import TinyMachine
from tilewright.compiler import graph, head, image, lowering, schedule
from tilewright.compiler.anda.lowering import AndaLowering
from tilewright.compiler.anda.machine import AndaMachine
from tilewright.compiler.harmonia.lowering import HarmoniaLowering
from tilewright.compiler.harmonia.machine import HarmoniaMachine
from tilewright.compiler.lowering import Lowering, Tensor
from tilewright.compiler.rows import Place, Rows
from tilewright.compiler.sizes import Token
from tilewright.golden.params.vector import Operation

ANDA, HARMONIA = "anda:small", "harmonia:small"
TOKENS = [int(t) for t in np.random.default_rng(1).integers(0, 128, 10)]
LEAST = 0.95
Patch = Callable[[pytest.MonkeyPatch], None]


def swapped(name: str, change: Callable, owner: object = Lowering) -> Patch:
    """A patch that replaces a method by ``change(original)``."""
    return lambda patch: patch.setattr(owner, name, change(getattr(owner, name)))


def constant(owner: object, name: str, value: object) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def of_apply(wrong: Callable) -> Patch:
    """Vector instructions whose operation or operands ``wrong`` changes."""

    def change(original):
        def apply(self, operation, a, b=0.0, *, into, **more):
            operation, a, b, into = wrong(self, operation, a, b, into)
            original(self, operation, a, b, into=into, **more)

        return apply

    return swapped("apply", change)


def in_operation(name: str, operation: Operation, other: Operation) -> Patch:
    return of_apply(
        lambda low, op, a, b, into: (
            (other, a, b, into)
            if low.code.operation == name and op is operation
            else (op, a, b, into)
        )
    )


def without_accesses(space: object, kind: int) -> Patch:
    """The pipeliner does not see reads (0) or writes (1) of a space."""

    def change(original):
        def accesses(self, item):
            found = original(self, item)
            kept = [
                a
                for a in found[kind]
                if (a.space[0] if isinstance(a.space, tuple) else a.space) != space
            ]
            return (kept, found[1]) if kind == 0 else (found[0], kept)

        return accesses

    return lambda patch: [
        patch.setattr(owner, "accesses", change(owner.accesses))
        for owner in (AndaMachine, HarmoniaMachine)
    ]


def graph_with(change: Callable) -> Patch:
    def patch_in(patch: pytest.MonkeyPatch) -> None:
        original = graph.layer_graph
        patch.setattr(
            "tilewright.compiler.plan.layer_graph", lambda shape: change(list(original(shape)))
        )

    return patch_in


def renamed(k: int, **changes: object) -> Callable:
    def change(ops: list) -> tuple:
        ops[k] = replace(ops[k], **changes)
        return tuple(ops)

    return change


def early_give(original):
    """Half of a buffer is given back while it is in use."""

    def take(self, count, **more):
        place = original(self, count, **more)
        if self.name in ("activations", "fp16") and count > 8:
            self.give(Place(place.first + count // 2, place.end))
        return place

    return take


def shifted(rows_more: int):
    def change(original):
        def move(self, opcode, memory, row, rows, line, index=0, **more):
            if opcode == "STORE" and index:
                line += rows_more
            original(self, opcode, memory, row, rows, line, index, **more)

        return move

    return change


PLANTED: dict[str, Patch] = {
    # Graph.
    "the second norm has the first one's gain": graph_with(renamed(6, name="attention_norm")),
    "keys are not rotated": graph_with(renamed(1, then=("append",))),
    "gate and up are exchanged": graph_with(renamed(7, weights=("up", "gate"))),
    "the output is multiplied by another matrix": graph_with(renamed(5, weights=("q",))),
    "queries come of values": graph_with(renamed(3, weights=("k",))),
    "down is not added": graph_with(lambda ops: tuple(ops[:-1])),
    # Allocator.
    "rows are given back early": swapped("take", early_give, Rows),
    "rows that are taken stay free": constant(Rows, "take_at", lambda self, place: None),
    "a tensor is half as long": swapped(
        "tensor",
        lambda f: (
            lambda self, elements, apart=(): Tensor(
                f(self, max(1, elements // 2), apart).row, elements
            )
        ),
    ),
    # Pipeliner.
    "no read waits for a write of scalars": without_accesses("scalars", 0),
    "no scalar is written": without_accesses("scalars", 1),
    "stores of lines are free": without_accesses("lines", 1),
    "offsets are not waited for": without_accesses("offsets", 1),
    "no write waits for a read": swapped("read", lambda f: lambda self, *a: None, schedule._Space),
    "no read waits for a write": swapped(
        "write", lambda f: lambda self, first, end, number, before: None, schedule._Space
    ),
    "settings are not compared": constant(schedule, "met", lambda settings, needs: bool(settings)),
    # Lowering.
    "the norm's share is forgotten in its epsilon": constant(image, "NORM_SHARE", 2.0**-5),
    "SiLU has the wrong sign": in_operation("gate+up", Operation.ADD, Operation.SUBTRACT),
    "rotations are subtracted": in_operation("q", Operation.ADD, Operation.SUBTRACT),
    "the residual is overwritten": in_operation("output", Operation.ADD, Operation.COPY),
    "a norm is not rooted": in_operation(
        "feed_norm", Operation.RECIPROCAL_ROOT, Operation.RECIPROCAL
    ),
    "parts are added at the start": swapped(
        "_add", lambda f: lambda self, tile, name, part, outputs: f(self, tile, name, 0, outputs)
    ),
    "gated parts are converted at the start": swapped(
        "_silu", lambda f: lambda self, tile, name, part, outputs: f(self, tile, name, 0, outputs)
    ),
    "chunks are those of the first part": swapped(
        "load_chunk",
        lambda f: lambda self, matrix, line, part, *rest: f(self, matrix, line, 0, *rest),
    ),
    "the first copy alone is converted": constant(
        lowering.Matrix, "copies", property(lambda self: 1)
    ),
    "a head's half is a quarter": swapped(
        "_rotate",
        lambda f: (
            lambda self, tile, name, x, y: f(self, tile, name, Tensor(x.row + 1, x.elements), y)
        ),
    ),
    "tables are the next position's": swapped(
        "rotation",
        lambda f: lambda self, position, table=0: f(self, position + 1, table),
        image.Lines,
    ),
    "the cache is stored a line late on Anda": swapped("move", shifted(1), AndaLowering),
    "the cache is stored a line late on Harmonia": swapped("move", shifted(1), HarmoniaLowering),
    "unfinished tiles are not masked": constant(AndaLowering, "_mask", lambda self, *a: None),
    "banks are merged without their largest": swapped(
        "_softmax", lambda f: lambda self, x, note: f(self, x, note + 1), AndaLowering
    ),
    "offsets are of the newest key": constant(
        HarmoniaLowering, "_append_key", lambda self, *a: None
    ),
    "the window is one token shorter": swapped(
        "_seen", lambda f: lambda self, token: f(self, token) - 1, HarmoniaLowering
    ),
    "the choice keeps the last part": constant(head, "_LARGEST", 0.0),
}


def logits(target: str) -> Iterator[list[np.ndarray]]:
    """Logits of one step of tokens after the other."""
    found = TinyMachine(target, context=16)
    begin, end = (4, 8) if target == HARMONIA else (0, 5)
    if begin:
        yield in_order(found.feed(TOKENS[:begin]))
    for k in range(begin, end):
        yield in_order(found.decode(TOKENS[k : k + 1], k))


def in_order(found: dict[Token, np.ndarray]) -> list[np.ndarray]:
    return [found[token] for token in sorted(found)]


@pytest.fixture(scope="module")
def right() -> dict[str, list[list[np.ndarray]]]:
    return {target: list(logits(target)) for target in (ANDA, HARMONIA)}


def is_found(right: dict[str, list[list[np.ndarray]]], plant: Patch) -> bool:
    """Whether a step of either machine differs; the first that does is the last that runs."""
    for target, want in right.items():
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            try:
                if not all(map(np.array_equal, logits(target), want)):
                    return True
            except (AssertionError, ValueError, IndexError, KeyError, StopIteration):
                return True
    return False


def test_planted_errors_are_found(right):
    assert len(PLANTED) >= 30
    missed = [name for name, plant in PLANTED.items() if not is_found(right, plant)]
    assert len(missed) <= (1 - LEAST) * len(PLANTED), missed


def test_nothing_is_found_where_nothing_is_planted(right):
    assert not is_found(right, lambda patch: None)
