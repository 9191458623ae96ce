"""When DRAM answers: banks, open rows, turns of the bus and refresh of each channel of the port.

**Addresses.** The port's channels have a channel of DRAM each; its lines take turns in the
pseudo-channels. The bursts of a line lie in banks of as many groups as it has bursts, which
therefore follow each other every tCCD_S, and open and close their rows together. Lines follow each
other through the sets of groups, the columns of their rows, the banks, and the rows.

**Policy.** Column commands are in the order of requests. Rows stay open until a request of another
row needs the bank; they are closed and opened as soon as that request is among ``window`` whose
column commands are not issued. Lines to write are acknowledged when the controller has them, and
written in batches, which follow the reads that came before the last of them; a line is acknowledged
after the end of the batch before its own's. All banks are refreshed together when that is due.
Commands do not wait for each other on the command bus.

An answer depends on earlier requests alone, so that a bench and a cycle model that ask in the same
cycles get the same answers.
"""

import tomllib
from collections import deque
from dataclasses import dataclass, fields
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, Self

from tilewright.golden.params.block import require

TABLE = Path(__file__).with_name("memories.toml")
PATH = 64_000  # picoseconds in controller, network and PHY, both ways: 100 ns with those of HBM2
WINDOW, BATCH = 8, 16  # lines of a pseudo-channel


@dataclass(frozen=True, kw_only=True)
class Dram:
    """A kind of DRAM and its controller; times without another unit are in clocks."""

    period: int  # of a clock, in picoseconds
    halves: int  # pseudo-channels of a channel
    burst_bytes: int
    groups: int  # of banks
    banks: int  # of a group
    row_bytes: int  # of a bank
    ccd_s: int  # between bursts, of different groups
    ccd_l: int  # of the same
    cl: int  # from a read to its data
    cwl: int
    rcd: int  # from opening a row to a read or write
    rp: int  # from closing a row to opening another
    ras: int  # from opening a row to closing it
    rrd_s: int  # between openings, of different groups
    rrd_l: int
    faw: int  # in which at most four rows are opened
    rtp: int  # from a read to closing its row
    wr: int  # from the end of written data to closing its row
    wtr: int  # from there to a read
    refi: int  # between refreshes
    rfc: int  # of a refresh
    path: int = PATH  # picoseconds outside of the DRAM
    window: int = WINDOW
    batch: int = BATCH
    rtw: int = 0  # from a read to a write; 0: as soon as the bus is free, and two clocks

    @classmethod
    def named(cls, name: str) -> Self:
        """The memory of that name in the table."""
        row, known = memories().get(name), {field.name for field in fields(cls)}
        require(row is not None, f"memory must be flat, {', '.join(memories())}, not {name!r}")
        assert row is not None
        return cls(**{key: value for key, value in row.items() if key in known})

    @property
    def bytes_per_second(self) -> float:
        """The rate of a channel's data bus."""
        return self.halves * self.burst_bytes / (self.ccd_s * self.period * 1e-12)


@cache
def memories() -> dict[str, dict[str, Any]]:
    """The table of memories."""
    return tomllib.loads(TABLE.read_text())


