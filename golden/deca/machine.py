"""Cycle model of the processing element: loaders, prefetcher, memory port, pipeline, tile outputs.

State is reduced to what timing depends on: flags of registers, counts of lines, addresses. A
unit's ``step`` is one cycle. Units step from the end of the data path to its beginning, so that
each sees the state of its producer at the start of the cycle and its consumer's decision in it.
"""

from collections import deque
from collections.abc import Sequence

from tilewright.golden.deca.core import NEVER
from tilewright.golden.deca.memory import L2Memory
from tilewright.golden.deca.tile_timing import CROSSES, ENDS, WANTED, Tile
from tilewright.golden.params.deca import STRUCTURES, DecaParams

# From an answer at its loader to the cycle in which its queue shows the line as arrived.
STORAGE_DELAY = 2
PIPELINE_CYCLES = 8  # from the cycle in which a step leaves its loader to its chunk in TOut


class _Queue:
    """Lines of one structure on their way from the memory to the loader: a queue and its reader."""

    __slots__ = ("have", "left", "lines", "out", "read", "released", "sram", "used", "waiting")

    def __init__(self, lines: int, sram: bool):
        self.lines, self.sram = lines, sram
        # Lines asked for, in order: the cycle in which the storage has each, once it is known.
        self.waiting: deque[list[int]] = deque()
        self.used = 0  # slots reserved
        self.read = self.out = False  # SRAM: its output and the register after it hold a line
        self.released = 0  # SRAM: slots that are free a cycle late
        self.have = False  # the reader has a line
        self.left = 0  # lines of the tile that it has not seen

    def offers(self, cycle: int) -> bool:
        """Whether the queue offers a line to its reader."""
        if self.sram:
            return self.out
        waiting = self.waiting
        return bool(waiting) and waiting[0][0] <= cycle

    def has(self, cycle: int, piece: int) -> bool:
        """Whether the lines of a piece (flags of ``tile_timing``) are here."""
        if not piece & WANTED:
            return True
        return self.have and (not piece & CROSSES or self.offers(cycle))

    def step(self, cycle: int, load: bool, drain: bool) -> bool:
        """One cycle; whether something moved.

        ``load``: the reader may take a line. ``drain``: it gives up those of its tile.
        """
        waiting, sram = self.waiting, self.sram
        here = bool(waiting) and waiting[0][0] <= cycle
        offered = self.out if sram else here
        takes = offered and self.left > 0 and (load or drain)
        moved = takes
        if load:
            moved |= self.have
            self.have = takes
        if takes:
            self.left -= 1
        if drain:
            self.have = False
        if not sram:
            if takes:
                waiting.popleft()
                self.used -= 1
            return moved
        moves = not offered or takes
        leaves = here and (not self.read or moves)
        moved |= leaves or self.released > 0 or (moves and self.read)
        self.used -= self.released
        if moves:
            self.out = self.read
        self.read = leaves or (self.read and not moves)
        self.released = int(leaves)
        if leaves:
            waiting.popleft()
        return moved


_IDLE, _CHECK, _START, _WAIT = range(4)  # of the fetch: from a command to the tile's turn
_NONE, _RUN, _DRAIN = range(3)  # of the steps: no tile, its steps leave, its lines are given up


