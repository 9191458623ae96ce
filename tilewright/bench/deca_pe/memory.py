"""A memory that answers lines late, out of order, with limited bandwidth, and sometimes badly."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from golden.pack import pack, unpack
from golden.params.deca import DecaParams

__all__ = ["Memory"]


@dataclass
class Memory:
    """Answers every request once, ``latency`` cycles later at the earliest, in any order.

    ``bandwidth`` is the share of cycles in which it answers at all. Lines in ``bad_lines`` are
    answered with an error and all-ones data.
    """

    params: DecaParams
    read_line: Callable[[int], bytes]
    rng: Random
    latency: tuple[int, int] = (1, 1)
    bandwidth: float = 1.0
    bad_lines: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.waiting: list[tuple[int, int, int]] = []  # (due, line, tag)
        self.demanded: list[int] = []
        self.prefetched: list[int] = []
        self.tags_in_use: set[int] = set()
        by_name = {p.name: p for p in (*self.params.inputs, *self.params.outputs)}
        self._request, self._response = by_name["mem_request"], by_name["mem_response"]

    def request(self, now: int, word: int) -> None:
        fields = {k: int(v[0]) for k, v in unpack(self._request, [word]).items()}
        if fields["prefetch"]:
            self.prefetched.append(fields["line"])
            return
        assert fields["tag"] not in self.tags_in_use, f"tag {fields['tag']:#x} used twice"
        self.tags_in_use.add(fields["tag"])
        self.demanded.append(fields["line"])
        due = now + self.rng.randint(*self.latency)
        self.waiting.append((due, fields["line"], fields["tag"]))

    def answer(self, now: int) -> int | None:
        """The response word of this cycle."""
        if not self.waiting or self.rng.random() >= self.bandwidth:
            return None
        due = [entry for entry in self.waiting if entry[0] <= now]
        if not due:
            return None
        entry = due[0] if self.latency[0] == self.latency[1] else self.rng.choice(due)
        self.waiting.remove(entry)
        _, line, tag = entry
        self.tags_in_use.remove(tag)
        bad = line in self.bad_lines
        data = (
            (1 << self.params.line_bits) - 1
            if bad
            else int.from_bytes(self.read_line(line), "little")
        )
        return tag | int(bad) << self.params.tag_bits | data << (self.params.tag_bits + 1)

    def response_word(self, tag: int) -> int:
        """An answer that nobody asked for."""
        [word] = pack(self._response, {"tag": [tag], "error": [0], "data": [0]})
        return word