class PseudoChannel:
    """State of a data bus and its banks; times are clocks, ``place`` counts the lines."""

    def __init__(self, dram: Dram, line_bytes: int):
        self.dram = d = dram
        self.bursts, rest = divmod(line_bytes, d.burst_bytes)
        require(
            self.bursts > 0 and rest == 0,
            f"lines of {line_bytes} bytes are no whole bursts of {d.burst_bytes}",
        )
        self.together = min(d.groups, self.bursts)  # groups of a line
        self.ccd = max(d.ccd_s, ceil(d.ccd_l / self.together))
        self.rrd = max(d.rrd_s, ceil(d.rrd_l / self.together))
        self.sets, self.row_lines = (
            d.groups // self.together,
            self.together * d.row_bytes // line_bytes,
        )
        self.rtw = d.rtw or d.cl + d.ccd_s + 2 - d.cwl
        count = self.sets * d.banks
        self.rows = [-1] * count  # open in each bank
        self.closable = [-d.rp] * count  # when each bank may be closed; closed ones were then
        self.opened = [0] * count  # when each takes a column command
        self.acts = deque([-d.faw] * 4, 4)  # the last rows opened
        self.columns = deque([0] * d.window, d.window)  # the last column commands
        self.bus = [0, 0]  # when the bus can take the next read, and the next write
        self.due = d.refi
        self.hits = self.lines = 0

    def transfer(self, at: int, place: int, write: bool) -> int:
        """When the last burst of a line that is here ``at`` is read or written: its command."""
        d = self.dram
        seen = max(at, self.columns[0])
        now = max(at, self.columns[-1])
        if now >= self.due:
            self._refresh(now)
        bank, row, _ = self.where(place)
        self.lines += 1
        if self.rows[bank] == row:
            self.hits += 1
        else:
            self._open(bank, row, seen)
        first = max(at, self.opened[bank], self.bus[write])
        last = first + (self.bursts - 1) * self.ccd
        self.columns.append(first)
        self.bus[write] = last + self.ccd
        end = last + d.cwl + d.ccd_s  # of written data
        self.bus[not write] = end + d.wtr if write else last + self.rtw
        self.closable[bank] = max(self.closable[bank], end + d.wr if write else last + d.rtp)
        return last

    def where(self, place: int) -> tuple[int, int, int]:
        """Bank, row, and column in lines."""
        place, group = divmod(place, self.sets)
        place, column = divmod(place, self.row_lines)
        row, bank = divmod(place, self.dram.banks)
        return bank + group * self.dram.banks, row, column

    def _open(self, bank: int, row: int, seen: int) -> None:
        d, acts = self.dram, self.acts
        closed = self.closable[bank] if self.rows[bank] < 0 else max(seen, self.closable[bank])
        act, ready = max(seen, closed + d.rp), 0
        for k in range(self.together):
            act = max(act, acts[-1] + self.rrd, acts[0] + d.faw)
            acts.append(act)
            ready = max(ready, act + d.rcd - k * self.ccd)
        self.rows[bank], self.opened[bank], self.closable[bank] = row, ready, act + d.ras

    def _refresh(self, now: int) -> None:
        """All banks, as often as it was due until ``now``; only the last may delay requests."""
        d = self.dram
        self.due += (now - self.due) // d.refi * d.refi
        closed = (end for row, end in zip(self.rows, self.closable, strict=True) if row >= 0)
        end = max(self.due, *closed, 0) + d.rp + d.rfc
        count = len(self.rows)
        self.rows, self.closable = [-1] * count, [end - d.rp] * count
        self.due += d.refi


class DramChannel:
    """A channel of the port in cycles of an accelerator of ``clock`` Hz.

    Requests come in the order of their cycles, lines are counted within the channel. A request
    taken in a cycle is answered at the earliest in the one that is returned, and answers do not
    overtake each other; in a cycle there is at most one of reads, and one of writes.
    """

    def __init__(self, dram: Dram, line_bytes: int, clock: int):
        self.dram, self.clock = dram, clock
        self.path = ceil(dram.path * clock / 10**12)
        self.halves = [PseudoChannel(dram, line_bytes) for _ in range(dram.halves)]
        self.answered = self.acknowledged = 0
        self.full = [0] * dram.halves  # when each half's last batch but one was written
        self.waiting: list[list[int]] = [[] for _ in range(dram.halves)]  # places to write

    def read(self, cycle: int, line: int) -> int:
        """The cycle in which a line that is requested in ``cycle`` is there."""
        place, half = divmod(line, self.dram.halves)
        last = self.halves[half].transfer(self._clocks(cycle), place, False)
        here = self._cycles(last + self.dram.cl + self.dram.ccd_s)
        self.answered = max(self.answered + 1, here)
        return self.answered

    def write(self, cycle: int, line: int) -> int:
        """The cycle in which a line that is written in ``cycle`` is acknowledged."""
        place, half = divmod(line, self.dram.halves)
        now, waiting = self._clocks(cycle), self.waiting[half]
        taken = max(now, self.full[half])
        waiting.append(place)
        if len(waiting) == self.dram.batch:
            for one in waiting:
                self.full[half] = self.halves[half].transfer(now, one, True)
            waiting.clear()
        self.acknowledged = max(self.acknowledged + 1, self._cycles(taken))
        return self.acknowledged

    def _clocks(self, cycle: int) -> int:
        return -(-cycle * 10**12 // (self.clock * self.dram.period))

    def _cycles(self, clocks: int) -> int:
        return self.path - -clocks * self.dram.period * self.clock // 10**12
