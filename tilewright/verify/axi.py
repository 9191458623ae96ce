"""Both sides of AXI for benches: a memory that is read, and a master of AXI4-Lite registers.

They are parts of a ``tilewright.verify.streams.Harness``. Signals have the standard names after a
prefix such as ``m_axi_``. Either side waits with probability ``stall``, per cycle and channel, and
an offer that changes or vanishes before it is taken fails the test.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tilewright.verify.streams import read

OKAY, SLVERR = 0, 2
INCREMENTING = 1
ALL_BYTES = 0xFF  # strobes of a word


class _Channel:
    """One channel: words are dictionaries of its signals."""

    def __init__(self, dut: Any, channel: str, signals: tuple[str, ...], rng: Random, stall: float):
        self.name = channel
        self.valid, self.ready = (getattr(dut, f"{channel}{end}") for end in ("valid", "ready"))
        self.signals = {name: getattr(dut, f"{channel}{name}") for name in signals}
        self.rng, self.stall = rng, stall
        self.words: deque[dict[str, int]] = deque()


class _Offer(_Channel):
    """Drives a channel."""

    def __init__(self, *channel: Any):
        super().__init__(*channel)
        self._offering = False
        self.valid.value = 0
        for signal in self.signals.values():
            signal.value = 0

    def step(self, cycle: int) -> bool:
        moved = self._offering and bool(read(self.ready, cycle))
        if moved:
            self.words.popleft()
            self._offering = False
            self.valid.value = 0
        if not self._offering and self.words and self.rng.random() >= self.stall:
            self._offering = True
            self.valid.value = 1
            for name, value in self.words[0].items():
                self.signals[name].value = value
        return moved


class _Take(_Channel):
    """Takes the words of a channel."""

    def __init__(self, *channel: Any):
        super().__init__(*channel)
        self._taking = False
        self._held: dict[str, int] | None = None
        self.ready.value = 0

    def step(self, cycle: int) -> bool:
        moved = False
        if read(self.valid, cycle):
            word = {name: read(signal, cycle) for name, signal in self.signals.items()}
            assert self._held in (None, word), f"cycle {cycle}: {self.name} changed before taken"
            self._held = word
            if self._taking:
                self.words.append(word)
                self._held = None
                moved = True
        else:
            assert self._held is None, f"cycle {cycle}: {self.name} withdrew before it was taken"
        self._taking = self.rng.random() >= self.stall
        self.ready.value = int(self._taking)
        return moved


class AxiMemory:
    """Answers reads of single beats some of ``latency`` cycles later, in order for each id only.

    Addresses in ``bad`` are answered with an error.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        read_line: Callable[[int], bytes],
        line_bytes: int,
        rng: Random,
        *,
        latency: tuple[int, int] = (1, 1),
        stall: float = 0.0,
    ):
        self.read_line, self.line_bytes = read_line, line_bytes
        self.rng, self.latency = rng, latency
        asked = ("id", "addr", "len", "size", "burst", "lock")
        self.requests = _Take(dut, f"{prefix}ar", asked, rng, stall)
        self.answers = _Offer(dut, f"{prefix}r", ("id", "data", "resp", "last"), rng, stall)
        self.waiting: list[tuple[int, int, int]] = []  # (due, id, address)
        self.bad: set[int] = set()

    def step(self, cycle: int) -> bool:
        moved = self.requests.step(cycle)
        while self.requests.words:
            word = self.requests.words.popleft()
            assert word["len"] == 0 and word["burst"] == INCREMENTING and not word["lock"], word
            assert 1 << word["size"] == self.line_bytes and word["addr"] % self.line_bytes == 0
            due = cycle + self.rng.randint(*self.latency)
            self.waiting.append((due, word["id"], word["addr"]))
        if not self.answers.words:
            self._choose(cycle)
        return self.answers.step(cycle) or moved

    def _choose(self, cycle: int) -> None:
        first: dict[int, tuple[int, int, int]] = {}
        for entry in self.waiting:
            first.setdefault(entry[1], entry)
        due = [entry for entry in first.values() if entry[0] <= cycle]
        if not due:
            return
        entry = self.rng.choice(due)
        self.waiting.remove(entry)
        _, number, address = entry
        bad = address in self.bad
        data = int.from_bytes(self.read_line(address // self.line_bytes), "little")
        self.answers.words.append(
            {"id": number, "data": data, "resp": SLVERR if bad else OKAY, "last": 1}
        )

    def progress(self) -> str:
        return f"memory: {len(self.waiting)} reads due"


class AxiLiteMaster:
    """Reads and writes registers; both may be outstanding at once."""

    def __init__(self, dut: Any, prefix: str, rng: Random, *, stall: float = 0.0):
        self.aw = _Offer(dut, f"{prefix}aw", ("addr", "prot"), rng, stall)
        self.w = _Offer(dut, f"{prefix}w", ("data", "strb"), rng, stall)
        self.b = _Take(dut, f"{prefix}b", ("resp",), rng, stall)
        self.ar = _Offer(dut, f"{prefix}ar", ("addr", "prot"), rng, stall)
        self.r = _Take(dut, f"{prefix}r", ("data", "resp"), rng, stall)

    def step(self, cycle: int) -> bool:
        moved = [part.step(cycle) for part in (self.b, self.r, self.aw, self.w, self.ar)]
        return any(moved)

    def progress(self) -> str:
        return f"master: {len(self.aw.words)} writes and {len(self.ar.words)} reads to give"

    def ask_write(self, address: int, value: int, strobes: int = ALL_BYTES) -> None:
        self.aw.words.append({"addr": address, "prot": 0})
        self.w.words.append({"data": value, "strb": strobes})

    def ask_read(self, address: int) -> None:
        self.ar.words.append({"addr": address, "prot": 0})
