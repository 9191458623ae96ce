"""Stream ends that are stepped by one loop: cheap enough for benches of many thousand cycles.

Inputs change after a rising edge (``drive``), outputs are read once they have settled
(``sample``); one loop does both for every port, so a cycle costs two triggers whatever the number
of ports.
"""

from collections import deque
from random import Random
from typing import Any

__all__ = ["Sink", "Source"]


class Source:
    """Offers words on an input stream in order, each held until it is taken."""

    def __init__(self, dut: Any, name: str, rng: Random, stall: float = 0.0):
        self.valid, self.ready = getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.rng, self.stall = rng, stall
        self.words: deque[int] = deque()
        self.offering = False  # the first word is on the wires and not taken yet
        self.shown = False  # what ``valid`` says
        self.valid.value = 0
        self.payload.value = 0

    def drive(self) -> None:
        if self.offering:
            return
        if self.words and self.rng.random() >= self.stall:
            self.offering = self.shown = True
            self.valid.value = 1
            self.payload.value = self.words[0]
        elif self.shown:
            self.shown = False
            self.valid.value = 0

    def sample(self) -> int | None:
        """The word that is taken in this cycle."""
        if not self.offering or not int(self.ready.value):
            return None
        self.offering = False
        return self.words.popleft()


class Sink:
    """Takes words from an output stream when it feels like it."""

    def __init__(self, dut: Any, name: str, rng: Random, stall: float = 0.0):
        self.valid, self.ready = getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.name, self.rng, self.stall = name, rng, stall
        self.taking = False
        self.may_vanish = False  # an offer may be taken back: the core has other ways to take it
        self.held: int | None = None  # offered and not taken: must stay
        self.ready.value = 0

    def drive(self) -> None:
        taking = self.rng.random() >= self.stall
        if taking != self.taking:
            self.taking = taking
            self.ready.value = int(taking)

    def sample(self, may_vanish: bool = False) -> int | None:
        """The word that is taken in this cycle."""
        may_vanish |= self.may_vanish
        if not int(self.valid.value):
            assert self.held is None or may_vanish, f"{self.name}: valid dropped before ready"
            self.held = None
            return None
        word = int(self.payload.value)
        assert self.held in (None, word) or may_vanish, (
            f"{self.name}: payload changed from {self.held:#x} to {word:#x} before ready"
        )
        self.held = None if self.taking else word
        return word if self.taking else None