class _Loader:
    """One loader: takes commands, asks for lines, and offers a tile's steps to the pipeline.

    Steps of a tile leave in order, so the registers after the window logic hold step numbers. A
    loader in which nothing moved is not ``awake`` until ``wake_at`` or an event from outside.
    """

    def __init__(self, params: DecaParams):
        depths = (params.mask_queue_lines, params.scale_queue_lines, params.sqq_lines)
        self.queues = [_Queue(lines, k == 2) for k, lines in enumerate(depths)]
        self.awake, self.wake_at = True, NEVER
        self.fetch = _IDLE
        self.next: Tile | None = None  # being fetched
        # Load unit: lines still to be requested, entries of the CAM, requests on offer.
        self.more = [0, 0, 0]
        self.line = [0, 0, 0]
        self.entries, self.taken, self.spare, self.freed = params.cam_entries, 0, True, 0
        self.offer: deque[tuple[int, list[int]]] = deque()
        self.room = True
        # Chunks of the bitmask, the window logic, and steps from there on.
        self.state = _NONE
        self.tile: Tile | None = None  # whose steps leave
        self.stages = 1 + -(-(params.lanes - 1).bit_length() // 2)
        self.cut = False
        self.masks_cut = self.masks = 0  # chunks that were cut from lines, in the slice after
        self.chunk = 0  # that the window logic takes next
        self.window: deque[int] = deque([-1] * self.stages)
        self.counted, self.steps_left = -1, 0
        self.window_out, self.slice = False, 0
        self.vetted, self.v, self.ending = 0, -1, False
        self.o, self.o_step = False, 0
        self.o_tile: Tile | None = None

    def take(self, tile: Tile) -> None:
        """Take a command in this cycle, after ``step``."""
        self.next, self.fetch, self.awake = tile, _CHECK, True

    def step(self, cycle: int, ready: bool, full: int, result_taken: bool) -> None:
        """One cycle: the pipeline is ``ready``, rows of TOut are ``full``."""
        idle = not (self.more[0] or self.more[1] or self.more[2])
        moved = self._ask() or result_taken
        mask, scale, data = self.queues
        state, tile = self.state, self.tile
        begins = state == _NONE and self.fetch == _WAIT
        if state == _RUN:
            assert tile is not None
            moved |= self._run(cycle, tile, ready, full)
        elif self.o and ready:
            self.o, moved = False, True
        if result_taken:
            self.ending = False
        if state == _DRAIN:
            drained = not (mask.left or scale.left or data.left)
            for queue in self.queues:
                moved |= queue.step(cycle, not queue.have, True)
            self._clear()
            if drained:
                self.state, moved = _NONE, True
        elif state == _NONE:
            moved |= data.step(cycle, not data.have, False)
        if begins:
            self.state, self.tile = _RUN, self.next
            assert self.next is not None
            for queue, (_, lines) in zip(self.queues, self.next.lines, strict=True):
                queue.have, queue.left = False, lines
            moved = True
        moved |= self._fetch(begins, idle)

        self.awake = moved
        if not moved:
            due = [q.waiting[0][0] for q in self.queues if q.waiting]
            self.wake_at = min((when for when in due if when > cycle), default=NEVER)

    def _run(self, cycle: int, tile: Tile, ready: bool, full: int) -> bool:
        """Steps of the tile, from those that leave back to the bitmask; whether anything moved."""
        mask, scale, data = self.queues
        steps = tile.steps
        # o: a step with its codes; v: one that was vetted.
        free = not self.o or ready
        v = self.v
        takes = fire = False
        code_piece = scale_piece = 0
        if v >= 0:
            _, code_piece, scale_piece, _ = steps[v]
            fire = data.has(cycle, code_piece) and scale.has(cycle, scale_piece)
            takes = fire and free
        moved = takes or (self.o and ready)
        if free:
            self.o, self.o_step, self.o_tile = fire, v, tile
        accepts = False
        if v < 0 or takes:
            accepts = self.slice > 0 and not self.ending and not full & steps[self.vetted][0]
            self.v = self.vetted if accepts else -1
            if accepts:
                moved = True
                self.vetted += 1
                self.ending = self.vetted == len(steps)

        # The window logic; its registers up to the count move together.
        o_takes = not self.window_out or self.slice < 2
        if self.window_out and self.slice < 2:
            self.slice += 1
            moved = True
        self.slice -= accepts
        counted = self.counted >= 0
        sparse = bool(tile.mask_cuts)
        cuts = (
            self.cut
            and self.masks < 2
            and self.masks_cut < len(tile.mask_cuts)
            and mask.has(cycle, tile.mask_cuts[self.masks_cut])
        )
        if not counted or (o_takes and self.steps_left == 1):
            offered = self.chunk < len(tile.chunks) and (not sparse or self.masks > 0)
            window = self.window
            self.counted = window.pop()
            window.appendleft(self.chunk if offered else -1)
            if offered:
                self.chunk += 1
                self.masks -= sparse
            if self.counted >= 0:
                self.steps_left = tile.chunks[self.counted]
            moved |= counted or offered or self.counted >= 0 or max(window) >= 0
        elif o_takes:
            self.steps_left -= 1
            moved = True
        if o_takes:
            self.window_out = counted
        mask_ends = False
        if cuts:
            mask_ends = bool(tile.mask_cuts[self.masks_cut] & ENDS)
            self.masks += 1
            self.masks_cut += 1
            moved = True
        if not self.cut:
            self.cut = moved = True

        if sparse:
            moved |= mask.step(cycle, not mask.have or mask_ends, False)
        if scale.left or scale.have:
            ends = takes and bool(scale_piece & ENDS)
            moved |= scale.step(cycle, not scale.have or ends, False)
        moved |= data.step(cycle, not data.have or (takes and bool(code_piece & ENDS)), False)
        if takes and v == len(steps) - 1:
            self.state = _DRAIN
        return moved

    def _clear(self) -> None:
        self.cut = self.window_out = False
        self.masks = self.masks_cut = self.chunk = self.slice = self.vetted = 0
        self.window = deque([-1] * self.stages)
        self.counted = self.v = -1

    def _fetch(self, begins: bool, idle: bool) -> bool:
        """The command that is being fetched; whether it got further."""
        if self.fetch == _CHECK:
            self.fetch = _START
        elif self.fetch == _START and idle:
            self.fetch = _WAIT
            assert self.next is not None
            self.line = [first for first, _ in self.next.lines]
            self.more = [lines for _, lines in self.next.lines]
        elif self.fetch == _WAIT and begins:
            self.fetch = _IDLE
        else:
            return False
        return True

    def _ask(self) -> bool:
        """The load unit: one request a cycle; whether anything moved."""
        allocates = False
        others = self.entries - self.taken - self.spare > 0
        if self.spare and self.room:
            for structure, queue in enumerate(self.queues):
                if self.more[structure] and queue.used < queue.lines:
                    entry = [NEVER]
                    queue.used += 1
                    queue.waiting.append(entry)
                    self.offer.append((self.line[structure], entry))
                    self.line[structure] += 1
                    self.more[structure] -= 1
                    allocates = True
                    break
        moved = allocates or self.freed > 0 or (not self.spare and others)
        if allocates or not self.spare:
            self.spare = others
        self.taken += allocates - self.freed
        self.freed = 0
        return moved


class _Run:
    """Where the tiles of one structure lie, and how far they are prefetched."""

    __slots__ = ("base", "high", "low", "pending", "reach", "running")

    def __init__(self) -> None:
        self.running = False
        self.base = self.low = self.high = self.reach = 0
        self.pending = 0  # lines from ``high`` on

    def measure(self, params: DecaParams, base: int, length: int, tiles: int) -> tuple[int, ...]:
        """Whether an observed tile starts a run, its first line, the line after it, and the line
        after the last expected tile."""
        distance = base - self.base
        continues = self.running and length > 0 and 0 <= distance <= params.max_prefetch_stride
        stride = distance if continues else 0
        self.base, self.running = base, length > 0
        size = params.line_bytes
        first = base // size
        span = base % size + length + size - 1 if length else 0
        last = first + (tiles * stride + span) // size
        return not continues, first, first + span // size, min(last, 1 << params.line_address_bits)


class _Prefetcher:
    """One prefetcher for both loaders, or one for each and their common port."""

    def __init__(self, params: DecaParams, degree: int):
        self.params, self.tiles = params, params.tiles_per_degree * degree
        self.runs = [_Run() for _ in range(params.prefetchers) for _ in STRUCTURES]
        self.observed: deque[tuple[int, list[tuple[_Run, tuple[int, ...]]]]] = deque()
        self.line, self.source = 0, -1
        self.asked, self.asked_source, self.held = 0, -1, 0
        self.turn = 0  # structures from this one on go first
        self.active = False

    def observe(self, cycle: int, loader: int, tile: Tile) -> None:
        """Show a tile to the prefetcher of a loader; at most one in a cycle."""
        first = loader % self.params.prefetchers * len(STRUCTURES)
        runs = self.runs[first : first + len(STRUCTURES)]
        found = [
            (run, run.measure(self.params, base, length, self.tiles))
            for run, base, length in zip(runs, tile.bases, tile.lengths, strict=True)
        ]
        self.observed.append((cycle, found))
        self.active = True

    def step(self, cycle: int, ready: bool) -> int | None:
        """One cycle; the line that leaves where the port is ``ready``."""
        counted = placed = settled = None
        for seen, found in self.observed:
            age = cycle - seen
            if age == 4:
                counted = found
            elif age == 5:
                placed = found
            elif age == 6:
                settled = found
        if settled is not None:
            self.observed.popleft()
        settling = placed is not None or settled is not None

        valid = self.asked_source >= 0 and not self.held & ~(1 << self.asked_source)
        moves = (not valid or ready) and not settling
        leaves = self.asked if valid and ready else None
        runs = self.runs
        if moves:
            self.asked, self.asked_source = self.line, self.source
            self.held = 0
            if self.source >= 0:
                for k, run in enumerate(runs):
                    self.held |= (run.low <= self.line < run.high) << k
            pending = [k for k, run in enumerate(runs) if run.pending]
            chosen = next((k for k in pending if k >= self.turn), pending[0] if pending else -1)
            self.source = chosen
            if chosen >= 0:
                self.turn = chosen + 1
                run = runs[chosen]
                self.line = run.high
                run.high += 1
                run.pending -= 1
        elif ready:
            self.asked_source = -1
        if settled is not None:
            for run, (_, _, _, last) in settled:
                run.pending = max(0, last - run.high)
        if placed is not None:
            for run, (starts, _, end, _) in placed:
                if starts or end > run.high:
                    run.high = end
        if counted is not None:
            for run, (starts, first, _, _) in counted:
                if starts:
                    run.low = first
        if not self.observed and self.source < 0 and self.asked_source < 0:
            self.active = any(run.pending for run in runs)
        return leaves


class PE:
    """The processing element and the memory below it, one cycle after the other.

    A core gives commands by ``give`` when ``open`` says so, sees results in ``done``, takes them by
    ``take_result``, and reads rows that are ``full``; all of it between two calls of ``step``.
    """

    def __init__(self, params: DecaParams, memory: L2Memory, degree: int = 0):
        self.params, self.memory = params, memory
        self.loaders = [_Loader(params) for _ in range(params.loaders)]
        self.prefetcher = _Prefetcher(params, degree)
        self.requests: list[tuple[int, int, int]] = []  # cycle, line, loader or -1 for a prefetch
        self.out: tuple[int, int, list[int]] | None = None  # line, loader, entry
        self.preferred = 0
        self.answers: dict[int, int] = {}  # cycle -> loader
        self.owner, self.locked = 0, False
        self.pipeline: deque[tuple[int, int, int, bool]] = deque()  # due, loader, rows, final
        self.full = [0] * params.loaders
        self.done = [False] * params.loaders

    def step(
        self,
        cycle: int,
        commands: Sequence[tuple[int, Tile]] = (),
        results: Sequence[int] = (),
        reads: Sequence[tuple[int, int]] = (),
        observed: Sequence[tuple[int, Tile]] = (),
    ) -> None:
        """One cycle, in which loaders take ``commands``, ``results`` are taken and rows read.

        The prefetcher is shown what is ``observed``: a tile, and its loader if it is known.
        """
        loaders = self.loaders
        answered = self.answers.pop(cycle, None)
        if answered is not None:
            loaders[answered].freed = 1
            loaders[answered].awake = True
        self._port(cycle)

        owner = self.owner
        offers = [loader.o for loader in loaders]
        ends = False
        if offers[owner]:
            tile, number = loaders[owner].o_tile, loaders[owner].o_step
            assert tile is not None
            ends = number == len(tile.steps) - 1
            rows = tile.steps[number][3]
            if rows or ends:
                self.pipeline.append((cycle + PIPELINE_CYCLES, owner, rows, ends))
        for k, loader in enumerate(loaders):
            if loader.awake or k in results or cycle >= loader.wake_at:
                loader.step(cycle, k == owner, self.full[k], k in results)
        between = ends or (not self.locked and not offers[owner])
        if between and offers[1 - owner]:
            self.owner = 1 - owner
            loaders[1 - owner].awake = True
        if offers[owner]:
            self.locked = not ends

        for k, row in reads:
            self.full[k] &= ~(1 << row)
            loaders[k].awake = True
        for k in results:
            self.done[k] = False
        if self.pipeline and self.pipeline[0][0] == cycle:
            _, k, rows, final = self.pipeline.popleft()
            self.full[k] |= rows
            self.done[k] |= final
        for k, tile in commands:
            loaders[k].take(tile)
        for k, tile in observed:
            self.prefetcher.observe(cycle, k, tile)

    def next_event(self, cycle: int) -> int:
        """The first cycle after ``cycle`` in which anything can move, if the core does nothing."""
        if self.out is not None or self.prefetcher.active:
            return cycle + 1
        found = min(self.answers, default=NEVER)
        if self.pipeline:
            found = min(found, self.pipeline[0][0])
        for k, loader in enumerate(self.loaders):
            if loader.awake or loader.offer or (loader.o and k == self.owner) or self.done[k]:
                return cycle + 1
            found = min(found, loader.wake_at)
        return found

    def open(self, k: int) -> bool:
        """Whether loader ``k`` takes a command in this cycle."""
        return self.loaders[k].fetch == 0

    def _port(self, cycle: int) -> None:
        """The memory port in this cycle, and its next request."""
        if self.out is not None:
            line, k, entry = self.out
            self.requests.append((cycle, line, k))
            if k < 0:
                self.memory.prefetch(cycle, line)
            else:
                loaders = self.loaders
                due = self.memory.request(cycle, line)
                self.answers[due] = k
                entry[0] = due + STORAGE_DELAY
                loaders[k].wake_at = min(loaders[k].wake_at, entry[0])
        loaders = self.loaders
        for loader in loaders:
            loader.room = len(loader.offer) < 2
        first, second = bool(loaders[0].offer), bool(loaders[1].offer)
        line_ahead = None
        if self.prefetcher.active:
            line_ahead = self.prefetcher.step(cycle, not (first or second))
        self.out = None
        if first or second:
            k = self.preferred if first and second else int(second)
            line, entry = loaders[k].offer.popleft()
            loaders[k].awake = True
            self.out = (line, k, entry)
            self.preferred = 1 - k
        elif line_ahead is not None:
            self.out = (line_ahead, -1, [])
