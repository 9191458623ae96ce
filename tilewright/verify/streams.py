"""Both ends of a stream, and the clock that moves them: the parts of every cocotb bench.

One loop serves all ports: a cycle costs one wake-up and a few signal accesses, however many
ports there are. At a rising edge every part's ``step`` sees the signals as they were before the
edge and sets its own for the cycle that begins.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

PERIOD_NS = 10
RESET_CYCLES = 2


class Part(Protocol):
    """Anything that acts on every clock edge: a stream's end, a memory model."""

    def step(self, cycle: int) -> bool:
        """Act at the end of ``cycle``; true when something moved."""

    def progress(self) -> str:
        """How far it is, for the message when nothing moves any more."""


def read(signal: Any, cycle: int) -> int:
    """The signal as a number; an undefined bit is a failure."""
    value = signal.value
    try:
        return int(value)
    except ValueError:
        raise AssertionError(f"cycle {cycle}: {signal._name} is undefined: {value}") from None


class StreamDriver:
    """Offers words on input stream ``name``, each until it is taken.

    With probability ``stall`` a cycle in which it could offer the next word passes without; the
    payload is then random bits.
    """

    def __init__(self, dut: Any, name: str, *, stall: float = 0.0, seed: int = 0):
        self.name, self.stall = name, stall
        self.valid = getattr(dut, f"{name}__valid")
        self.ready = getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.words: list[int] = []
        self.taken: list[int] = []  # the cycle in which each word was taken
        self._bits = len(self.payload)
        self._random = random.Random(f"{seed} {name}")
        self._offering = False
        self.valid.value = 0
        self.payload.value = 0

    def send(self, words: Iterable[int]) -> None:
        """Offer ``words`` after those already given."""
        self.words.extend(words)

    @property
    def idle(self) -> bool:
        """Whether every word has been taken."""
        return len(self.taken) == len(self.words)

    @property
    def offering(self) -> bool:
        """Whether a word is on the wires; it stays there until it is taken."""
        return self._offering

    @property
    def pending(self) -> list[int]:
        """Words not yet taken, the one on offer first."""
        return self.words[len(self.taken) :]

    def keep_pending(self, words: Sequence[int]) -> None:
        """Offer ``words`` instead of those pending; one already on offer must be the first."""
        assert not self._offering or words[0] == self.words[len(self.taken)]
        self.words[len(self.taken) :] = words

    def withdraw(self) -> None:
        """Forget what is not taken, also a word on offer, where the unit's contract allows it."""
        del self.words[len(self.taken) :]
        if self._offering:
            self.valid.value = 0
            self._offering = False

    def step(self, cycle: int) -> bool:
        moved = False
        if self._offering:
            if not read(self.ready, cycle):
                return False
            self.taken.append(cycle)
            moved = True
        offer = not self.idle and (not self.stall or self._random.random() >= self.stall)
        if offer:
            self.payload.value = self.words[len(self.taken)]
        elif moved:
            self.payload.value = self._random.getrandbits(self._bits)
        if offer != self._offering:
            self.valid.value = int(offer)
            self._offering = offer
        return moved

    def progress(self) -> str:
        return f"{self.name} took {len(self.taken)} of {len(self.words)} words"


