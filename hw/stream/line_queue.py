"""Lines that arrive in any order and leave in the order they were asked for."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.hw.sram import Sram


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
    line was taken from the registers, or two cycles after it was read from the SRAM.

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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        port, lines = self.port, self.lines
        tail = Signal(range(lines))  # the next slot to reserve
        head = Signal(lines, init=1)  # the oldest reserved slot, one bit per slot
        used = Signal(range(lines + 1))  # reserved slots
        free = Signal(init=1)
        arrived = Signal(lines)  # slots whose line is in the storage
        here = Signal()  # the oldest line is among them
        leaves = Signal()  # the oldest line leaves the storage
        released = Signal()  # and its slot is no longer reserved: `leaves`, a cycle late for SRAM

        used_next = Signal.like(used)
        written = Cat((port.write.slot == k) & port.write.valid for k in range(lines))
        emptied = (head.rotate_right(1) if self.sram else head) & released.replicate(lines)
        m.d.comb += [
            port.free.eq(free),
            port.slot.eq(tail),
            here.eq((arrived & head).any()),
            used_next.eq(used + port.reserve - released),
        ]
        m.d.sync += [
            used.eq(used_next),
            free.eq(used_next != lines),
            arrived.eq((arrived | written) & ~emptied),
        ]
        with m.If(port.reserve):
            m.d.sync += tail.eq(_following(tail, lines))
        with m.If(leaves):
            m.d.sync += head.eq(head.rotate_left(1))

        line = Signal(line_layout(self.line_bits))
        m.d.comb += line.eq(Cat(port.write.data, port.write.error))
        if self.sram:
            self._sram(m, line, here, leaves, released)
        else:
            self._registers(m, line, head, here, leaves, released)
        with m.If(self.flush):
            m.d.sync += [tail.eq(0), head.eq(1), used.eq(0), free.eq(1), arrived.eq(0)]
        return m

    def takes(self, response: Any) -> list:
        """Statements: every line of a memory's stream goes to the slot that its tag names."""
        return [
            response.ready.eq(1),
            self.port.write.valid.eq(response.valid),
            self.port.write.slot.eq(response.p.tag),
            self.port.write.data.eq(response.p.data),
            self.port.write.error.eq(response.p.error),
        ]

    def _registers(
        self, m: Module, line: Value, head: Value, here: Value, leaves: Value, released: Value
    ) -> None:
        write = self.port.write
        m.d.comb += [self.o.valid.eq(here), leaves.eq(here & self.o.ready), released.eq(leaves)]
        shown = 0
        for k in range(self.lines):
            slot = Signal.like(line, name=f"line{k}", reset_less=True)
            with m.If(write.valid & (write.slot == k)):
                m.d.sync += slot.eq(line)
            shown |= slot.as_value() & head[k].replicate(line.shape().size)
        m.d.comb += self.o.payload.eq(shown)

    def _sram(self, m: Module, line: Value, here: Value, leaves: Value, released: Value) -> None:
        write, o = self.port.write, self.o
        m.submodules.slots = slots = Sram(self.lines, line.shape().size)
        address = Signal(range(self.lines))  # of the oldest line
        read = Signal()  # the memory's output holds a line that `o` has not taken over
        step = Signal()
        shown = Signal.like(line, reset_less=True)  # what a line holds needs no reset
        m.d.comb += [
            o.payload.eq(shown),
            step.eq(~o.valid | o.ready),
            leaves.eq(here & (~read | step)),
            slots.write_enable.eq(write.valid),
            slots.write_address.eq(write.slot),
            slots.write_data.eq(line),
            slots.read_enable.eq(leaves),
            slots.read_address.eq(address),
        ]
        # `o.ready` may be late, and the slot is not used in the cycle that this one costs.
        m.d.sync += [released.eq(leaves), read.eq(leaves | (read & ~step))]
        with m.If(leaves):
            m.d.sync += address.eq(_following(address, self.lines))
        with m.If(step):
            m.d.sync += o.valid.eq(read)
        with m.If(step & read):
            m.d.sync += shown.eq(slots.read_data)
        with m.If(self.flush):
            m.d.sync += [address.eq(0), released.eq(0), read.eq(0), o.valid.eq(0)]


def _following(slot: Value, lines: int) -> Value:
    return Mux(slot == lines - 1, 0, slot + 1)
