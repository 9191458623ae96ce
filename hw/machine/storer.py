"""Store unit: rows of the buffers to lines of external memory."""

from functools import reduce
from operator import add

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD, MachineMemory, MachineParams
from tilewright.hw.machine.move import move_layout
from tilewright.hw.unit import payload_layout


class Storer(wiring.Component):
    """One store at a time.

    It reads a row a cycle, or with a pause after each (``MachineParams.store_pause``), and places
    it into a line, which it sends when it is full, or sends the lines of the row one by one; it
    ends when the memory has acknowledged every line.

    ``start`` takes the ``command`` when the unit is not ``busy``. ``failed``: a line of the last
    command was answered with an error; the next command, or ``forgive``, ends it.

    Members
    -------
    read : Out
        Asks for ``row`` of ``memory``, whose content is ``read_data`` in the next cycle.
    """

    def __init__(self, params: MachineParams, memories: type[MachineMemory]):
        self.params, self.memories = params, memories
        self.widest = max(params.row_bits(memory) for memory in memories if memory.stores)
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}
        place = {"valid": 1, "memory": memories, "row": ROW_FIELD}

        def port(name: str) -> stream.Signature:
            return stream.Signature(ports[params.memory_port(name, 0)])

        super().__init__(
            {
                "start": In(1),
                "command": In(move_layout(memories)),
                "busy": Out(1),
                "failed": Out(1),
                "forgive": In(1),
                "read": Out(data.StructLayout(place)),
                "read_data": In(self.widest),
                "mem_write": Out(port("write")).array(params.memory_channels),
                "mem_written": In(port("written")).array(params.memory_channels),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, storing = self.params, self.busy
        move = Signal(move_layout(self.memories))
        rows_left = Signal(SIZE_FIELD)
        row = Signal(ROW_FIELD)
        line = Signal(p.line_address_bits)
        pending = Signal(SIZE_FIELD)  # lines sent, not acknowledged
        here = Signal()  # a row has been read, ``row_data``
        used = Signal()  # and is used up in this cycle
        full = Signal()  # a line of several rows is complete
        sending, content = Signal(), Signal(p.line_bits)
        sent = Signal()
        if p.store_pause:
            # A register after the memories, and nothing of the port reaches back into them.
            arrives, row_data = Signal(), Signal(self.widest)
            m.d.sync += arrives.eq(self.read.valid)
            with m.If(arrives):
                m.d.sync += row_data.eq(self.read_data)
            none_here = ~arrives & ~here
            can_read = none_here
        else:
            arrives, row_data = self.read.valid, self.read_data
            none_here, can_read = ~here, ~here | used
        m.d.comb += [
            self.read.valid.eq(storing & rows_left.any() & can_read),
            self.read.memory.eq(move.memory),
            self.read.row.eq(row),
            sent.eq(Cat(port.valid & port.ready for port in self.mem_write).any()),
        ]
        m.d.sync += here.eq(arrives | (here & ~used))
        with m.If(self.read.valid):
            m.d.sync += [row.eq(row + move.stride), rows_left.eq(rows_left - 1)]
        with m.If(sent):
            m.d.sync += line.eq(line + 1)
        for c, (port, answer) in enumerate(zip(self.mem_write, self.mem_written, strict=True)):
            m.d.comb += [
                port.valid.eq(sending & (line[: p.channel_bits] == c)),
                port.p.line.eq(line >> p.channel_bits),
                port.p.data.eq(content),
                answer.ready.eq(1),
            ]
            with m.If(answer.valid & answer.p.error):
                m.d.sync += self.failed.eq(1)
        acknowledged = reduce(add, (answer.valid for answer in self.mem_written))
        m.d.sync += pending.eq(pending + sent - acknowledged)

        self.rows_left, self.full, self.sent = rows_left, full, sent
        self.here, self.used, self.row_data = here, used, row_data
        self.sending, self.content = sending, content
        place, part = self._cut(m, move.memory)
        with m.If(storing & (rows_left == 0) & none_here & ~full & (pending == 0)):
            m.d.sync += storing.eq(0)
        with m.If(self.start):
            m.d.sync += [
                move.eq(self.command),
                rows_left.eq(self.command.rows),
                row.eq(self.command.row),
                line.eq(self.command.line),
                *(storing.eq(1), place.eq(0), part.eq(0)),
            ]
        with m.If(self.start | self.forgive):
            m.d.sync += self.failed.eq(0)
        return m

    def _cut(self, m: Module, memory: Value) -> tuple[Signal, Signal]:
        """Rows to lines, several of one in the other; where the next one begins, 0 at the start."""
        p, here, used, sent = self.params, self.here, self.used, self.sent
        packed = Signal(p.line_bits)  # a line of several rows
        place = Signal(range(p.line_bits // 8))  # of a row in the line
        part = Signal(range(max(2, self.widest // p.line_bits)))  # of a row in several lines
        with m.Switch(memory):
            for stored in self.memories:
                bits = p.row_bits(stored)
                with m.Case(stored):
                    if not stored.stores:
                        continue
                    if bits < p.line_bits:
                        last = (place == p.line_bits // bits - 1) | (self.rows_left == 0)
                        m.d.comb += [
                            used.eq(here & (~self.full | sent)),
                            self.sending.eq(self.full),
                            self.content.eq(packed),
                        ]
                        with m.If(sent):
                            m.d.sync += self.full.eq(0)
                        with m.If(used):
                            m.d.sync += [self.full.eq(last), place.eq(Mux(last, 0, place + 1))]
                            row = self.row_data[:bits]
                            with m.If(place == 0):
                                m.d.sync += packed.eq(row)
                            with m.Else():
                                m.d.sync += packed.word_select(place, bits).eq(row)
                    else:
                        last = part == bits // p.line_bits - 1
                        m.d.comb += [
                            used.eq(sent & last),
                            self.sending.eq(here),
                            self.content.eq(self.row_data.word_select(part, p.line_bits)),
                        ]
                        with m.If(sent):
                            m.d.sync += part.eq(Mux(last, 0, part + 1))
        return place, part
