"""Memory port: rows of the buffers to and from lines of external memory."""

from enum import IntEnum

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD, MachineParams
from tilewright.hw.machine.sequencer import InstructionSet
from tilewright.hw.stream.line_queue import LineQueue
from tilewright.hw.unit import payload_layout

__all__ = ["Dma", "lines_of"]


class Dma(wiring.Component):
    """One load or store at a time.

    A load asks for its lines one a cycle, as long as the queue has room for the answers, which
    may come in any order; rows are written in order. Where several rows share a line, one is
    written a cycle; where a row takes several lines, one line is taken a cycle. A store reads a
    row, then places it into a line (a cycle each) and sends the line when it is full, or sends
    the lines of the row; it ends when the memory has acknowledged every line.

    ``command`` is taken when the unit is ``idle``. ``failed``: a line of the last command was
    answered with an error; the next command, or ``forgive``, ends it.

    Members
    -------
    written : Out
        A row of ``memory`` to write: ``row`` and ``data``, lowest bits first.
    read : Out
        Asks for ``row`` of ``memory``, whose content is ``read_data`` in the next cycle.
    """

    def __init__(self, params: MachineParams, instructions: InstructionSet):
        self.params, self.memories, self.move = params, instructions.memories, instructions.move
        self.widest = max(params.row_bits(memory) for memory in self.memories)
        stored = max(params.row_bits(memory) for memory in self.memories if memory.stores)
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}
        place = {"valid": 1, "memory": self.memories, "row": ROW_FIELD}
        super().__init__(
            {
                "command": In(stream.Signature(self.move)),
                "idle": Out(1),
                "failed": Out(1),
                "forgive": In(1),
                "written": Out(data.StructLayout(place | {"data": self.widest})),
                "read": Out(data.StructLayout(place)),
                "read_data": In(stored),
                "mem_request": Out(stream.Signature(ports["mem_request"])),
                "mem_response": In(stream.Signature(ports["mem_response"])),
                "mem_write": Out(stream.Signature(ports["mem_write"])),
                "mem_written": In(stream.Signature(ports["mem_written"])),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        move = Signal(self.move)
        rows_left = Signal(SIZE_FIELD)
        row = Signal(ROW_FIELD)
        line = Signal(self.params.line_address_bits)
        m.d.comb += self.command.ready.eq(self.idle)
        with m.If(self.command.valid & self.idle):
            m.d.sync += [
                move.eq(self.command.payload),
                rows_left.eq(self.command.p.rows),
                row.eq(self.command.p.row),
                line.eq(self.command.p.line),
                self.failed.eq(0),
            ]
        with m.If(self.forgive):
            m.d.sync += self.failed.eq(0)
        load_idle = self._load(m, move, rows_left, row, line)
        store_idle = self._store(m, move, rows_left, row, line)
        m.d.comb += self.idle.eq(load_idle & store_idle)
        return m

    def _load(self, m: Module, move: data.View, rows_left: Value, row: Value, line: Value) -> Value:
        p = self.params
        m.submodules.queue = queue = LineQueue(p.dma_lines, p.line_bits, sram=False)
        start = self.command.valid & self.idle & ~self.command.p.store
        lines_left = Signal(SIZE_FIELD + (self.widest // p.line_bits).bit_length())
        loading = Signal()

        # Requests and answers.
        m.d.comb += [
            self.mem_request.valid.eq(lines_left.any() & queue.port.free),
            self.mem_request.p.line.eq(line),
            self.mem_request.p.tag.eq(queue.port.slot),
            queue.port.reserve.eq(self.mem_request.valid & self.mem_request.ready),
            self.mem_response.ready.eq(1),
            queue.port.write.valid.eq(self.mem_response.valid),
            queue.port.write.slot.eq(self.mem_response.p.tag),
            queue.port.write.data.eq(self.mem_response.p.data),
            queue.port.write.error.eq(self.mem_response.p.error),
        ]
        with m.If(start):
            m.d.sync += loading.eq(1)
            with m.Switch(self.command.p.memory):
                for memory in self.memories:
                    with m.Case(memory):
                        m.d.sync += lines_left.eq(lines_of(p, memory, self.command.p.rows))
        with m.If(queue.port.reserve):
            m.d.sync += [lines_left.eq(lines_left - 1), line.eq(line + 1)]

        # Lines to rows.
        buffer = Signal(max(self.widest, p.line_bits))
        ready_rows = Signal(range(p.line_bits // 8 + 1))  # complete rows in the buffer
        part = Signal(range(max(2, self.widest // p.line_bits)))
        emit = Signal()
        m.d.comb += [
            emit.eq(loading & ready_rows.any()),
            queue.o.ready.eq(loading & (ready_rows <= 1)),
            self.written.valid.eq(emit),
            self.written.memory.eq(move.memory),
            self.written.row.eq(row),
            self.written.data.eq(buffer),
        ]
        with m.If(emit):
            m.d.sync += [
                row.eq(row + move.stride),
                rows_left.eq(rows_left - 1),
                ready_rows.eq(ready_rows - 1),
            ]
            with m.If(rows_left == 1):
                m.d.sync += loading.eq(0)
        take = queue.o.valid & queue.o.ready
        with m.If(take & queue.o.p.error):
            m.d.sync += self.failed.eq(1)
        with m.Switch(move.memory):
            for memory in self.memories:
                bits = p.row_bits(memory)
                with m.Case(memory):
                    if bits <= p.line_bits:
                        with m.If(emit):
                            m.d.sync += buffer.eq(buffer >> bits)
                        with m.If(take):
                            m.d.sync += [
                                buffer.eq(queue.o.p.data),
                                ready_rows.eq(p.line_bits // bits),
                            ]
                    else:
                        last = part == bits // p.line_bits - 1
                        with m.If(take):
                            m.d.sync += [
                                buffer.word_select(part, p.line_bits).eq(queue.o.p.data),
                                part.eq(Mux(last, 0, part + 1)),
                                ready_rows.eq(last),
                            ]
        with m.If(start):
            m.d.sync += [ready_rows.eq(0), part.eq(0)]
        return ~loading

    def _store(
        self, m: Module, move: data.View, rows_left: Value, row: Value, line: Value
    ) -> Value:
        p = self.params
        stored = [memory for memory in self.memories if memory.stores]
        narrow = [memory for memory in stored if p.row_bits(memory) < p.line_bits]
        wide = [memory for memory in stored if memory not in narrow]
        start = self.command.valid & self.idle & self.command.p.store
        pending = Signal(SIZE_FIELD)  # lines sent, not acknowledged
        packed = Signal(p.line_bits)  # a line of several rows
        place = Signal(range(p.line_bits // 8))
        part = Signal(range(max(2, self.widest // p.line_bits)))
        sent, idle = Signal(), Signal()
        m.d.comb += [
            self.mem_write.p.line.eq(line),
            self.mem_write.p.data.eq(packed),
            self.mem_written.ready.eq(1),
            sent.eq(self.mem_write.valid & self.mem_write.ready),
            self.read.memory.eq(move.memory),
            self.read.row.eq(row),
        ]
        m.d.sync += pending.eq(pending + sent - self.mem_written.valid)
        with m.If(self.mem_written.valid & self.mem_written.p.error):
            m.d.sync += self.failed.eq(1)
        with m.If(sent):
            m.d.sync += line.eq(line + 1)
        next_row = [row.eq(row + move.stride), rows_left.eq(rows_left - 1)]
        last_row = rows_left == 1
        with m.FSM(name="store"):
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                with m.If(start):
                    m.d.sync += [packed.eq(0), place.eq(0), part.eq(0)]
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += self.read.valid.eq(1)
                with m.Switch(move.memory):
                    for memory in narrow:
                        with m.Case(memory):
                            m.next = "PLACE"
                    for memory in wide:
                        with m.Case(memory):
                            m.next = "SEND_ROW"
            with m.State("PLACE"):
                m.d.sync += next_row
                m.next = "READ"
                with m.Switch(move.memory):
                    for memory in narrow:
                        bits = p.row_bits(memory)
                        full = place == p.line_bits // bits - 1
                        with m.Case(memory):
                            m.d.sync += [
                                packed.word_select(place, bits).eq(self.read_data[:bits]),
                                place.eq(Mux(full, 0, place + 1)),
                            ]
                            with m.If(full | last_row):
                                m.next = "SEND_LINE"
            with m.State("SEND_LINE"):
                m.d.comb += self.mem_write.valid.eq(1)
                with m.If(sent):
                    m.d.sync += packed.eq(0)
                    m.next = "READ"
                    with m.If(rows_left == 0):
                        m.next = "ACKNOWLEDGE"
            with m.State("SEND_ROW"):
                m.d.comb += [
                    self.mem_write.valid.eq(1),
                    self.mem_write.p.data.eq(self.read_data.word_select(part, p.line_bits)),
                ]
                with m.Switch(move.memory):
                    for memory in wide:
                        last = part == p.row_bits(memory) // p.line_bits - 1
                        with m.Case(memory):
                            with m.If(sent):
                                m.d.sync += part.eq(Mux(last, 0, part + 1))
                                with m.If(last):
                                    m.d.sync += next_row
                                    m.next = "READ"
                                    with m.If(last_row):
                                        m.next = "ACKNOWLEDGE"
            with m.State("ACKNOWLEDGE"):
                with m.If(pending == 0):
                    m.next = "IDLE"
        return idle


def lines_of(params: MachineParams, memory: IntEnum, rows: Value) -> Value:
    """Lines that hold ``rows`` rows."""
    bits = params.row_bits(memory)
    if bits >= params.line_bits:
        return rows * (bits // params.line_bits)
    each = params.line_bits // bits  # a power of two
    return (rows + (each - 1)) >> (each.bit_length() - 1)
