"""Bytes over two wires: eight bits, the lowest first, between a start bit and a stop bit."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

BYTE = 8
LEAST_DIVIDER = 4


def require_divider(divider: int) -> None:
    """Refuse bits too short to be sampled in their middle."""
    if divider < LEAST_DIVIDER:
        raise ValueError(f"divider must be at least {LEAST_DIVIDER} cycles a bit, not {divider!r}")


class UartReceiver(wiring.Component):
    """Bytes of the wire ``rx``, with ``divider`` cycles a bit.

    A byte whose stop bit is missing is dropped. So is one not taken when the next is complete.

    Timing: ``rx`` passes two registers, as it is asynchronous; bits are sampled half way.
    """

    def __init__(self, divider: int):
        require_divider(divider)
        self.divider = divider
        super().__init__({"rx": In(1, init=1), "o": Out(stream.Signature(BYTE))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        synchronised = Signal(2, init=0b11)
        m.d.sync += synchronised.eq(Cat(self.rx, synchronised[0]))
        level = synchronised[1]
        wait = Signal(range(self.divider + self.divider // 2))
        bits = Signal(BYTE)
        left = Signal(range(BYTE + 2))  # bits due, the stop bit among them
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(left == 0):
            with m.If(~level):
                # From the edge of the start bit to the middle of the first data bit.
                m.d.sync += [left.eq(BYTE + 1), wait.eq(self.divider + self.divider // 2 - 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [left.eq(left - 1), wait.eq(self.divider - 1)]
            with m.If(left != 1):
                m.d.sync += bits.eq(Cat(bits[1:], level))
            with m.Elif(level):
                m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(bits)]
        return m


class UartTransmitter(wiring.Component):
    """Bytes to the wire ``tx``, with ``divider`` cycles a bit.

    Timing: a byte is taken whenever none is on its way, and takes ten bits.
    """

    def __init__(self, divider: int):
        require_divider(divider)
        self.divider = divider
        super().__init__({"i": In(stream.Signature(BYTE)), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wait = Signal(range(self.divider))
        bits = Signal(BYTE + 1)
        left = Signal(range(BYTE + 3))
        m.d.comb += self.i.ready.eq(left == 0)
        with m.If(left == 0):
            with m.If(self.i.valid):
                m.d.sync += [
                    self.tx.eq(0),
                    bits.eq(Cat(self.i.payload, 1)),
                    left.eq(BYTE + 2),
                    wait.eq(self.divider - 1),
                ]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [
                left.eq(left - 1),
                wait.eq(self.divider - 1),
                self.tx.eq(bits[0]),
                bits.eq(Cat(bits[1:], 1)),
            ]
        return m
