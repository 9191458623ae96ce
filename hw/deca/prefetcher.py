"""Prefetcher: asks for the lines of tiles that no command has named yet."""

from functools import reduce
from itertools import product
from operator import or_

from amaranth import Cat, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import LENGTH_BITS, STRUCTURES, TILE_BYTES, DecaParams
from tilewright.hw.arith.lowest_set import lowest_set
from tilewright.hw.deca.load_unit import locations_layout, request_layout


def observation(params: DecaParams) -> wiring.Signature:
    """How a prefetcher is shown where a tile lies; ``valid`` for one cycle.

    Where each loader has a prefetcher, ``loader`` is that of the tile.
    """
    loader = {"loader": Out(range(params.loaders))} if params.prefetchers > 1 else {}
    return wiring.Signature({"valid": Out(1), "command": Out(locations_layout(params)), **loader})


class Run(wiring.Component):
    """State of one structure of the tiles: where they are, and how far they were fetched.

    A tile, shown for one cycle by ``observe``, continues the run when its base lies 0 to
    ``params.max_prefetch_stride`` bytes above the one before; otherwise it starts a run. A tile
    of length 0 ends the run. When a tile continues it, the lines up to the end of the last of the
    ``degree`` times ``params.tiles_per_degree`` tiles after it, the same distance apart and of the
    same length, are ``pending``.

    Every line of [``low``, ``next``) was part of a tile of the run or offered as ``next``, or lies
    before a tile that arrived earlier than expected.

    Timing: lines are pending seven cycles after their tile is shown; a tile can be shown every
    cycle. While ``settling``, the two cycles before, ``next`` and ``low`` are not to be used.

    Members
    -------
    next : the next line to prefetch, where ``pending``; one bit wider than a line number, since
        the last line is followed by one too
    take : ``next`` has been taken
    """

    def __init__(self, params: DecaParams):
        self.params = params
        line_bits = params.line_address_bits
        super().__init__(
            {
                "observe": In(1),
                "base": In(params.address_bits),
                "length": In(LENGTH_BITS),
                "degree": In(range(params.max_prefetch_degree + 1)),
                "settling": Out(1),
                "pending": Out(1),
                "low": Out(line_bits),
                "next": Out(line_bits + 1),
                "take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        # Progress of a tile: seen, measured, looked ahead, counted, placed, settled.
        stages = Signal(6)
        m.d.sync += stages.eq(Cat(self.observe, stages))
        tiles = p.tiles_per_degree * p.max_prefetch_degree
        most = tiles * p.max_prefetch_stride // p.line_bytes + 1
        self._measure(m, stages)
        end, reach, fresh = self._look_ahead(m, stages, most)

        # Lines left to prefetch, not beyond the last line of the memory.
        left = Signal(range(most + 1))
        last = Signal.like(self.next)
        m.d.comb += [
            last.eq(Mux(reach[-1], 1 << p.line_address_bits, reach)),
            self.settling.eq(stages[4:].any()),
        ]
        with m.If((stages[4] & (fresh | _exceeds(end, self.next))) | self.take):
            # Nothing is taken while it settles.
            m.d.sync += self.next.eq(Mux(stages[4], end, self.next + 1))
        with m.If(stages[5]):
            m.d.sync += [
                left.eq(last[: len(left)] - self.next[: len(left)]),
                self.pending.eq(last > self.next),
            ]
        with m.Elif(self.take):
            m.d.sync += [left.eq(left - 1), self.pending.eq(left != 1)]
        return m

    def _measure(self, m: Module, stages: Signal) -> None:
        """The tile, and its distance to the one before."""
        p = self.params
        base = _register(p.address_bits, "base")
        length = _register(LENGTH_BITS, "length")
        with m.If(self.observe):
            m.d.sync += [base.eq(self.base), length.eq(self.length)]

        self.tile_base = tile_base = _register(p.address_bits, "tile_base")
        self.tile_length = tile_length = _register(LENGTH_BITS, "tile_length")
        self.stride = stride = _register(range(p.max_prefetch_stride + 1), "stride")
        running, starts = Signal(), Signal()
        self.starts = starts
        short, distance = _short_distance(tile_base, base, len(stride))
        continues = running & length.any() & short & (distance <= p.max_prefetch_stride)
        with m.If(stages[0]):
            m.d.sync += [
                tile_base.eq(base),
                tile_length.eq(length),
                running.eq(length.any()),
                starts.eq(~continues),
                stride.eq(distance),
            ]

    def _look_ahead(self, m: Module, stages: Signal, most: int) -> tuple[Signal, Signal, Signal]:
        """Bytes ahead, then lines: the line after the tile, and after the last one expected.

        One value per stage, a tile may follow each cycle. The third result says that a run starts.
        """
        p = self.params
        byte_bits = (p.line_bytes - 1).bit_length()
        tile_base, tile_length, starts = self.tile_base, self.tile_length, self.starts
        line = _register(p.line_address_bits, "line")
        line_counted = _register(p.line_address_bits, "line_counted")
        # The upper part plus one is computed in parallel: a sum needs only the carry of the lower.
        split = (2 + TILE_BYTES // p.line_bytes + most).bit_length()
        after = _register(p.line_address_bits - split + 1, "after")
        starts_ahead, starts_counted = Signal(), Signal()
        # The product of degree and stride is left as the sum of two, for a shorter path.
        ones = _register(range(3 * p.max_prefetch_stride + 1), "ones")
        fours = _register(range(3 * p.max_prefetch_stride + 1), "fours")
        span = _register(range(2 * p.line_bytes + TILE_BYTES), "span")
        to_end = _register(range(3 + TILE_BYTES // p.line_bytes), "to_end")
        to_reach = _register(range(3 + TILE_BYTES // p.line_bytes + most), "to_reach")
        behind = tile_base[:byte_bits] + tile_length + (p.line_bytes - 1)
        # A tile that starts a run looks nowhere ahead: its distance is meaningless.
        degree = Mux(starts, 0, self.degree)
        with m.If(stages[1]):
            m.d.sync += [
                line.eq(tile_base[byte_bits:]),
                starts_ahead.eq(starts),
                ones.eq(degree[:2] * self.stride),
                fours.eq(degree[2:] * self.stride),
                span.eq(Mux(tile_length.any(), behind, 0)),
            ]
        with m.If(stages[2]):
            m.d.sync += [
                line_counted.eq(line),
                after.eq(line[split:] + 1),
                starts_counted.eq(starts_ahead),
                to_end.eq(span >> byte_bits),
                to_reach.eq(((ones + (fours << 2)) * p.tiles_per_degree + span) >> byte_bits),
            ]

        end = _register(len(self.next), "end")
        reach = _register(len(self.next), "reach")
        fresh = Signal()

        def ahead(lines: Value) -> Value:
            lower = line_counted[:split] + lines
            return Cat(lower[:split], Mux(lower[split], after, line_counted[split:]))

        with m.If(stages[3]):
            m.d.sync += [end.eq(ahead(to_end)), reach.eq(ahead(to_reach)), fresh.eq(starts_counted)]
            with m.If(starts_counted):
                m.d.sync += self.low.eq(line_counted)
        return end, reach, fresh


def _register(shape: ShapeLike, name: str) -> Signal:
    """Bytes or lines on their way, which need no reset: ``stages`` has one."""
    return Signal(shape, name=name, reset_less=True)


def _exceeds(a: Value, b: Value) -> Value:
    """``a > b`` of two numbers of the same width, as a balanced tree."""
    # For each piece, lowest first: whether a > b in it, and whether a >= b.
    pieces = [(x & ~y, x | ~y) for x, y in zip(a, b, strict=True)]
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        joined = [(more | (same & low), same & least) for (low, least), (more, same) in pairs]
        pieces = [*joined, *pieces[len(pieces) & ~1 :]]
    return pieces[0][0]


def _short_distance(low: Value, high: Value, bits: int) -> tuple:
    """``high - low`` where it is 0 to 2**bits - 1, and whether it is.

    The upper parts are only compared, for equality and for a difference of one, which takes no
    carry: x + y is 0 where each bit of x ^ y equals the bit of x | y below it.
    """
    x, y = high[bits:], ~low[bits:]
    equal = high[bits:] == low[bits:]
    one_more = ((x ^ y) == ((x | y) << 1)[: len(x)]) & x.any()  # 0 does not follow the highest
    borrow = low[:bits] > high[:bits]
    return Mux(borrow, one_more, equal), (high[:bits] - low[:bits])[:bits]


class Prefetcher(wiring.Component):
    """One prefetcher for both loaders, or one for each with a common port.

    ``observe`` shows every tile, in their order; ``degree`` is how many tiles of each loader are
    looked ahead, 0 to ``params.max_prefetch_degree``, so that one prefetcher for two loaders
    reaches twice as many tiles. Each structure has a :class:`Run` of its own, and with a prefetcher
    for each loader one for each of them; their lines are requested in turn. A line inside another
    run is skipped: on the border of two structures, where they alternate in memory, or between two
    tiles of a loader, it would be requested twice. ``tilewright.golden.deca.prefetch`` says which
    lines result.

    Timing: at most one line a cycle, the first one nine cycles after its tile was shown. A line on
    its way to ``request``, or waiting there, is not withdrawn when a command asks for it in the
    meantime.
    """

    def __init__(self, params: DecaParams):
        self.params = params
        super().__init__(
            {
                "observe": In(observation(params)),
                "degree": In(range(params.max_prefetch_degree + 1)),
                "request": Out(stream.Signature(request_layout(params))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, shown = self.params, self.observe
        runs = []
        for loader, name in product(range(p.prefetchers), STRUCTURES):
            own = p.prefetchers > 1
            m.submodules[f"{name}{loader}" if own else name] = run = Run(p)
            m.d.comb += [
                run.observe.eq(shown.valid & (shown.loader == loader) if own else shown.valid),
                run.base.eq(shown.command[name].base),
                run.length.eq(shown.command[name].length),
                run.degree.eq(self.degree),
            ]
            runs.append(run)
        ways = len(runs)
        settling = reduce(or_, (run.settling for run in runs[:: len(STRUCTURES)]))

        # A line passes two registers: `line` is compared with the runs, `asked` waits at the port.
        # Lines and runs move together, so of two runs that reach the same line only the second
        # one finds it in the other.
        line, source = Signal.like(runs[0].next), Signal(ways)
        asked, asked_source = Signal(p.line_address_bits), Signal(ways)
        held = Signal(ways)  # runs that hold the line asked for
        moves = Signal()
        twice = (held & ~asked_source).any()
        m.d.comb += [
            self.request.valid.eq(asked_source.any() & ~twice),
            self.request.p.line.eq(asked),
            self.request.p.prefetch.eq(1),
            moves.eq((~self.request.valid | self.request.ready) & ~settling),
        ]

        pending, turn = Signal(ways), Signal(ways, init=1)
        first, chosen = Signal(ways), Signal(ways)
        m.d.comb += [
            pending.eq(Cat(run.pending for run in runs)),
            first.eq(pending & turn),
            chosen.eq(Mux(first.any(), lowest_set(first), lowest_set(pending))),
        ]
        with m.If(moves & source.any()):
            m.d.sync += asked.eq(line[: len(asked)])
        with m.If(moves):
            m.d.sync += [asked_source.eq(source), source.eq(chosen)]
            m.d.sync += held.eq(Cat((line >= run.low) & (line < run.next) for run in runs))
            with m.If(pending.any()):  # those above the chosen one go first now
                m.d.sync += turn.eq(Cat(chosen[:k].any() for k in range(ways)))
        with m.Elif(self.request.ready):
            m.d.sync += asked_source.eq(0)
        for k, run in enumerate(runs):
            m.d.comb += run.take.eq(moves & chosen[k])
            with m.If(run.take):
                m.d.sync += line.eq(run.next)
        return m
