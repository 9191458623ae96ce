"""Control registers: how the core configures, starts and watches the processing element."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.params.deca import (
    CONFIG_BITS,
    LOADER_STRIDE,
    LUT_ENTRIES,
    REGISTER_BITS,
    STATUS_FIELDS,
    STRUCTURES,
    DecaParams,
    LoaderRegister,
    Register,
)
from hw.deca.layout import CONFIG, command_layout
from hw.unit import field_shape, payload_layout

__all__ = ["Registers"]

STATUS = data.StructLayout({f.name: field_shape(f) for f in STATUS_FIELDS})
PREFETCH_BITS = 4


class Registers(wiring.Component):
    """64-bit registers at the byte offsets of :class:`golden.params.deca.Register`.

    Every register reads back what was written, so a context can be saved and restored. A request
    to an unknown offset, a write to a loader whose command has not been taken, and a table
    access while a tile is in work change nothing and answer with ``error``.

    Timing: the answer comes two cycles after the request, that of a table entry four, one request
    at a time; a squash, the taking of a result and a table entry's new value take effect in the
    cycle of the answer.
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
                "lut_read_value": In(16),  # the cycle after lut_read
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.params
        spurious_seen = Signal()
        q = Signal.like(self.request.payload)  # the request in work
        access = Signal()
        lut_reads = Signal()  # this access reads a table entry
        lut_due = Signal()  # its value is there
        value, known = Signal(REGISTER_BITS), Signal()
        is_lut = q.address >= Register.LUT

        working = access | self.lut_read | lut_due | self.response.valid
        m.d.comb += self.request.ready.eq(~working)
        m.d.sync += access.eq(self.request.valid & self.request.ready)
        with m.If(self.request.ready):
            m.d.sync += q.eq(self.request.payload)
        with m.If(self.response.ready):
            m.d.sync += self.response.valid.eq(0)
        with m.If(access):
            m.d.sync += [
                self.response.valid.eq(~lut_reads),
                self.response.p.data.eq(value),
                self.response.p.error.eq(~known),
            ]
        m.d.sync += [self.lut_read.eq(lut_reads), lut_due.eq(self.lut_read)]
        with m.If(lut_due):
            m.d.sync += [self.response.valid.eq(1), self.response.p.data.eq(self.lut_read_value)]

        put = access & q.write
        identity = Cat(Const(p.lanes, 8), Const(p.luts, 8), Const(p.loaders, 8))
        m.d.comb += [
            self.lut_address.eq(q.address[3:]),
            self.lut_write_value.eq(q.data),
        ]
        # From registers: what they start reaches through the whole element.
        m.d.sync += [self.squash.eq(0), self.take_result.eq(0), self.lut_write.eq(0)]
        commands = [self._command(m, k) for k in range(p.loaders)]
        with m.Switch(q.address):
            with m.Case(Register.IDENTITY):
                m.d.comb += [value.eq(identity), known.eq(~q.write)]
            with m.Case(Register.CONFIG):
                m.d.comb += [value.eq(self.config), known.eq(1)]
                with m.If(put):
                    m.d.sync += self.config.eq(q.data[:CONFIG_BITS])
            with m.Case(Register.PREFETCH):
                m.d.comb += [value.eq(self.degree), known.eq(1)]
                with m.If(put):
                    m.d.sync += self.degree.eq(q.data)
            with m.Case(Register.EVENTS):
                m.d.comb += [value.eq(spurious_seen), known.eq(1)]
                with m.If(put & q.data[0]):
                    m.d.sync += spurious_seen.eq(0)
            for k in range(p.loaders):
                self._loader(m, k, commands[k], q, put, value, known)
            with m.Default():
                with m.If(is_lut & (q.address[:3] == 0)):
                    m.d.comb += [known.eq(self.idle), lut_reads.eq(access & ~q.write & self.idle)]
                    m.d.sync += self.lut_write.eq(put & self.idle)
        with m.If(self.spurious):
            m.d.sync += spurious_seen.eq(1)
        return m

    def _command(self, m, k):
        """Metadata of loader ``k`` and whether its tile command waits to be taken."""
        command = self.command[k]
        held = Signal(command_layout(self.params), name=f"metadata{k}")
        waiting = Signal(name=f"waiting{k}")
        m.d.comb += [command.valid.eq(waiting), command.payload.eq(held)]
        with m.If(command.ready | self.squashed[k]):
            m.d.sync += waiting.eq(0)
        return held, waiting

    def _loader(self, m, k, command, q, put, value, known):
        """The cases of loader ``k``'s own registers."""
        base = Register.LOADER + k * LOADER_STRIDE
        held, waiting = command
        status = self.status[k]
        for name in STRUCTURES:
            for what in ("base", "length"):
                field = held[f"{name}_{what}"]
                with m.Case(base + LoaderRegister[f"{name}_{what}".upper()]):
                    m.d.comb += [value.eq(field), known.eq(~(q.write & waiting))]
                    with m.If(put & ~waiting):
                        m.d.sync += field.eq(q.data)
        with m.Case(base + LoaderRegister.GO):
            m.d.comb += [value.eq(waiting), known.eq(~(q.write & waiting))]
            with m.If(put & ~waiting):
                # The tile keeps the configuration of this moment.
                m.d.sync += [waiting.eq(1), held.config.eq(self.config)]
        with m.Case(base + LoaderRegister.STATUS):
            m.d.comb += [
                value.eq(Cat(status.busy | waiting, status.done, status.error)),
                known.eq(1),
            ]
            m.d.sync += [
                self.squash[k].eq(put & q.data[0]),
                self.take_result[k].eq(put & q.data[1]),
            ]
