"""Lines that arrive in any order and leave in the order they were asked for."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.sram import Sram

__all__ = ["LineQueue", "LineQueuePort", "line_layout"]


def line_layout(line_bits: int) -> data.StructLayout:
    """A line, and whether the memory answered it with an error."""
    return data.StructLayout({"data": line_bits, "error": 1})


class LineQueuePort(wiring.Signature):
    """How a load unit fills a queue; directions as the load unit sees them.

    ``reserve``, raised only while ``free``, takes ``slot`` this cycle. Each reserved slot is
    written once, in any order and with any delay.
    """

    def __init__(self, lines: int, line_bits: int):
        super().__init__(
            {
                "reserve": Out(1),
                "free": In(1),
                "slot": In(range(lines)),
                "write": Out(
                    data.StructLayout(
                        {"valid": 1, "slot": range(lines), "data": line_bits, "error": 1}
                    )
                ),
            }
        )


class LineQueue(wiring.Component):
    """``lines`` lines in registers, or in an SRAM (``sram``, two lines and more).

    Lines leave ``o`` in the order of their reservations. ``flush`` empties the queue and forgets
    every reservation in one cycle, also one made in that cycle; an offer on ``o`` is withdrawn and
    lines of old reservations must no longer be written.

    ``free`` and ``slot`` come from registers. A slot can be reserved again the cycle after its
    line has left the storage.

    Timing: in registers, a line is on offer the cycle after it is written. In an SRAM it is three
    cycles after: the line passes the memory's output and one register, which take lines ahead of
    the consumer, so that one line a cycle leaves also here.
    """

    def __init__(self, lines: int, line_bits: int, sram: bool):
        least = 2 if sram else 1
        if lines < least:
            raise ValueError(f"lines must be at least {least}, not {lines!r}")
        self.lines, self.line_bits, self.sram = lines, line_bits, sram
        super().__init__(
            {
                "port": In(LineQueuePort(lines, line_bits)),
                "o": Out(stream.Signature(line_layout(line_bits))),
                "flush": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        port, lines = self.port, self.lines
        head = Signal(range(lines))  # the oldest reserved slot
        tail = Signal(range(lines))  # the next slot to reserve
        used = Signal(range(lines + 1))  # reserved slots
        free = Signal(init=1)
        arrived = Signal(lines)  # slots whose line is in the storage
        leaves = Signal()  # the line at the head leaves the storage

        def following(slot):
            return Mux(slot == lines - 1, 0, slot + 1)

        def only(slot, condition):
            return Cat((slot == k) & condition for k in range(lines))

        used_next = Signal.like(used)
        m.d.comb += [
            port.free.eq(free),
            port.slot.eq(tail),
            used_next.eq(used + port.reserve - leaves),
        ]
        m.d.sync += [
            used.eq(used_next),
            free.eq(used_next != lines),
            arrived.eq((arrived | only(port.write.slot, port.write.valid)) & ~only(head, leaves)),
        ]
        with m.If(port.reserve):
            m.d.sync += tail.eq(following(tail))
        with m.If(leaves):
            m.d.sync += head.eq(following(head))

        line = Signal(line_layout(self.line_bits))
        m.d.comb += line.eq(Cat(port.write.data, port.write.error))
        here = arrived.bit_select(head, 1)
        if self.sram:
            self._through_sram(m, head, here, leaves, line)
        else:
            self._from_registers(m, head, here, leaves, line)
        with m.If(self.flush):
            m.d.sync += [head.eq(0), tail.eq(0), used.eq(0), free.eq(1), arrived.eq(0)]
        return m

    def _from_registers(self, m, head, here, leaves, line):
        write = self.port.write
        slots = [Signal.like(line, name=f"line{k}") for k in range(self.lines)]
        for k, slot in enumerate(slots):
            with m.If(write.valid & (write.slot == k)):
                m.d.sync += slot.eq(line)
        m.d.comb += [self.o.valid.eq(here), leaves.eq(here & self.o.ready)]
        with m.Switch(head):
            for k, slot in enumerate(slots):
                with m.Case(k):
                    m.d.comb += self.o.payload.eq(slot)

    def _through_sram(self, m, head, here, leaves, line):
        write, o = self.port.write, self.o
        m.submodules.slots = slots = Sram(self.lines, line.shape().size)
        read = Signal()  # the memory's output holds a line that `o` has not taken over
        step = Signal()
        m.d.comb += [
            step.eq(~o.valid | o.ready),
            leaves.eq(here & (~read | step)),
            slots.write_enable.eq(write.valid),
            slots.write_address.eq(write.slot),
            slots.write_data.eq(line),
            slots.read_enable.eq(leaves),
            slots.read_address.eq(head),
        ]
        m.d.sync += read.eq(leaves | (read & ~step))
        with m.If(step):
            m.d.sync += [o.valid.eq(read), o.payload.eq(slots.read_data)]
        with m.If(self.flush):
            m.d.sync += [read.eq(0), o.valid.eq(0)]
