"""Registers and instruction memory: how a host programs, starts and reads the accelerator."""

from enum import IntEnum

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import (
    CONTROL_FIELDS,
    COUNTER_BITS,
    INSTRUCTION_BASE,
    INSTRUCTION_BITS,
    LIMIT,
    LIMIT_BITS,
    REGISTER_BITS,
    SCALARS,
    Error,
    MachineParams,
    Register,
)
from tilewright.hw.machine.fetcher import fill_layout
from tilewright.hw.machine.sequencer import STATUS
from tilewright.hw.sram import Sram
from tilewright.hw.unit import field_shape, payload_layout

CONTROL = data.StructLayout({f.name: field_shape(f) for f in CONTROL_FIELDS})


class Registers(wiring.Component):
    """64-bit registers at the byte offsets of :class:`tilewright.golden.params.machine.Register`.

    A request to an unknown offset, a write to what can only be read, and a start or an access to
    the instruction memory while a program runs change nothing and answer with ``error``. So does a
    start after the watchdog has expired: that takes a reset.

    Timing: the answer follows two cycles after the request, that of an instruction three; one
    request at a time. A program starts in the cycle after its request was taken.
    """

    def __init__(self, params: MachineParams, counters: type[IntEnum]):
        self.params, self.counter_codes = params, counters
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}
        super().__init__(
            {
                "request": In(stream.Signature(ports["mmio_request"])),
                "response": Out(stream.Signature(ports["mmio_response"])),
                "start": Out(1),
                "stream": Out(1),  # with ``start``: from external memory
                "line": Out(params.line_address_bits),  # where the stream begins
                "limit": Out(LIMIT_BITS, init=LIMIT),
                "fill": In(fill_layout(params)),  # an instruction of a stream
                "status": In(STATUS),
                "saturated": In(1),
                "counters": In(data.ArrayLayout(COUNTER_BITS, len(counters))),
                "fetch": In(1),
                "fetch_address": In(range(params.instructions)),
                "fetched": Out(INSTRUCTION_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.instructions = memory = Sram(p.instructions, INSTRUCTION_BITS, REGISTER_BITS)
        q = Signal.like(self.request.payload)
        access, reads = Signal(), Signal()
        saturated_seen = Signal()
        value, known = Signal(REGISTER_BITS), Signal()
        idle = ~self.status.busy
        half = (INSTRUCTION_BITS // REGISTER_BITS).bit_length() - 1 + 3  # address bits of a byte
        place = q.address[half : (INSTRUCTION_BASE - 1).bit_length()]
        in_memory = (q.address >= INSTRUCTION_BASE) & (place < p.instructions)
        put = access & q.write
        control = data.View(CONTROL, q.data[: CONTROL.size])
        m.d.comb += [self.stream.eq(control.stream), self.line.eq(control.line)]

        m.d.comb += self.request.ready.eq(~(access | reads | self.response.valid))
        m.d.sync += [access.eq(self.request.valid & self.request.ready), reads.eq(0)]
        with m.If(self.request.ready):
            m.d.sync += q.eq(self.request.payload)
        with m.If(self.response.ready):
            m.d.sync += self.response.valid.eq(0)

        identity = Cat(Const(n, 8) for n in (p.rows, p.columns, p.group, SCALARS))
        with m.If(self.saturated):
            m.d.sync += saturated_seen.eq(1)
        with m.Switch(q.address):
            with m.Case(Register.IDENTITY):
                m.d.comb += [value.eq(identity), known.eq(~q.write)]
            with m.Case(Register.CONTROL):
                ready = idle & (self.status.error != Error.WATCHDOG)
                m.d.comb += [known.eq(~q.write | ready), self.start.eq(put & control.start & ready)]
            with m.Case(Register.STATUS):
                m.d.comb += [value.eq(self.status), known.eq(~q.write)]
            with m.Case(Register.EVENTS):
                m.d.comb += [value.eq(saturated_seen), known.eq(1)]
                with m.If(put & q.data[0]):
                    m.d.sync += saturated_seen.eq(0)
            with m.Case(Register.LIMIT):
                m.d.comb += [value.eq(self.limit), known.eq(1)]
                with m.If(put):
                    m.d.sync += self.limit.eq(q.data)
            for counter in self.counter_codes:
                with m.Case(Register.COUNTERS + 8 * counter):
                    m.d.comb += [value.eq(self.counters[counter]), known.eq(~q.write)]
            with m.Default():
                m.d.comb += known.eq(in_memory & idle & (q.address[:3] == 0))

        high = q.address[3]
        m.d.comb += [
            memory.write_address.eq(place),
            memory.write_data.eq(Cat(q.data, q.data)),
            memory.read_enable.eq(self.fetch | (access & idle)),
            memory.read_address.eq(Mux(idle, place, self.fetch_address)),
            self.fetched.eq(memory.read_data),
        ]
        with m.If(put & in_memory & known):
            m.d.comb += memory.write_enable.eq(Cat(~high, high))
        with m.If(self.fill.valid):  # while a program runs; the host writes when none does
            m.d.comb += [
                memory.write_address.eq(self.fill.place),
                memory.write_data.eq(self.fill.word),
                memory.write_enable.eq(~0),
            ]
        with m.If(access):
            later = in_memory & known & ~q.write
            m.d.sync += [
                reads.eq(later),
                self.response.valid.eq(~later),
                self.response.p.data.eq(value),
                self.response.p.error.eq(~known),
            ]
        with m.If(reads):
            m.d.sync += [
                self.response.valid.eq(1),
                self.response.p.data.eq(memory.read_data.word_select(high, REGISTER_BITS)),
            ]
        return m
