"""The memory below a DECA: an L2 in front of a memory with a latency and a share of bandwidth.

The cycle of an answer is known when its request is taken, and all times are whole numbers, so a
bench and a model with the same requests in the same cycles see the same answers.
"""

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from tilewright.golden.params.block import Limited, require, within
from tilewright.golden.params.deca import ROW_BYTES

Prefetch = Literal["none", "l2", "deca"]
MOST_CYCLES = 1 << 16
SOME = within(1, MOST_CYCLES)


@dataclass(frozen=True, kw_only=True)
class MemoryParams(Limited):
    """The memory below DECA's port; times in DECA's cycles."""

    l2_latency: Annotated[int, SOME] = 14  # from a request to its line, when the L2 has it
    # More where the L2 has to ask the memory, whose channel is free.
    latency: Annotated[int, within(0, MOST_CYCLES)] = 261
    bytes_per_cycle: Fraction | None = None  # this core's share of the bandwidth; None: all of it
    prefetch_lines: Annotated[int, SOME] = 96  # on their way with which a prefetch is dropped
    l2_prefetch: bool = False  # the L2 has a prefetcher that sees DECA's requests
    # Lines of a physical page, which the L2's prefetcher does not leave.
    page_lines: Annotated[int, SOME] = 64
    # Lines of a page that it watches before it asks for any; how far it then is ahead.
    training_lines: Annotated[int, within(0, MOST_CYCLES)] = 8
    ahead_lines: Annotated[int, SOME] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        share = self.bytes_per_cycle
        require(share is None or share > 0, f"bytes_per_cycle must be above 0, not {share}")


class L2Memory:
    """Answers requests for lines; one answer a cycle.

    - A line in the L2, or on its way to it, is answered ``l2_latency`` cycles after the request, or
      after its arrival. It stays in the L2: streamed weights are read once, lines shared by two
      tiles twice, both long before an eviction.
    - Any other line is requested from the memory. Its channel starts one line after the other, each
      takes 64 bytes of the share, and the line is in the L2 ``latency`` cycles after its start.
      While ``prefetch_lines`` lines are on their way, prefetches are dropped.
    - The L2's own prefetcher counts the requests for new lines in every physical page. From the
      first one after ``training_lines`` on, a request is followed by prefetches of the lines up
      to ``ahead_lines`` after it, in the same page.
    - Of two answers due in one cycle, the earlier request's is first; the other takes the next free
      cycle.
    """

    def __init__(self, params: MemoryParams):
        self.params = params
        share = params.bytes_per_cycle
        # The channel counts in parts of a cycle, of which a line takes a whole number.
        self._parts = share.numerator if share else 1
        self._line_parts = ROW_BYTES * share.denominator if share else 0
        self._free = 0  # when the channel can start the next line, in parts
        self._here: dict[int, int] = {}  # line -> cycle from which the L2 has it
        self._coming: deque[int] = deque()  # when those on their way arrive, in order
        self._answers: set[int] = set()  # cycles that have an answer
        self._pages: dict[int, int] = {}  # page -> lines of it that were requested
        self._seen: set[int] = set()  # lines requested, for the L2's prefetcher
        self.read = 0  # requests
        self.misses: list[int] = []  # cycles of those for lines neither in the L2 nor on their way
        self.prefetched = 0  # lines that prefetches have brought
        self.dropped = 0  # prefetches for which the L2 had no place

    @property
    def missed(self) -> int:
        """Number of misses."""
        return len(self.misses)

    def request(self, cycle: int, line: int) -> int:
        """Take a load in ``cycle``; return the cycle of its answer."""
        self.read += 1
        here = self._here.get(line)
        if here is None:
            self.misses.append(cycle)
            here = self._fetch(cycle, line)
        if self.params.l2_prefetch:
            self._follow(cycle, line)
        answer = max(cycle, here) + self.params.l2_latency
        answers = self._answers
        while answer in answers:
            answer += 1
        answers.add(answer)
        if len(answers) > 4096:
            self._answers = {due for due in answers if due > cycle}
        return answer

    def prefetch(self, cycle: int, line: int) -> None:
        """Take a prefetch in ``cycle``; it has no answer."""
        if line in self._here:
            return
        coming = self._coming
        while coming and coming[0] <= cycle:
            coming.popleft()
        if len(coming) >= self.params.prefetch_lines:
            self.dropped += 1
            return
        self.prefetched += 1
        self._fetch(cycle, line)

    def _fetch(self, cycle: int, line: int) -> int:
        """Ask the memory for a line; return the cycle from which the L2 has it."""
        coming = self._coming
        while coming and coming[0] <= cycle:
            coming.popleft()
        start = max(cycle * self._parts, self._free)
        self._free = start + self._line_parts
        here = self._here[line] = -(-start // self._parts) + self.params.latency
        coming.append(here)
        return here

    def _follow(self, cycle: int, line: int) -> None:
        """The L2's own prefetches after a request."""
        if line in self._seen:
            return
        self._seen.add(line)
        p = self.params
        page = line // p.page_lines
        count = self._pages[page] = self._pages.get(page, 0) + 1
        if count > p.training_lines:
            end = min(line + p.ahead_lines, (page + 1) * p.page_lines - 1)
            for follower in range(line + 1, end + 1):
                self.prefetch(cycle, follower)
