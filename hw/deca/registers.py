"""Control registers: how the core configures, starts and watches the processing element."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import (
    LOADER_STRIDE,
    LUT_ENTRIES,
    PREFETCH_BITS,
    STATUS_FIELDS,
    STRUCTURES,
    DecaParams,
    LoaderRegister,
    Register,
)
from tilewright.hw.deca.layout import CONFIG, command_layout
from tilewright.hw.unit import field_shape, payload_layout

STATUS = data.StructLayout({f.name: field_shape(f) for f in STATUS_FIELDS})


class Registers(wiring.Component):
    """64-bit registers at the byte offsets of :class:`tilewright.golden.params.deca.Register`.

    Every register reads back what was written, so a context can be saved and restored. A request
    to an unknown offset, a write to a loader whose command has not been taken, and a table
    access while a tile is in progress change nothing and answer with ``error``.

    Timing: the answer follows three cycles after the request, five for a table entry, one request
    at a time; a squash, the taking of a result and a table entry's new value take effect in the
    cycle of the answer. The address is decoded into registers, one per register of the map, so that
    the answer is only selected and the path stays short.
    """

    def __init__(self, params: DecaParams):
        self.params = params
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}
        super().__init__(
            {
                "request": In(stream.Signature(ports["mmio_request"])),
                "response": Out(stream.Signature(ports["mmio_response"])),
                "config": Out(CONFIG),
                "degree": Out(PREFETCH_BITS),
                "spurious": In(1),
                "command": Out(stream.Signature(command_layout(params))).array(params.loaders),
                "status": In(STATUS).array(params.loaders),
                "squash": Out(params.loaders),
                "squashed": In(params.loaders),  # forget a command that was not taken
                "take_result": Out(params.loaders),
                "idle": In(1),  # no tile in work
                "lut_write": Out(1),
                "lut_read": Out(1),
                "lut_address": Out(range(LUT_ENTRIES)),
                "lut_write_value": Out(16),
                "lut_read_value": In(16),  # a cycle after lut_read
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        q = Signal.like(self.request.payload)  # the request in work
        decode, access = Signal(), Signal()
        lut_due = Signal()  # the value of a table entry is there

        working = decode | access | self.lut_read | lut_due | self.response.valid
        m.d.comb += self.request.ready.eq(~working)
        m.d.sync += [decode.eq(self.request.valid & self.request.ready), access.eq(decode)]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += q.eq(self.request.payload)

        # Every register adds its value and whether it takes the request; all others are 0.
        put = access & q.write
        answers = [*self._own(m, q, put)]
        for k in range(p.loaders):
            answers += self._loader(m, k, q, put)
        is_lut = _selected(m, "lut", (q.address >= Register.LUT) & (q.address[:3] == 0))
        lut_reads = is_lut & access & ~q.write & self.idle
        answers.append((is_lut, 0, self.idle))
        m.d.sync += [
            self.lut_read.eq(lut_reads),
            self.lut_write.eq(is_lut & put & self.idle),
            lut_due.eq(self.lut_read),
        ]
        m.d.comb += [self.lut_address.eq(q.address[3:]), self.lut_write_value.eq(q.data)]

        value = reduce(or_, (Mux(selected, word, 0) for selected, word, _ in answers))
        taken = Cat(selected & takes for selected, _, takes in answers).any()
        with m.If(self.response.ready):
            m.d.sync += self.response.valid.eq(0)
        with m.If(access):
            m.d.sync += [
                self.response.valid.eq(~lut_reads),
                self.response.p.data.eq(value),
                self.response.p.error.eq(~taken),
            ]
        with m.If(lut_due):
            m.d.sync += [self.response.valid.eq(1), self.response.p.data.eq(self.lut_read_value)]
        return m

    def _own(self, m: Module, q: SimpleNamespace, put: Value) -> Iterator[tuple]:
        """The registers of the whole element: (selected, value, whether the request is taken)."""
        p = self.params
        spurious_seen = Signal()
        yield (
            _selected(m, "identity", q.address == Register.IDENTITY),
            Cat(Const(p.lanes, 8), Const(p.luts, 8), Const(p.loaders, 8)),
            ~q.write,
        )
        for name, held in (("CONFIG", self.config), ("PREFETCH", self.degree)):
            selected = _selected(m, name.lower(), q.address == Register[name])
            with m.If(selected & put):
                m.d.sync += held.eq(q.data[: len(Value.cast(held))])
            yield selected, held, 1
        selected = _selected(m, "events", q.address == Register.EVENTS)
        with m.If(selected & put & q.data[0]):
            m.d.sync += spurious_seen.eq(0)
        with m.If(self.spurious):
            m.d.sync += spurious_seen.eq(1)
        yield selected, spurious_seen, 1

    def _loader(self, m: Module, k: int, q: SimpleNamespace, put: Value) -> Iterator[tuple]:
        """The same of loader ``k``'s registers: metadata, its command, its status."""
        base = Register.LOADER + k * LOADER_STRIDE
        command, status = self.command[k], self.status[k]
        held = Signal(command_layout(self.params), name=f"metadata{k}")
        waiting = Signal(name=f"waiting{k}")  # the command has not been taken
        m.d.comb += [command.valid.eq(waiting), command.payload.eq(held)]
        with m.If(command.ready | self.squashed[k]):
            m.d.sync += waiting.eq(0)

        def selected(name: str) -> Value:
            address = base + LoaderRegister[name.upper()]
            return _selected(m, f"{name}{k}", q.address == address)

        free = ~(q.write & waiting)
        for name in STRUCTURES:
            for field in (f"{name}_base", f"{name}_length"):
                chosen = selected(field)
                with m.If(chosen & put & ~waiting):
                    m.d.sync += held[field].eq(q.data)
                yield chosen, held[field], free
        go = selected("go")
        with m.If(go & put & ~waiting):
            # The tile keeps the configuration of this moment.
            m.d.sync += [waiting.eq(1), held.config.eq(self.config)]
        yield go, waiting, free
        chosen = selected("status")
        # From registers: what they start reaches through the whole element.
        m.d.sync += [
            self.squash[k].eq(chosen & put & q.data[0]),
            self.take_result[k].eq(chosen & put & q.data[1]),
        ]
        yield chosen, Cat(status.busy | waiting, status.done, status.error), 1


def _selected(m: Module, name: str, matches: Value) -> Signal:
    """Whether the address of the request is this register's: a register itself, a cycle later."""
    selected = Signal(name=f"is_{name}")
    m.d.sync += selected.eq(matches)
    return selected
