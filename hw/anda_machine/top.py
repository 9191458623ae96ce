"""The Anda accelerator."""

from amaranth import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect

from tilewright.golden.params.anda_machine import AndaParams, Counter, Memory, Opcode
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import EXPONENT_BYTE, OPCODE_BITS, SCALARS
from tilewright.golden.params.vector import Operation
from tilewright.hw.anda.mxu import Mxu
from tilewright.hw.anda_machine.address_generator import MatrixFeeder
from tilewright.hw.anda_machine.buffers import ActivationBuffer, WeightBuffer
from tilewright.hw.anda_machine.collector import Collector
from tilewright.hw.anda_machine.controller import INSTRUCTIONS, Controller, fields_of
from tilewright.hw.machine.banks import write_load
from tilewright.hw.machine.control import connect_control, connect_ports, count
from tilewright.hw.machine.dma import Dma
from tilewright.hw.machine.registers import Registers
from tilewright.hw.machine.vector_feeder import VectorFeeder
from tilewright.hw.machine.vector_unit import VectorUnit
from tilewright.hw.unit import Unit

__all__ = ["Anda"]


class Anda(Unit[AndaParams]):
    """Figure 13: buffers, matrix unit, vector unit, compressor, control and memory port.

    Numerics: tilewright.golden.anda_machine.executor, bit by bit. Timing:
    tilewright.golden.anda_machine.cycles. One instruction works at a time, beside it at most one
    load of weights or scales: so every port of a buffer has one user at a time, and its users'
    requests are simply joined.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.registers = self.registers = Registers(p, Counter)
        m.submodules.controller = self.controller = Controller(p)
        m.submodules.dma = self.dma = Dma(p, INSTRUCTIONS)
        m.submodules.activations = self.activations = ActivationBuffer(p)
        m.submodules.weights = self.weights = WeightBuffer(p)
        m.submodules.matrix_feeder = self.matrix_feeder = MatrixFeeder(p)
        m.submodules.vector_feeder = self.vector_feeder = VectorFeeder(p.vector, p.activation_rows)
        m.submodules.matrix = self.matrix = Mxu(p.mxu)
        m.submodules.vector = self.vector = VectorUnit(p.vector)
        m.submodules.collector = self.collector = Collector(p)
        registers, controller, dma = self.registers, self.controller, self.dma

        connect_ports(m, self, registers, controller, dma)
        connect(m, self.matrix_feeder.planes_out, self.matrix.i0)
        connect(m, self.matrix_feeder.weights_out, self.matrix.i1)
        connect(m, self.matrix.o, self.collector.matrix)
        connect(m, self.vector_feeder.beats, self.vector.i)
        works = (
            self.activations.read.enable | self.activations.write.enable | self.weights.read.enable
        )
        connect_control(m, registers, controller, dma, self.collector.saturated, works)
        opcode = controller.word[:OPCODE_BITS]
        is_gemm, is_compress = opcode == Opcode.GEMM, opcode == Opcode.COMPRESS
        writing = self._vector(m, is_gemm, is_compress)
        self._gemm(m, is_gemm, is_compress)
        self._activation_ports(m, writing)
        self._weight_ports(m)
        self._count(m, is_gemm)
        return m

    def _gemm(self, m: Module, is_gemm: Value, is_compress: Value) -> None:
        controller, feeder, collector = self.controller, self.matrix_feeder, self.collector
        gemm = fields_of(Opcode.GEMM, controller.word)
        compress = fields_of(Opcode.COMPRESS, controller.word)
        m.d.comb += [
            feeder.start.eq(controller.go & is_gemm),
            feeder.source.eq(gemm.source),
            feeder.weights.eq(gemm.weights),
            feeder.scales.eq(gemm.scales),
            feeder.mantissa.eq(controller.source_mantissa),
            feeder.groups.eq(controller.groups),
            feeder.tiles.eq(controller.tiles),
            collector.start.eq(controller.go & (is_gemm | is_compress)),
            collector.row.eq(Mux(is_gemm, gemm.destination, compress.destination)),
            collector.groups.eq(controller.result_groups),
            collector.mantissa.eq(controller.result_mantissa),
            collector.tiles.eq(controller.tiles),
        ]

    def _vector(self, m: Module, is_gemm: Value, is_compress: Value) -> tuple:
        """The vector unit's operands and results; the tensor rows it writes."""
        p = self.params
        controller, feeder, unit = self.controller, self.vector_feeder, self.vector
        vector = fields_of(Opcode.VECTOR, controller.word)
        compress = fields_of(Opcode.COMPRESS, controller.word)
        scalars = Array(
            Signal(data.ArrayLayout(FP16.bits, p.rows), name=f"scalar{k}") for k in range(SCALARS)
        )
        left = Signal.like(controller.words)  # results to come
        row = Signal.like(vector.destination)
        arrives, writes_tensor = Signal(), Signal()
        writes_scalar = controller.reduces | controller.scalars_only
        m.d.comb += [
            feeder.start.eq(controller.go & ~is_gemm),
            feeder.operation.eq(Mux(is_compress, Operation.COPY, vector.operation)),
            feeder.takes_b.eq(controller.takes_b & ~is_compress),
            feeder.a_kind.eq(Mux(is_compress, 0, vector.a_kind)),
            feeder.b_kind.eq(vector.b_kind),
            feeder.a.eq(Mux(is_compress, compress.source, vector.a)),
            feeder.b.eq(vector.b),
            feeder.a_scalar.eq(scalars[vector.a[: (SCALARS - 1).bit_length()]]),
            feeder.b_scalar.eq(scalars[vector.b[: (SCALARS - 1).bit_length()]]),
            feeder.words.eq(controller.words),
            feeder.elements.eq(
                Mux(
                    is_compress,
                    compress.elements,
                    Mux(controller.scalars_only, 1, vector.elements),
                )
            ),
            feeder.scale.eq(vector.scale),
            # Results of compress go on to the collector, all others are written at once.
            self.collector.vector.valid.eq(unit.o.valid & is_compress),
            self.collector.vector.payload.eq(unit.o.payload),
            unit.o.ready.eq(~is_compress | self.collector.vector.ready),
            arrives.eq(unit.o.valid & ~is_compress),
            writes_tensor.eq(arrives & ~writes_scalar),
            controller.running.eq(
                self.matrix_feeder.busy | feeder.busy | left.any() | self.collector.busy
            ),
        ]
        with m.If(controller.go & ~is_gemm & ~is_compress):
            m.d.sync += [left.eq(controller.words), row.eq(vector.destination)]
        with m.If(arrives):
            m.d.sync += [left.eq(left - 1), row.eq(row + 1)]
        with m.If(arrives & writes_scalar & (left == 1)):
            lanes = p.vector.row_lanes
            firsts = Cat(unit.o.p.values[r * lanes] for r in range(p.rows))
            m.d.sync += scalars[vector.destination[: (SCALARS - 1).bit_length()]].eq(firsts)
        return writes_tensor, row

    def _activation_ports(self, m: Module, writing: Value) -> None:
        p = self.params
        buffer, dma, collector = self.activations, self.dma, self.collector
        matrix, vector = self.matrix_feeder, self.vector_feeder
        vector_writes, vector_row = writing
        stores_words = dma.read.valid & (dma.read.memory == Memory.ACTIVATIONS)
        stores_bytes = dma.read.valid & (dma.read.memory == Memory.EXPONENTS)
        m.d.comb += [
            buffer.read.enable.eq(matrix.read.enable | vector.read.enable | stores_words),
            buffer.read.address.eq(
                Mux(
                    matrix.read.enable,
                    matrix.read.address,
                    Mux(vector.read.enable, vector.read.address, dma.read.row),
                )
            ),
            matrix.read.data.eq(buffer.read.data),
            vector.read.data.eq(buffer.read.data),
            buffer.read_exponents.enable.eq(matrix.read_exponents.enable | stores_bytes),
            buffer.read_exponents.address.eq(
                Mux(matrix.read_exponents.enable, matrix.read_exponents.address, dma.read.row)
            ),
            matrix.read_exponents.data.eq(buffer.read_exponents.data),
            dma.read_data.eq(
                Mux(
                    dma.read.memory == Memory.ACTIVATIONS,
                    buffer.read.data.as_value(),
                    buffer.read_exponents.data.as_value(),
                )
            ),
        ]
        written = dma.written
        loads_words = written.valid & (written.memory == Memory.ACTIVATIONS)
        loads_word = written.valid & (written.memory == Memory.BROADCAST)
        words = buffer.write
        m.d.comb += [
            words.enable.eq(collector.write.enable | vector_writes | loads_words | loads_word),
            words.address.eq(written.row),
            words.data.eq(written.data),
        ]
        with m.If(loads_word):
            m.d.comb += words.data.eq(written.data[: p.group].replicate(p.rows))
        with m.If(vector_writes):
            m.d.comb += [words.address.eq(vector_row), words.data.eq(self.vector.o.p["values"])]
        with m.If(collector.write.enable):
            m.d.comb += [
                words.address.eq(collector.write.address),
                words.data.eq(collector.write.data),
            ]
        octets = buffer.write_exponents
        loads_bytes = written.valid & (written.memory == Memory.EXPONENTS)
        m.d.comb += [
            octets.enable.eq(collector.write_exponents.enable | loads_bytes),
            octets.address.eq(Mux(loads_bytes, written.row, collector.write_exponents.address)),
            octets.data[0].eq(
                Mux(
                    loads_bytes,
                    written.data[: p.rows * EXPONENT_BYTE],
                    collector.write_exponents.data[0],
                )
            ),
        ]

    def _weight_ports(self, m: Module) -> None:
        buffer, feeder, written = self.weights, self.matrix_feeder, self.dma.written
        connect(m, feeder.read_weights, buffer.read)
        connect(m, feeder.read_scales, buffer.read_scales)
        for port, memory in ((buffer.write, Memory.WEIGHTS), (buffer.write_scales, Memory.SCALES)):
            write_load(m, self.params, written, memory, port)

    def _count(self, m: Module, is_gemm: Value) -> None:
        planes, results = self.matrix.i0, self.matrix.o
        own = {
            Counter.MATRIX_BUSY: planes.valid & planes.ready,
            Counter.MATRIX_WAITS: planes.valid & ~planes.ready,
            Counter.RESULT_WAITS: results.valid & ~results.ready,
            Counter.GROUPS_COMPRESSED: Mux(self.collector.compressed, self.params.rows, 0),
        }
        count(m, self.registers, self.controller, self.dma, is_gemm, own)
