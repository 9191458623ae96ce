"""Memories at the ports of the PE: one that misbehaves, and the one of the golden cycle model."""

from collections.abc import Callable
from random import Random

from tilewright.golden.deca.memory import L2Memory
from tilewright.golden.params.deca import DecaParams


class Store:
    """Bytes from a line on, into which contents are put; the gaps are random."""

    def __init__(self, params: DecaParams, rng: Random, base: int = 0):
        self.line_bytes, self.rng, self.base = params.line_bytes, rng, base
        self.content = bytearray()

    @property
    def end(self) -> int:
        """The address of the next line that is free."""
        return self.base + len(self.content)

    def put(self, content: bytes, offset: int = 0) -> int:
        """The address of ``content``, ``offset`` bytes into a line of its own."""
        address = self.end + offset
        size = offset + len(content)
        behind = -size % self.line_bytes
        self.content += self.rng.randbytes(offset) + content + self.rng.randbytes(behind)
        return address

    def line(self, number: int) -> bytes:
        """A line, all ones where it is empty."""
        start = number * self.line_bytes - self.base
        if not 0 <= start < len(self.content):
            return b"\xff" * self.line_bytes
        return bytes(self.content[start : start + self.line_bytes])


class Memory:
    """Answers every request once, some of ``latency`` cycles later at the earliest, in any order.

    A fixed latency keeps the order. ``bandwidth`` is the share of cycles in which it answers at
    all, ``repeats`` the share of answers given twice. Lines in ``bad_lines`` are answered with
    an error and all-ones data. A line that a prefetch has brought in ``latency`` ago is answered
    after ``near`` cycles instead.
    """

    def __init__(
        self,
        params: DecaParams,
        read_line: Callable[[int], bytes],
        rng: Random,
        *,
        latency: tuple[int, int] = (1, 1),
        bandwidth: float = 1.0,
        near: int | None = None,
    ):
        self.params, self.read_line, self.rng = params, read_line, rng
        self.latency, self.bandwidth, self.near = latency, bandwidth, near
        self.repeats = 0.0
        self._again: list[int] = []
        self.bad_lines: set[int] = set()
        self.waiting: list[tuple[int, int, int]] = []  # (due, line, tag)
        self.tags_in_use: set[int] = set()
        self.requests: list[tuple[int, int, int]] = []  # cycle, line, loader or -1 for a prefetch
        self.near_from: dict[int, int] = {}  # line -> cycle from which it is near
        self.hits = 0  # requests for lines that were near

    @property
    def demanded(self) -> list[int]:
        """Lines that loaders asked for, in order."""
        return [line for _, line, loader in self.requests if loader >= 0]

    @property
    def prefetched(self) -> list[int]:
        """Lines that the prefetcher asked for, in order."""
        return [line for _, line, loader in self.requests if loader < 0]

    def request(self, now: int, word: int) -> int | None:
        """Take a request; returns its loader, None for a prefetch."""
        p = self.params
        line, word = word & ((1 << p.line_address_bits) - 1), word >> p.line_address_bits
        tag, prefetch = word & ((1 << p.tag_bits) - 1), word >> p.tag_bits
        if prefetch:
            self.requests.append((now, line, -1))
            self._prefetch(now, line)
            return None
        loader = self.loader_of(tag)
        self.requests.append((now, line, loader))
        assert tag not in self.tags_in_use, f"tag {tag:#x} used twice"
        self.tags_in_use.add(tag)
        self.waiting.append((self._due(now, line), line, tag))
        return loader

    def _prefetch(self, now: int, line: int) -> None:
        self.near_from.setdefault(line, now + self.rng.randint(*self.latency))

    def _due(self, now: int, line: int) -> int:
        """The cycle from which a line may be answered."""
        delay = self.rng.randint(*self.latency)
        if self.near_from.get(line, now + 1) <= now:
            self.hits += 1
            if self.near is not None:
                delay = self.near
        return now + delay

    def loader_of(self, tag: int) -> int:
        return tag >> (self.params.tag_bits - 1)

    def outstanding(self, loader: int) -> int:
        """Requests of a loader that have no answer yet."""
        return sum(self.loader_of(tag) == loader for tag in self.tags_in_use)

    def answer(self, now: int) -> int | None:
        """The response word of this cycle."""
        if self._again:
            return self._again.pop()
        if not self.waiting or (self.bandwidth < 1 and self.rng.random() >= self.bandwidth):
            return None
        due = [entry for entry in self.waiting if entry[0] <= now]
        if not due:
            return None
        in_order = self.latency[0] == self.latency[1]
        entry = due[0] if in_order else self.rng.choice(due)
        self.waiting.remove(entry)
        _, line, tag = entry
        self.tags_in_use.remove(tag)
        bad = line in self.bad_lines
        data = b"\xff" * self.params.line_bytes if bad else self.read_line(line)
        word = self.response_word(tag, bad, int.from_bytes(data, "little"))
        if self.rng.random() < self.repeats:
            self._again.append(word)
        return word

    def response_word(self, tag: int, error: bool = False, data: int = 0) -> int:
        return tag | int(error) << self.params.tag_bits | data << (self.params.tag_bits + 1)


class BelowL2(Memory):
    """The memory of ``tilewright.golden.deca.memory``: it says when a line is answered."""

    def __init__(self, params: DecaParams, read_line: Callable[[int], bytes], model: L2Memory):
        super().__init__(params, read_line, Random(1))
        self.model = model

    def _prefetch(self, now: int, line: int) -> None:
        self.model.prefetch(now, line)

    def _due(self, now: int, line: int) -> int:
        return self.model.request(now, line)
