"""TEPL unit: the core's queue of tile loads and its two ports to the processing element."""

from types import SimpleNamespace

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import Port
from tilewright.golden.params.deca import (
    ERROR_BITS,
    TEPL_ID_BITS,
    TILE_REGISTER_BITS,
    TILE_ROWS,
    DecaParams,
    TileError,
)
from tilewright.hw.stream.arbiter import lowest_set
from tilewright.hw.unit import payload_layout

__all__ = ["READS_IN_FLIGHT", "TeplUnit"]

READS_IN_FLIGHT = 4  # covers the processing element's read latency at a row a cycle

_ROW_BITS = (TILE_ROWS - 1).bit_length()


class _State(enum.Enum, shape=2):  # type: ignore[call-arg]
    """The state of a port."""

    IDLE = 0
    BUSY = 1  # the processing element has its command, or is offered it
    READ = 2  # the tile is done and its rows go to the tile register
    FINISH = 3  # the outcome is to be told to the core


class TeplUnit(wiring.Component):
    """``params.tepl_entries`` TEPL instructions in program order, of which two execute.

    A TEPL is dispatched with or without its metadata (``ready``); ``wakeup`` brings what was
    missing, after the dispatch. The oldest TEPL that is ready is issued, speculatively, as soon as
    one of the ports, which stand for the loaders of the same number, is free. When the tile is
    done its rows 0 to 15 go to ``tile_write`` and then its id to ``complete``; a tile that ended
    with an error writes no row and completes with its code. TEPLs complete in any order and leave
    the queue in program order.

    ``flush`` drops the TEPL with its id and all younger ones, wherever they are: it pulses
    ``squash`` for the loaders that work on one of them, in the cycle after, and their ports are
    free again. Nothing of a dropped TEPL is written or completed after the flush has been taken,
    so its id and register may be used again at once. The flush waits for words that are already
    on offer, which must therefore be taken in finite time whether or not a flush waits; while it
    waits, nothing new is offered and nothing dispatched, so the core may replace a dispatch that
    it has on offer.

    Ids are numbers of TEPLs in program order, modulo 64. Of two ids at most 31 apart the lower one
    is older, so a flush may also name a TEPL that has completed, or an id never given.

    Timing: a command is on offer three cycles after its dispatch; a tile's rows leave one a cycle,
    those of two tiles without a gap; ``complete`` follows the last row after two cycles.

    Members
    -------
    dispatch : the next TEPL in program order
    wakeup : metadata for the TEPL with that id; ignored if there is none that waits
    flush : drop this one and all younger ones
    command0, command1, done0, done1, read_request, read_response : to the members of the same
        name of :class:`tilewright.hw.deca.pe.DecaPE`, as is ``squash``
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
            | {"squash": Out(params.loaders)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        loaders = range(self.params.loaders)
        entries = self.params.tepl_entries
        ports = [
            SimpleNamespace(
                state=Signal(_State, name=f"port{k}_state"),
                entry=Signal(entries, name=f"port{k}_entry"),
                id=Signal(TEPL_ID_BITS, name=f"port{k}_id"),
                register=Signal(TILE_REGISTER_BITS, name=f"port{k}_register"),
                error=Signal(ERROR_BITS, name=f"port{k}_error"),
                asked=Signal(name=f"port{k}_asked"),  # for rows, up to the last one
                dropped=Signal(name=f"port{k}_dropped"),
            )
            for k in loaders
        ]
        # A flush waits until no word stays on offer; nothing is offered anew meanwhile.
        quiet: list[Value] = []
        calm = Signal()
        flushes = Signal()
        m.d.comb += calm.eq(~self.flush.valid)

        queue = self._queue(m, flushes, calm)
        self._issue(m, queue, ports, quiet, calm)
        for k, port in enumerate(ports):
            done = getattr(self, f"done{k}")
            m.d.comb += done.ready.eq(port.state == _State.BUSY)
            with m.If(done.valid & done.ready):
                fine = done.p.error == TileError.OK
                m.d.sync += port.error.eq(done.p.error)
                m.d.sync += port.state.eq(Mux(fine, _State.READ, _State.FINISH))
        self._rows(m, ports, quiet, calm)
        self._complete(m, queue, ports, quiet, calm)

        m.d.comb += [self.flush.ready.eq(Cat(quiet).all()), flushes.eq(~calm & self.flush.ready)]
        for k, port in enumerate(ports):
            m.d.comb += port.dropped.eq(
                flushes & (port.state != _State.IDLE) & (port.entry & queue.younger).any()
            )
            m.d.sync += self.squash[k].eq(port.dropped)
            with m.If(port.dropped):
                m.d.sync += port.state.eq(_State.IDLE)
        return m

    def _queue(self, m: Module, flushes: Value, calm: Value) -> SimpleNamespace:
        """The entries, a ring: dispatch at the tail, leave at the head."""
        entries = self.params.tepl_entries
        flags = ("valid", "ready", "can_go", "finished", "younger")
        q = SimpleNamespace(**{name: Signal(entries, name=name) for name in flags})
        command = payload_layout(Port("", self.params.command_fields))
        q.ids = [Signal(TEPL_ID_BITS, name=f"id{k}") for k in range(entries)]
        q.registers = [Signal(TILE_REGISTER_BITS, name=f"register{k}") for k in range(entries)]
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

        dropped = q.younger & flushes.replicate(entries)
        oldest_dropped = dropped & (q.head | ~dropped.rotate_left(1))
        with m.If(dropped.any()):
            m.d.sync += tail.eq(oldest_dropped)

        def metadata(payload: data.View) -> Value:  # the last fields
            return payload.as_value()[-command.size :]

        for k in range(entries):
            age = Signal(TEPL_ID_BITS, name=f"age{k}")  # in TEPLs after the one that is flushed
            m.d.comb += age.eq(q.ids[k] - self.flush.p.id)
            m.d.comb += q.younger[k].eq(q.valid[k] & ~age[-1])
            with m.If(enters & tail[k]):
                m.d.sync += [
                    q.valid[k].eq(1),
                    q.ready[k].eq(new.p.ready),
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
                with m.If(dropped[k] | (leaves & q.head[k])):
                    m.d.sync += [q.valid[k].eq(0), q.can_go[k].eq(0)]
        return q

    def _issue(
        self, m: Module, q: SimpleNamespace, ports: list[SimpleNamespace], quiet: Value, calm: Value
    ) -> None:
        """The oldest entry that can go to a free port, by a register that both ports share."""
        offer = Signal.like(q.commands[0], name="offer", reset_less=True)
        offered = Signal(len(ports))  # which port offers it
        commands = [getattr(self, f"command{k}") for k in range(len(ports))]
        for k, command in enumerate(commands):
            m.d.comb += [command.valid.eq(offered[k]), command.payload.eq(offer)]
        taken = Cat(command.ready for command in commands)
        free = Signal()
        m.d.comb += free.eq(~(offered & ~taken).any())
        quiet.append(free)
        with m.If(free):
            m.d.sync += offered.eq(0)

        # The entry to go next is chosen a cycle ahead.
        first, pick, up_next = (Signal.like(q.valid, name=n) for n in ("first", "pick", "up_next"))
        goes = Signal()
        idle, target = Signal(len(ports)), Signal(len(ports))
        m.d.comb += [
            first.eq(q.can_go & q.from_head),
            pick.eq(Mux(first.any(), lowest_set(first), lowest_set(q.can_go))),
            idle.eq(Cat(port.state == _State.IDLE for port in ports)),
            target.eq(lowest_set(idle)),
            goes.eq(up_next.any() & idle.any() & free & calm),
        ]
        m.d.sync += up_next.eq(Mux(goes | ~calm, 0, pick))
        with m.If(goes):
            m.d.sync += [offer.eq(_chosen(up_next, q.commands)), offered.eq(target)]
            for k in range(len(up_next)):
                with m.If(up_next[k]):
                    m.d.sync += q.can_go[k].eq(0)
            for k, port in enumerate(ports):
                with m.If(target[k]):
                    m.d.sync += [
                        port.state.eq(_State.BUSY),
                        port.entry.eq(up_next),
                        port.id.eq(_chosen(up_next, q.ids)),
                        port.register.eq(_chosen(up_next, q.registers)),
                        port.asked.eq(0),
                    ]

    def _rows(self, m: Module, ports: list[SimpleNamespace], quiet: Value, calm: Value) -> None:
        """Rows of tiles that are done, from the processing element to the tile registers."""
        ask, answer, write = self.read_request, self.read_response, self.tile_write
        dropped = Cat(port.dropped for port in ports)

        # Requests, tile after tile.
        asking, which, row = Signal(), Signal(range(len(ports))), Signal(_ROW_BITS)
        insists = Signal()  # was on offer in the cycle before
        room, goes, ends = Signal(), Signal(), Signal()
        waiting = Signal(len(ports))
        m.d.comb += [
            ask.valid.eq(asking & room & (calm | insists)),
            ask.p.tout.eq(which),
            ask.p.row.eq(row),
            goes.eq(ask.valid & ask.ready),
            ends.eq((goes & (row == TILE_ROWS - 1)) | dropped.bit_select(which, 1)),
            waiting.eq(Cat((p.state == _State.READ) & ~p.asked & ~p.dropped for p in ports)),
        ]
        quiet.append(~ask.valid | ask.ready)
        m.d.sync += insists.eq(ask.valid & ~ask.ready)
        with m.If(goes):
            m.d.sync += row.eq(row + 1)
        with m.If(~asking | ends):
            m.d.sync += [asking.eq(waiting.any()), row.eq(0)]
            for k, port in enumerate(ports):
                with m.If(lowest_set(waiting)[k]):
                    m.d.sync += [port.asked.eq(1), which.eq(k)]

        # What is in flight, in the order of the answers.
        tail, head = Signal(READS_IN_FLIGHT, init=1), Signal(READS_IN_FLIGHT, init=1)
        live = Signal(READS_IN_FLIGHT)  # still on its way, and its tile not dropped
        under_way = Signal(READS_IN_FLIGHT)
        reads = [Signal.like(ask.payload, name=f"read{k}") for k in range(READS_IN_FLIGHT)]
        arrives = Signal()
        m.d.comb += room.eq(~(under_way & tail).any())
        for k, read in enumerate(reads):
            with m.If(goes & tail[k]):
                m.d.sync += [read.eq(ask.payload), under_way[k].eq(1)]
                m.d.sync += live[k].eq(~dropped.bit_select(which, 1))
            with m.Else():
                with m.If(dropped.bit_select(read.tout, 1)):
                    m.d.sync += live[k].eq(0)
                with m.If(arrives & head[k]):
                    m.d.sync += [under_way[k].eq(0), live[k].eq(0)]
        with m.If(goes):
            m.d.sync += tail.eq(tail.rotate_left(1))
        with m.If(arrives):
            m.d.sync += head.eq(head.rotate_left(1))

        # Answers.
        wanted, writes, insisted = Signal(), Signal(), Signal()
        read = Signal.like(ask.payload)
        m.d.comb += [
            read.eq(_chosen(head, reads)),
            wanted.eq((live & head).any()),
            write.valid.eq(answer.valid & wanted & (calm | insisted)),
            write.p.register.eq(
                _chosen(
                    Cat(read.tout == k for k in range(len(ports))),
                    [port.register for port in ports],
                )
            ),
            write.p.row.eq(read.row),
            write.p.data.eq(answer.p.data),
            writes.eq(write.valid & write.ready),
            answer.ready.eq(~wanted | writes),
            arrives.eq(answer.valid & answer.ready),
        ]
        quiet.append(~write.valid | write.ready)
        m.d.sync += insisted.eq(write.valid & ~write.ready)
        for k, port in enumerate(ports):
            with m.If(writes & (read.tout == k) & (read.row == TILE_ROWS - 1)):
                m.d.sync += port.state.eq(_State.FINISH)

    def _complete(
        self, m: Module, q: SimpleNamespace, ports: list[SimpleNamespace], quiet: Value, calm: Value
    ) -> None:
        """Outcomes to the core; the port is free then."""
        o = self.complete
        free = Signal()
        finishing = Signal(len(ports))
        m.d.comb += [
            free.eq(~o.valid | o.ready),
            finishing.eq(Cat(port.state == _State.FINISH for port in ports)),
        ]
        quiet.append(free)
        with m.If(free):
            m.d.sync += o.valid.eq(finishing.any() & calm)
        for k, port in enumerate(ports):
            with m.If(free & calm & lowest_set(finishing)[k]):
                m.d.sync += [
                    o.p.id.eq(port.id),
                    o.p.error.eq(port.error),
                    port.state.eq(_State.IDLE),
                ]
                for n in range(len(port.entry)):
                    with m.If(port.entry[n]):
                        m.d.sync += q.finished[n].eq(1)


def _chosen(select: Value, values: list) -> Value:
    """The value whose bit of ``select``, of which one is set, is set."""
    result = 0
    for bit, value in zip(select, values, strict=True):
        plain = Value.cast(value)
        result |= plain & bit.replicate(len(plain))
    return result