class StreamMonitor:
    """Takes words from output stream ``name`` and watches the rules of streams.

    It is ready with probability 1 - ``stall`` in each cycle; a ``patient`` one is ready only for
    a word that has waited a cycle, which a producer that waits for ready never lets happen. A
    word that is offered and then withdrawn or changed fails the test, unless ``may_withdraw``
    (set while a unit is told to drop its work). More than ``most`` words fail it at once: a unit
    that never stops giving them would keep the test waiting for the end.
    """

    def __init__(
        self,
        dut: Any,
        name: str,
        *,
        stall: float = 0.0,
        seed: int = 0,
        patient: bool = False,
        most: int | None = None,
    ):
        self.name, self.stall, self.patient, self.most = name, stall, patient, most
        self.valid = getattr(dut, f"{name}__valid")
        self.ready = getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.words: list[int] = []
        self.given: list[int] = []  # the cycle in which each word was given
        self.may_withdraw = False
        self._random = random.Random(f"{seed} {name}")
        self._taking = False
        self._waiting: int | None = None  # offered, not yet taken
        self.ready.value = 0

    @property
    def waiting(self) -> bool:
        """Whether a word is offered and not yet taken."""
        return self._waiting is not None

    def step(self, cycle: int) -> bool:
        moved = False
        if read(self.valid, cycle):
            word = read(self.payload, cycle)
            if self._waiting not in (None, word) and not self.may_withdraw:
                raise AssertionError(
                    f"cycle {cycle}: {self.name} changed its payload before it was taken,"
                    f" from {self._waiting:#x} to {word:#x}"
                )
            self._waiting = word
            if self._taking:
                self.words.append(word)
                self.given.append(cycle)
                if self.most is not None and len(self.words) > self.most:
                    raise AssertionError(f"cycle {cycle}: {self.name} gave over {self.most} words")
                self._waiting = None
                moved = True
        elif self._waiting is not None:
            if not self.may_withdraw:
                raise AssertionError(
                    f"cycle {cycle}: {self.name} withdrew {self._waiting:#x} before it was taken"
                )
            self._waiting = None
        if self.patient:
            take = self.waiting
        else:
            take = not self.stall or self._random.random() >= self.stall
        if take != self._taking:
            self.ready.value = int(take)
            self._taking = take
        return moved

    def progress(self) -> str:
        waiting = ", one waits" if self.waiting else ""
        return f"{self.name} gave {len(self.words)} words{waiting}"


class Harness:
    """The clock, the reset and the parts around one block.

    A block without a clock (a combinational one) is stepped by time alone.
    """

    total = 0  # cycles before the last reset

    def __init__(self, dut: Any):
        # Here, because a netlist runs under these parts without cocotb (netlist_bench).
        from cocotb.clock import Clock
        from cocotb.triggers import RisingEdge, Timer

        self.dut = dut
        self.cycle = 0  # cycles since the last reset
        self.quiet = 0  # cycles since something moved
        self.parts: Sequence[Part] = ()
        clock = "aclk" if hasattr(dut, "aclk") else "clk"  # an AXI block also has one inside
        self._clocked = hasattr(dut, clock)
        # The clock toggles inside cocotb's library: Python wakes up at rising edges alone. It
        # begins low, so that there is no edge at which the reset is still undefined.
        if self._clocked:
            Clock(getattr(dut, clock), PERIOD_NS, "ns", impl="gpi").start(start_high=False)
        self._edge: Any = (
            RisingEdge(getattr(dut, clock)) if self._clocked else Timer(PERIOD_NS, "ns")
        )

    async def reset(self, parts: Sequence[Part] = (), *, at_once: bool = False) -> None:
        """Reset the block; ``parts`` are the ones to step from now on.

        They begin a cycle after the reset, or ``at_once``: in the first cycle without it.
        """
        low = hasattr(self.dut, "aresetn")
        resets = self._clocked and (low or hasattr(self.dut, "rst"))
        if resets:
            reset = self.dut.aresetn if low else self.dut.rst
            reset.value = int(not low)
            for _ in range(RESET_CYCLES):
                await self._edge
            reset.value = int(low)
        at_once = at_once and resets
        self._begin(parts, at_once)
        if not at_once:
            await self._edge

    def _begin(self, parts: Sequence[Part], at_once: bool) -> None:
        self.total += self.cycle
        self.parts, self.cycle, self.quiet = parts, int(at_once), 0
        if at_once:
            for part in parts:
                part.step(0)

    async def run(self, done: Callable[[], bool], patience: int = 1000) -> None:
        """Clock until ``done()``; ``patience`` cycles in which nothing moves are a failure."""
        steps = [part.step for part in self.parts]
        edge = self._edge
        while not done():
            await edge
            moved = False
            for step in steps:
                moved |= step(self.cycle)
            self.cycle += 1
            self.quiet = 0 if moved else self.quiet + 1
            if self.quiet > patience:
                state = "; ".join(part.progress() for part in self.parts)
                raise AssertionError(f"nothing moved for {patience} cycles: {state}")
