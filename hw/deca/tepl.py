"""TEPL unit: the core's queue of tile loads and its two ports to the processing element."""

from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import Port
from tilewright.golden.params.deca import ERROR_BITS, TEPL_ID_BITS, TILE_ROWS, DecaParams, TileError
from tilewright.hw.arith.lowest_set import lowest_set
from tilewright.hw.deca.prefetcher import observation
from tilewright.hw.unit import payload_layout

READS_IN_FLIGHT = 4  # covers the processing element's read latency at a row a cycle

_ROW_BITS = (TILE_ROWS - 1).bit_length()


class TeplUnit(wiring.Component):
    """Queue of ``params.tepl_entries`` TEPL instructions in order, most of them executing.

    A TEPL is dispatched with or without its metadata (``ready``); ``wakeup`` supplies what was
    missing after the dispatch. The oldest TEPL that is ready is issued, speculatively, as soon as
    one of the ports, which stand for the loaders of the same number, is open: its loader takes a
    command (``open``), and fewer than ``params.port_commands`` commands are with it. A loader works
    on its commands in the order of issue. Rows of a tile go to ``tile_write`` as soon as they are
    produced (``rows``), 0 to 15, and after the last one its id to ``complete``. TEPLs complete in
    any order and leave the queue in program order.

    A tile that ends with an error completes with its code. Some of its first rows may have been
    written by then, with the values that a tile without the error would have there; none is
    written after it. They are in a register that no other instruction reads before the TEPL
    completes, and a TEPL with an error is never committed.

    ``flush`` drops the TEPL with its id and all younger ones, wherever they are. Nothing of a
    dropped TEPL is written or completed after the flush has been taken, so its id and register may
    be used again at once. A port all of whose commands are dropped squashes its loader
    (``squash``) in the cycle after, or when a row that it asks for has been read, and is free
    again. Where older TEPLs execute at the same port, these end first, what was dropped before them
    runs through unseen, and the squash follows; until then the port takes no command. The flush
    waits for commands, rows and outcomes that are already on offer, which must therefore be taken
    in finite time whether or not a flush waits; while it waits, nothing new is offered and nothing
    dispatched, so the core may replace a dispatch that it has on offer.

    Ids number TEPLs in program order, modulo 64. If two are at most 31 apart, the lower one is
    older, so a flush may also name a completed TEPL, or an id never given.

    Timing: a command is on offer three cycles after its dispatch, or the cycle after its port
    opens; a row is asked for the cycle after it is full, one row a cycle, tile after tile without
    a gap; ``complete`` follows the last row after two cycles. A flush is taken in its second cycle
    at the earliest.

    Members
    -------
    dispatch : the next TEPL in program order
    wakeup : metadata for the TEPL with that id; ignored if there is none that waits
    flush : drop this one and all younger ones
    command0, command1, done0, done1, read_request, read_response, squash, open, rows : to the
        members of the same name of :class:`tilewright.hw.deca.pe.DecaPE`
    hint : the tiles of the queue in program order, each once as soon as the metadata of it and of
        all before it are there, the cycle after the dispatch at the earliest, for the prefetcher
    tile_write : a row of 64 bytes for a tile register
    complete : the TEPL has ended so (:class:`tilewright.golden.params.deca.TileError`)
    """

    def __init__(self, params: DecaParams):
        self.params = params
        element = params.pe
        to_element = ("read_request", *(f"command{k}" for k in range(params.loaders)))
        from_element = ("read_response", *(f"done{k}" for k in range(params.loaders)))
        inputs = [
            *params.tepl_inputs,
            *(port for port in element.outputs if port.name in from_element),
        ]
        outputs = [
            *params.tepl_outputs,
            *(port for port in element.inputs if port.name in to_element),
        ]
        super().__init__(
            {port.name: In(stream.Signature(payload_layout(port))) for port in inputs}
            | {port.name: Out(stream.Signature(payload_layout(port))) for port in outputs}
            | {
                "squash": Out(params.loaders),
                "open": In(params.loaders),
                "rows": In(params.loaders * TILE_ROWS),
                "hint": Out(observation(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.ports = ports = [self._port(m, k) for k in range(self.params.loaders)]
        # A flush waits for what is on offer, but for a row's request: the answer may wait for the
        # flush. Nothing is offered anew meanwhile.
        self.quiet: list[Value] = []
        calm = Signal()
        flushes = Signal()
        self.calm, self.flushes = calm, flushes
        m.d.comb += calm.eq(~self.flush.valid)

        queue = self._queue(m, flushes, calm)
        self._issue(m, queue)
        reads = self._rows(m, queue)
        self._complete(m, queue, reads)

        # In its first cycle a flush is compared with the ids of the queue, which holds still then.
        compared = Signal()
        m.d.sync += compared.eq(self.flush.valid & ~self.flush.ready)
        m.d.comb += [
            self.flush.ready.eq(compared & Cat(self.quiet).all()),
            flushes.eq(self.flush.ready),
        ]
        for port in ports:
            self._drop(m, queue, port, flushes)
        return m

    def _port(self, m: Module, k: int) -> SimpleNamespace:
        """The commands that are with loader ``k`` in the order of issue; the first one's state.

        A command is known by its entry of the queue, one bit per entry; a dropped one has none.
        """
        depth, entries = self.params.port_commands, self.params.tepl_entries
        port = SimpleNamespace(
            number=k,
            used=Signal(depth, name=f"port{k}_used"),  # the lowest ones
            slots=[Signal(entries, name=f"port{k}_slot{n}") for n in range(depth)],
            live=Signal(depth, name=f"port{k}_live"),  # which of them have an entry, known early
            kept=Signal(depth, name=f"port{k}_kept"),  # and which would after a flush
            row=Signal(TILE_ROWS, init=1, name=f"port{k}_row"),  # to ask for next, one bit per row
            settled=Signal(name=f"port{k}_settled"),  # the tile has all its rows
            failed=Signal(name=f"port{k}_failed"),
            error=Signal(ERROR_BITS, name=f"port{k}_error", reset_less=True),
            full=self.rows.word_select(k, TILE_ROWS),
            pushes=Signal(name=f"port{k}_pushes"),
            asks=Signal(name=f"port{k}_asks"),  # for a row
            told=Signal(name=f"port{k}_told"),  # the core knows of the error
            squashes=Signal(name=f"port{k}_squashes"),
        )
        port.first = port.slots[0]
        port.takes = self.open[k] & ~port.used[-1] & ~(port.used & ~port.live).any()

        done = getattr(self, f"done{k}")
        port.ends = done.valid & done.ready
        fine = done.p.error == TileError.OK
        # A tile that failed has given up its rows. The next one may write them only when none of
        # them is asked for any more.
        asking = self.read_request.valid & (self.read_request.p.tout == k)
        m.d.comb += done.ready.eq(port.used[0] & ~port.settled & ~port.failed & (fine | ~asking))
        with m.If(port.ends):
            m.d.sync += [port.settled.eq(fine), port.failed.eq(~fine), port.error.eq(done.p.error)]
        # The last row waits for the result, should that come later.
        last = port.row[-1]
        port.here = (
            port.live.any()  # else its loader is squashed
            & ~port.failed
            & (port.full & port.row).any()
            & (~last | port.settled | (done.valid & fine))
        )
        pops = Signal(name=f"port{k}_pops")
        m.d.comb += pops.eq((port.asks & last) | port.told)
        # Which port asks is known late: it chooses the next value and is no part of an enable,
        # which would have to come a gate's setup time earlier. The first row follows the last one.
        anew = port.told | port.squashes
        row = _either(port.asks, port.row.rotate_left(1), port.row)
        with m.If(port.used[0]):
            m.d.sync += port.row.eq((row & ~anew.replicate(TILE_ROWS)) | anew)
        with m.If(pops):
            m.d.sync += [port.settled.eq(0), port.failed.eq(0)]
        port.pops = pops
        return port

    def _drop(self, m: Module, q: SimpleNamespace, port: SimpleNamespace, flushes: Value) -> None:
        """Commands that are flushed lose their entry; a loader that has no other is squashed."""
        m.d.comb += port.kept.eq(Cat((slot & ~q.younger).any() for slot in port.slots))
        kept = Mux(flushes, port.kept.any(), port.live.any())
        ask = self.read_request
        asking = ask.valid & ~ask.ready & (ask.p.tout == port.number)
        m.d.comb += port.squashes.eq(port.used[0] & ~kept & ~asking)
        m.d.sync += self.squash[port.number].eq(port.squashes)
        with m.If(port.squashes):
            m.d.sync += [port.settled.eq(0), port.failed.eq(0)]

    def _queue(self, m: Module, flushes: Value, calm: Value) -> SimpleNamespace:
        """The entries, a ring: dispatch at the tail, leave at the head."""
        entries = self.params.tepl_entries
        flags = (
            *("valid", "ready", "unseen", "can_go", "written", "over", "finished", "younger"),
            "dropped",
        )
        q = SimpleNamespace(**{name: Signal(entries, name=name) for name in flags})
        command = payload_layout(Port("", self.params.command_fields))
        q.ids = [Signal(TEPL_ID_BITS, name=f"id{k}") for k in range(entries)]
        register_bits = self.params.tile_register_bits
        q.registers = [Signal(register_bits, name=f"register{k}") for k in range(entries)]
        q.commands = [Signal(command, name=f"command{k}", reset_less=True) for k in range(entries)]
        q.head = Signal(entries, init=1, name="head")  # the oldest entry
        q.from_head = Signal(entries, init=-1, name="from_head")  # it and those above
        tail = Signal(entries, init=1)  # the next one to take

        new, late = self.dispatch, self.wakeup
        m.d.comb += [new.ready.eq(calm & ~(q.valid & tail).any()), late.ready.eq(1)]
        enters = new.valid & new.ready
        leaves = calm & (q.valid & q.finished & q.head).any()
        with m.If(enters):
            m.d.sync += tail.eq(tail.rotate_left(1))
        with m.If(leaves):
            m.d.sync += [
                q.head.eq(q.head.rotate_left(1)),
                q.from_head.eq(Mux(q.head[-1], ~0, q.from_head << 1)),
            ]

        dropped = q.dropped
        m.d.comb += dropped.eq(q.younger & flushes.replicate(entries))
        # That the flush is taken is known late.
        oldest_dropped = q.younger & (q.head | ~q.younger.rotate_left(1))
        with m.If(flushes & q.younger.any()):
            m.d.sync += tail.eq(oldest_dropped)

        # The next one to show to the prefetcher, the next one to take where all have been shown.
        look = Signal(entries, init=1)
        shows = (q.unseen & q.ready & look).any()
        m.d.comb += [self.hint.valid.eq(shows), self.hint.command.eq(_chosen(look, q.commands))]
        with m.If(shows):
            m.d.sync += look.eq(look.rotate_left(1))
        with m.Elif(~q.unseen.any()):
            m.d.sync += look.eq(tail)

        def metadata(payload: data.View) -> Value:  # the last fields
            return payload.as_value()[-command.size :]

        for k in range(entries):
            age = Signal(TEPL_ID_BITS, name=f"age{k}")  # in TEPLs after the one that is flushed
            m.d.comb += age.eq(q.ids[k] - self.flush.p.id)
            with m.If(self.flush.valid):
                m.d.sync += q.younger[k].eq(q.valid[k] & ~age[-1])
            with m.If(new.valid & calm & tail[k] & ~q.valid[k]):  # it enters here
                m.d.sync += [
                    q.valid[k].eq(1),
                    q.ready[k].eq(new.p.ready),
                    q.unseen[k].eq(1),
                    q.can_go[k].eq(new.p.ready),
                    q.finished[k].eq(0),
                    q.ids[k].eq(new.p.id),
                    q.registers[k].eq(new.p.register),
                    q.commands[k].eq(metadata(new.payload)),
                ]
            with m.Else():
                with m.If(late.valid & (late.p.id == q.ids[k]) & q.valid[k] & ~q.ready[k]):
                    m.d.sync += [
                        q.ready[k].eq(1),
                        q.can_go[k].eq(1),
                        q.commands[k].eq(metadata(late.payload)),
                    ]
                with m.If(shows & look[k]):
                    m.d.sync += q.unseen[k].eq(0)
                with m.If(dropped[k] | (leaves & q.head[k])):
                    m.d.sync += [q.valid[k].eq(0), q.can_go[k].eq(0), q.unseen[k].eq(0)]
        return q

    def _issue(self, m: Module, q: SimpleNamespace) -> None:
        """The oldest entry that can go to an open port; its metadata leave the queue directly."""
        ports, calm = self.ports, self.calm
        offered = Signal(len(ports))  # which port offers a command
        offer = Signal.like(q.valid, name="offer")  # its entry
        commands = [getattr(self, f"command{k}") for k in range(len(ports))]
        shown = _chosen(offer, q.commands)
        for k, command in enumerate(commands):
            m.d.comb += [command.valid.eq(offered[k]), command.payload.eq(shown)]
        taken = Cat(command.ready for command in commands)
        free = Signal()
        m.d.comb += free.eq(~(offered & ~taken).any())
        self.quiet.append(free)
        with m.If(free):
            m.d.sync += offered.eq(0)

        # The entry to go next is chosen a cycle ahead.
        first, pick, up_next = (Signal.like(q.valid, name=n) for n in ("first", "pick", "up_next"))
        goes = Signal()
        takes, target = Signal(len(ports)), Signal(len(ports))
        m.d.comb += [
            first.eq(q.can_go & q.from_head),
            pick.eq(Mux(first.any(), lowest_set(first), lowest_set(q.can_go))),
            takes.eq(Cat(port.takes for port in ports) & ~offered),
            target.eq(lowest_set(takes)),
            goes.eq(up_next.any() & takes.any() & free & calm),
        ]
        m.d.sync += up_next.eq(Mux(goes | ~calm, 0, pick))
        with m.If(goes):
            m.d.sync += [offer.eq(up_next), offered.eq(target)]
            for k in range(len(up_next)):
                with m.If(up_next[k]):
                    m.d.sync += q.can_go[k].eq(0)
        for k, port in enumerate(ports):
            m.d.comb += port.pushes.eq(goes & target[k])
            # After those that stay. Whether the first one leaves is known last: it selects between
            # what follows with it and without it.
            lowest = ~port.used & Cat(1, port.used)[: len(port.used)]
            pushed = lowest & port.pushes.replicate(len(lowest))
            used, live = port.used | pushed, port.live | pushed
            slots = [
                Mux(place & port.pushes, up_next, slot)
                for place, slot in zip(lowest, port.slots, strict=True)
            ]
            follow = (*slots[1:], Const(0, len(slots[0])))
            with m.If(port.used[0] | up_next.any()):
                m.d.sync += [
                    port.used.eq(
                        _either(port.pops, used >> 1, used)
                        & ~port.squashes.replicate(len(port.used))
                    ),
                    # No word moves in the cycle of a flush.
                    port.live.eq(
                        _either(self.flushes, port.kept, _either(port.pops, live >> 1, live))
                    ),
                ]
                m.d.sync += [
                    s.eq(_either(port.pops, behind, n) & ~q.dropped)
                    for s, behind, n in zip(port.slots, follow, slots, strict=True)
                ]

    def _rows(self, m: Module, q: SimpleNamespace) -> list[SimpleNamespace]:
        """Rows that are there, from the processing element to the tile registers."""
        ports, calm = self.ports, self.calm
        ask, answer, write = self.read_request, self.read_response, self.tile_write
        depth, entries = READS_IN_FLIGHT, self.params.tepl_entries
        reads = [
            SimpleNamespace(
                entry=Signal(entries, name=f"read{k}_entry"),  # none: its TEPL was dropped
                wanted=Signal(name=f"read{k}_wanted"),  # it has one; known early
                row=Signal(_ROW_BITS, name=f"read{k}_row", reset_less=True),
            )
            for k in range(depth)
        ]
        tail, head = Signal(depth, init=1), Signal(depth, init=1)
        under_way = Signal(depth)  # asked for or about to be, up to the answer

        # Requests, by a register; a tile whose rows come is not left for another one.
        free, goes = Signal(), Signal()
        here, chosen = Signal(len(ports)), Signal(len(ports))
        current = Cat(ask.p.tout == k for k in range(len(ports)))
        m.d.comb += [
            free.eq(~ask.valid | ask.ready),
            here.eq(Cat(port.here for port in ports)),
            chosen.eq(Mux((here & current).any(), here & current, here)),
            goes.eq(here.any() & free & calm & ~(under_way & tail).any()),
        ]
        with m.If(free):
            m.d.sync += ask.valid.eq(goes)
        rows, entry = (
            _chosen(chosen, [p.row for p in ports]),
            _chosen(chosen, [p.first for p in ports]),
        )
        row = Cat(
            Cat(rows[n] for n in range(TILE_ROWS) if n >> bit & 1).any() for bit in range(_ROW_BITS)
        )
        with m.If(goes):
            m.d.sync += [ask.p.tout.eq(chosen[1]), ask.p.row.eq(row), tail.eq(tail.rotate_left(1))]
        for port, asks in zip(ports, chosen, strict=True):
            m.d.comb += port.asks.eq(goes & asks)

        # Rows in flight, in the order of the answers.
        arrives = Signal()
        has_entry = Cat(port.live[0] for port in ports)
        for k, read in enumerate(reads):
            kept = read.entry & ~q.younger
            # One that is not under way has no entry. As above, what is known late is no enable.
            free_tail = tail[k] & ~under_way[k]
            begins, ends = goes & tail[k], arrives & head[k]
            with m.If(free_tail):
                m.d.sync += read.row.eq(row)
            with m.If(free_tail | under_way[k]):
                m.d.sync += [
                    read.entry.eq(
                        (entry & (goes & free_tail).replicate(entries))
                        | (read.entry & ~q.dropped & (under_way[k] & ~ends).replicate(entries))
                    ),
                    read.wanted.eq(
                        ((chosen & has_entry).any() & goes & free_tail)
                        | (_either(self.flushes, kept.any(), read.wanted) & under_way[k] & ~ends)
                    ),
                ]
            with m.If(begins):
                m.d.sync += under_way[k].eq(1)
            with m.Elif(ends):
                m.d.sync += under_way[k].eq(0)
        with m.If(arrives):
            m.d.sync += head.eq(head.rotate_left(1))

        # Answers.
        wanted, writes, insisted = Signal(), Signal(), Signal()
        to = Signal(entries)  # the entry whose row it is
        m.d.comb += [
            to.eq(_chosen(head, [read.entry for read in reads])),
            wanted.eq((head & Cat(read.wanted for read in reads)).any()),
            write.valid.eq(answer.valid & wanted & (calm | insisted)),
            write.p.register.eq(_chosen(to, q.registers)),
            write.p.row.eq(_chosen(head, [read.row for read in reads])),
            write.p.data.eq(answer.p.data),
            writes.eq(write.valid & write.ready),
            answer.ready.eq(~wanted | writes),
            arrives.eq(answer.valid & answer.ready),
        ]
        self.quiet.append(~insisted | write.ready)  # while a flush waits, no other row is on offer
        m.d.sync += insisted.eq(write.valid & ~write.ready)
        last = writes & (write.p.row == TILE_ROWS - 1)
        m.d.comb += q.written.eq(to & last.replicate(entries))
        return reads

    def _complete(self, m: Module, q: SimpleNamespace, reads: list[SimpleNamespace]) -> None:
        """Outcomes to the core: tiles that have all their rows, then those that failed."""
        o, ports, calm = self.complete, self.ports, self.calm
        free, tells = Signal(), Signal()
        ended = Signal.like(q.over)
        failed = Signal(len(ports))  # and no row of the tile is on its way
        for k, port in enumerate(ports):
            on_the_way = Cat((read.entry & port.first).any() for read in reads).any()
            m.d.comb += failed[k].eq(port.failed & port.live[0] & ~on_the_way)
        fails = lowest_set(failed) & (~q.over.any()).replicate(len(ports))
        m.d.comb += [
            free.eq(~o.valid | o.ready),
            tells.eq(free & calm & (q.over.any() | failed.any())),
            ended.eq(lowest_set(q.over) | _chosen(fails, [port.first for port in ports])),
        ]
        self.quiet.append(free)
        for port, told in zip(ports, fails, strict=True):
            dropped = port.failed & ~port.live[0]
            m.d.comb += port.told.eq((tells & told) | (dropped & calm))
        with m.If(free):
            m.d.sync += o.valid.eq(tells)
        with m.If(tells):
            m.d.sync += [
                o.p.id.eq(_chosen(ended, q.ids)),
                o.p.error.eq(_chosen(fails, [port.error for port in ports])),
            ]
            for k in range(len(ended)):
                with m.If(ended[k]):
                    m.d.sync += q.finished[k].eq(1)
        told = ended & tells.replicate(len(ended))
        m.d.sync += q.over.eq((q.over | q.written) & ~told & ~q.dropped)


def _either(which: Value, value: Value, other: Value) -> Value:
    """``value`` or ``other`` by gates: a multiplexer that keeps a register would be an enable."""
    chosen = which.replicate(len(other))
    return ((value & chosen) | (other & ~chosen))[: len(other)]


def _chosen(select: Value, values: list) -> Value:
    """The value whose bit of ``select``, of which one is set, is set."""
    result = 0
    for bit, value in zip(select, values, strict=True):
        plain = Value.cast(value)
        result |= plain & bit.replicate(len(plain))
    return result
