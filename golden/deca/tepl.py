"""Cycle model of the TEPL unit: the core's queue of tile loads and its ports to the loaders."""

from collections import deque
from dataclasses import dataclass

from tilewright.golden.deca.machine import PE
from tilewright.golden.deca.tile_timing import Tile
from tilewright.golden.params.deca import TILE_ROWS, DecaParams

ROW_DELAY = 2  # from the choice of a row to its write into the tile register
COMPLETE_DELAY = 2  # from the write of the last row to the end of the TEPL


@dataclass(slots=True)
class _Entry:
    number: int  # in program order
    tile: Tile
    can_go: bool = True
    finished: bool = False


class TeplUnit:
    """TEPLs in program order, of which each port has up to ``port_commands`` with its loader."""

    def __init__(self, params: DecaParams, pe: PE):
        self.entries = params.tepl_entries
        self.port_commands = params.port_commands
        self.pe = pe
        self.queue: list[_Entry] = []
        self.up_next: _Entry | None = None
        self.offer: tuple[int, _Entry] | None = None  # a command at a port
        self.ports: list[deque[_Entry]] = [deque() for _ in range(params.loaders)]
        self.settled = [False] * params.loaders  # the oldest tile's result is known
        self.rows = [0] * params.loaders  # of each port's oldest tile: the next one to ask for
        self.ask: tuple[int, int] | None = None  # tile output and row at the read port
        self.asked_last = 0
        self.telling: deque[tuple[int, _Entry]] = deque()  # when each TEPL's end is on offer
        self.new: _Entry | None = None  # dispatched in the cycle before
        self.first_row: dict[int, int] = {}
        self.last_row: dict[int, int] = {}

    @property
    def ready(self) -> bool:
        """Whether a TEPL can be dispatched in this cycle."""
        return len(self.queue) < self.entries

    def step(self, cycle: int, dispatched: tuple[int, Tile] | None) -> int | None:
        """One cycle of the unit and of the element it drives; the TEPL that completes in it."""
        pe = self.pe
        completes = None
        if self.telling and self.telling[0][0] == cycle:
            completes = self.telling.popleft()[1]
        results = [k for k, done in enumerate(pe.done) if done and not self.settled[k]]
        commands = []
        if self.offer is not None:
            k, entry = self.offer
            commands.append((k, entry.tile))
        reads = [] if self.ask is None else [self.ask]
        observed = commands
        if pe.params.prefetchers == 1:  # it needs no loader
            observed = [] if self.new is None else [(0, self.new.tile)]
        choice = self._choose()
        goes = self._issue()
        # The unit's decisions depend on registers before this cycle.
        pe.step(cycle, commands, results, reads, observed)

        for k in results:
            self.settled[k] = True
        self.ask = choice
        if choice is not None:
            k, row = choice
            number = self.ports[k][0].number
            if row == 0:
                self.first_row[number] = cycle + ROW_DELAY
            self.rows[k] = row + 1
            self.asked_last = k
            if row == TILE_ROWS - 1:
                self.last_row[number] = cycle + ROW_DELAY
                self.telling.append((cycle + ROW_DELAY + COMPLETE_DELAY, self.ports[k].popleft()))
                self.rows[k], self.settled[k] = 0, False
        self.offer = None
        if goes is not None:
            assert self.up_next is not None
            self.offer = (goes, self.up_next)
            self.ports[goes].append(self.up_next)
            self.up_next.can_go, self.up_next = False, None
        elif self.up_next is None:
            self.up_next = next((entry for entry in self.queue if entry.can_go), None)
        if self.queue and self.queue[0].finished:
            self.queue.pop(0)
        if self.telling and self.telling[0][0] == cycle + 1:
            self.telling[0][1].finished = True
        self.new = None
        if dispatched is not None:
            self.new = _Entry(*dispatched)
            self.queue.append(self.new)
        return None if completes is None else completes.number

    def next_event(self, cycle: int) -> int:
        """The first cycle after ``cycle`` in which anything can move, if nothing is dispatched."""
        found = self.pe.next_event(cycle)
        if self.telling:
            found = min(found, self.telling[0][0] - 1)
        if found <= cycle + 1 or self.offer is not None or self.ask is not None:
            return cycle + 1
        waits = self.up_next is None and any(entry.can_go for entry in self.queue)
        if waits or (self.queue and self.queue[0].finished):
            return cycle + 1
        moves = self.new is not None or self._choose() is not None or self._issue() is not None
        return cycle + 1 if moves else found

    def _issue(self) -> int | None:
        """The port that the next TEPL goes to."""
        if self.up_next is None:
            return None
        for k, port in enumerate(self.ports):
            offered = self.offer is not None and self.offer[0] == k
            if self.pe.open(k) and not offered and len(port) < self.port_commands:
                return k
        return None

    def _choose(self) -> tuple[int, int] | None:
        """Tile output and row that are asked for next."""
        full = self.pe.full
        for k in (self.asked_last, 1 - self.asked_last):
            if self.ports[k] and full[k] >> self.rows[k] & 1:
                return k, self.rows[k]
        return None
