"""The Anda accelerator."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data
from amaranth.lib.wiring import connect

from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import (
    MANTISSA_BITS,
    RESULTS_FIELD,
    SPAN_FIELD,
    STEP_FIELD,
    AndaParams,
    Counter,
    Memory,
    Opcode,
)
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import (
    EXPONENT_BYTE,
    OPCODE_BITS,
    ROW_FIELD,
    SCALARS,
    SIZE_FIELD,
    Kind,
    UnitOfWork,
)
from tilewright.golden.params.vector import OPERATION_BITS, Operation
from tilewright.hw.anda.mxu import Mxu
from tilewright.hw.anda_machine.address_generator import SHARED, MatrixFeeder
from tilewright.hw.anda_machine.buffers import ActivationBuffer, WeightBuffer
from tilewright.hw.anda_machine.collector import Collector
from tilewright.hw.anda_machine.controller import Controller, fields_of
from tilewright.hw.anda_machine.vector_feeder import AttentionFeeder
from tilewright.hw.anda_machine.vector_writer import VectorWriter
from tilewright.hw.machine.banks import write_load
from tilewright.hw.machine.control import Accelerator
from tilewright.hw.machine.vector_unit import VectorUnit
from tilewright.hw.unit import UNNAMED

# Operands that units take with an instruction, constant while it runs.
GEMM = data.StructLayout(
    {
        "source": ROW_FIELD,
        "weights": ROW_FIELD,
        "scales": ROW_FIELD,
        "mantissa": MANTISSA_BITS,
        "groups": SIZE_FIELD,
        "tiles": SIZE_FIELD,
    }
)
RESULTS = data.StructLayout(
    {"row": ROW_FIELD, "groups": SIZE_FIELD, "mantissa": MANTISSA_BITS, "tiles": SIZE_FIELD}
)
_SPAN = {"shared": 1, "span": SPAN_FIELD}
VECTOR = data.StructLayout(
    {
        "compress": 1,
        "to_scalar": 1,
        "destination": ROW_FIELD,
        "operation": OPERATION_BITS,
        "takes_b": 1,
        "a_kind": Kind,
        "b_kind": Kind,
        "a": ROW_FIELD,
        "b": ROW_FIELD,
        "words": SIZE_FIELD + 1,
        "elements": SIZE_FIELD,
        "scale": FP16.bits,
        "results": RESULTS_FIELD,
        "step": STEP_FIELD,
        "pitch": STEP_FIELD,
        "apart": 1,
    }
)
FED = (
    *("operation", "takes_b", "a_kind", "b_kind", "a", "b", "words", "elements", "scale"),
    *("results", "step", "pitch", "apart"),
)
WRITTEN = ("operation", "to_scalar", "destination", "words", "results")


class Anda(Accelerator[AndaParams]):
    """Figure 13: buffers, matrix unit, vector unit, compressor, control and memory port.

    Numerics: tilewright.golden.anda_machine.executor, bit by bit. Timing:
    tilewright.golden.anda_machine.cycles. Loads, stores, gemms and vector instructions run at the
    same time, one of each at most, in regions of the buffers that they hold for themselves.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        self.control(m, Controller(p), Counter, Memory)
        m.submodules.activations = self.activations = ActivationBuffer(p)
        m.submodules.weights = self.weights = WeightBuffer(p)
        m.submodules.matrix_feeder = self.matrix_feeder = MatrixFeeder(p)
        m.submodules.vector_feeder = self.vector_feeder = AttentionFeeder(p)
        m.submodules.vector_writer = self.vector_writer = VectorWriter(p)
        m.submodules.matrix = self.matrix = Mxu(p.mxu)
        m.submodules.vector = self.vector = VectorUnit(p.vector)
        m.submodules.collector = self.collector = Collector(p)
        self.connect_ports(m)
        connect(m, self.matrix_feeder.planes_out, self.matrix.i0)
        connect(m, self.matrix_feeder.weights_out, self.matrix.i1)
        connect(m, self.matrix.o, self.collector.matrix)
        connect(m, self.vector_feeder.beats, self.vector.i)
        buffer = self.activations
        works = Cat(
            buffer.read_matrix.enable,
            buffer.read_vector.enable,
            buffer.read_vector_b.enable,
            buffer.write_vector.enable,
            buffer.write_collector.enable,
            self.weights.read.enable,
        ).any()
        self.connect_control(m, self.collector.saturated, works)
        is_compress = self.controller.word[:OPCODE_BITS] == Opcode.COMPRESS
        of_vector = self._collect(m, is_compress)
        self._gemm(m, of_vector)
        self._vector(m, is_compress, of_vector)
        self._activation_ports(m)
        self._weight_ports(m)
        self._count(m)
        return m

    def _collect(self, m: Module, is_compress: Value) -> Value:
        """Results of a gemm or compress; whether the last ones are the vector unit's."""
        controller, collector = self.controller, self.collector
        groups = self.params.row_groups > 1
        layout = data.StructLayout({**RESULTS.members, **_SPAN}) if groups else RESULTS
        given = Signal(layout, name=UNNAMED)
        gemm = fields_of(Opcode.GEMM, controller.word)
        compress = fields_of(Opcode.COMPRESS, controller.word)
        compresses = controller.issue(UnitOfWork.VECTOR) & is_compress
        issue = controller.issue(UnitOfWork.MATRIX) | compresses
        if groups:  # a gemm that keeps its sums has no results
            issue = issue & controller.collects
            m.d.comb += [
                given.shared.eq(controller.shared),
                given.span.eq(fields_of(Opcode.SHARED_GEMM, controller.word).span),
            ]
        m.d.comb += [
            given.row.eq(Mux(is_compress, compress.destination, gemm.destination)),
            given.groups.eq(controller.result_groups),
            given.mantissa.eq(controller.result_mantissa),
            given.tiles.eq(controller.tiles),
        ]
        taken = self.held(m, "results_held", issue, given)
        m.d.comb += [
            collector.start.eq(self.started(m, issue)),
            *(getattr(collector, name).eq(taken[name]) for name, _ in layout),
        ]
        of_vector = Signal()
        with m.If(issue):
            m.d.sync += of_vector.eq(is_compress)
        return of_vector

    def _gemm(self, m: Module, of_vector: Value) -> None:
        controller, feeder = self.controller, self.matrix_feeder
        gemm, layout, tiles = fields_of(Opcode.GEMM, controller.word), GEMM, controller.tiles
        groups = self.params.row_groups > 1
        if groups:
            layout = data.StructLayout({**GEMM.members, **SHARED.members, "blocks": SIZE_FIELD})
            tiles = Mux(controller.shared, controller.passes, tiles)
        given = Signal(layout, name=UNNAMED)
        if groups:
            x = fields_of(Opcode.SHARED_GEMM, controller.word)
            m.d.comb += [
                *(given[name].eq(x[name]) for name in ("span", "continues", "keeps")),
                given.shared.eq(controller.shared),
                given.blocks.eq(controller.result_groups),
            ]
            with m.If(~controller.shared):
                m.d.comb += [given.continues.eq(0), given.keeps.eq(0)]
        m.d.comb += [
            given.source.eq(gemm.source),
            given.weights.eq(gemm.weights),
            given.scales.eq(gemm.scales),
            given.mantissa.eq(controller.source_mantissa),
            given.groups.eq(controller.groups),
            given.tiles.eq(tiles),
        ]
        taken = self.held(m, "gemm_held", controller.issue(UnitOfWork.MATRIX), given)
        m.d.comb += [
            feeder.start.eq(controller.start_matrix),
            *(getattr(feeder, name).eq(taken[name]) for name, _ in layout),
            controller.busy_matrix.eq(feeder.busy | (self.collector.busy & ~of_vector)),
        ]

    def _vector(self, m: Module, is_compress: Value, of_vector: Value) -> None:
        """The vector unit's operands and results."""
        p, writer = self.params, self.vector_writer
        controller, feeder, unit = self.controller, self.vector_feeder, self.vector
        x = self._vector_command(m, is_compress)
        scalars = Array(
            Signal(data.ArrayLayout(FP16.bits, p.rows), name=f"scalar{k}") for k in range(SCALARS)
        )
        number_bits = (SCALARS - 1).bit_length()
        start = controller.start_vector
        m.d.comb += [
            feeder.start.eq(start),
            *(getattr(feeder, name).eq(x[name]) for name in FED),
            *([feeder.across.eq(x.across)] if p.row_groups > 1 else []),
            feeder.a_scalar.eq(scalars[x.a[:number_bits]]),
            feeder.b_scalar.eq(scalars[x.b[:number_bits]]),
            # Results of compress go on to the collector, all others are written at once.
            self.collector.vector.valid.eq(unit.o.valid & x.compress),
            self.collector.vector.payload.eq(unit.o.payload),
            unit.o.ready.eq(self._vector_moves(x.compress)),
            writer.start.eq(start & ~x.compress),
            *(getattr(writer, name).eq(x[name]) for name in WRITTEN),
            writer.arrives.eq(unit.o.valid & ~x.compress),
            writer.values.eq(unit.o.p["values"]),
            controller.busy_vector.eq(
                feeder.busy | writer.busy | (self.collector.busy & of_vector)
            ),
        ]
        with m.If(writer.scalar):
            lanes = p.vector.row_lanes
            firsts = Cat(unit.o.p.values[r * lanes] for r in range(p.rows))
            m.d.sync += scalars[x.destination[:number_bits]].eq(firsts)

    def _vector_moves(self, compress: Value) -> ValueLike:
        """Whether the vector unit's results are taken.

        The collector is ready for words that are apart: it compresses a group in fewer cycles than
        the next one takes to arrive.
        """
        if self.params.group_beats * (self.params.vector.beat_cycles - 1) > MAX_MANTISSA_BITS + 1:
            return 1
        return ~compress | self.collector.vector.ready

    def _vector_command(self, m: Module, is_compress: Value) -> data.View:
        """A vector instruction, or a compress, which copies a tensor to the collector."""
        controller, layout = self.controller, VECTOR
        if self.params.row_groups > 1:
            layout = data.StructLayout({**VECTOR.members, "across": 1})
        given = Signal(layout, name="given")
        vector = fields_of(Opcode.VECTOR, controller.word)
        compress = fields_of(Opcode.COMPRESS, controller.word)
        elements = Mux(controller.scalars_only, 1, vector.elements)
        m.d.comb += [
            given.compress.eq(is_compress),
            given.to_scalar.eq(controller.reduces | controller.scalars_only),
            given.destination.eq(vector.destination),
            given.operation.eq(Mux(is_compress, Operation.COPY, vector.operation)),
            given.takes_b.eq(controller.takes_b & ~is_compress),
            given.a_kind.eq(Mux(is_compress, Kind.TENSOR, vector.a_kind)),
            given.b_kind.eq(vector.b_kind),
            given.a.eq(Mux(is_compress, compress.source, vector.a)),
            given.b.eq(vector.b),
            given.words.eq(controller.words),
            given.elements.eq(Mux(is_compress, compress.elements, elements)),
            given.scale.eq(vector.scale),
            given.results.eq(controller.results),
            given.step.eq(vector.step),
            given.pitch.eq(vector.pitch),
            given.apart.eq(controller.apart),
        ]
        if self.params.row_groups > 1:
            m.d.comb += given.across.eq(vector.across & controller.attends & ~is_compress)
        return self.held(m, "vector_held", controller.issue(UnitOfWork.VECTOR), given)

    def _activation_ports(self, m: Module) -> None:
        p = self.params
        buffer, read, written = self.activations, self.storer.read, self.loader.written
        collector, matrix = self.collector, self.matrix_feeder
        connect(m, matrix.read, buffer.read_matrix)
        connect(m, matrix.read_exponents, buffer.read_bytes_matrix)
        connect(m, self.vector_feeder.read, buffer.read_vector)
        connect(m, self.vector_feeder.read_b, buffer.read_vector_b)
        connect(m, self.vector_writer.write, buffer.write_vector)
        connect(m, collector.write, buffer.write_collector)
        connect(m, collector.write_exponents, buffer.write_bytes_collector)
        words, octets = buffer.read_store, buffer.read_bytes_store
        m.d.comb += [
            words.enable.eq(read.valid & (read.memory == Memory.ACTIVATIONS)),
            words.address.eq(read.row),
            octets.enable.eq(read.valid & (read.memory == Memory.EXPONENTS)),
            octets.address.eq(read.row),
            self.storer.read_data.eq(
                Mux(
                    read.memory == Memory.ACTIVATIONS, words.data.as_value(), octets.data.as_value()
                )
            ),
        ]
        one = written.memory == Memory.BROADCAST
        words, octets = buffer.write_load, buffer.write_bytes_load
        broadcast = written.data[: p.group].replicate(p.rows)
        if (ways := p.ways(Memory.ACTIVATIONS)) > 1:
            write_load(m, p, written, Memory.ACTIVATIONS, words)
            with m.If(written.valid & one):
                slot = written.row[: (ways - 1).bit_length()]
                m.d.comb += words.enable.eq(Const(1, ways) << slot)
                m.d.comb += [row.eq(broadcast) for row in words.data]
        else:
            m.d.comb += [
                words.enable.eq(written.valid & (one | (written.memory == Memory.ACTIVATIONS))),
                words.address.eq(written.row),
                words.data.eq(Mux(one, broadcast, written.data)),
            ]
        m.d.comb += [
            octets.enable.eq(written.valid & (written.memory == Memory.EXPONENTS)),
            octets.address.eq(written.row),
            octets.data[0].eq(written.data[: p.rows * EXPONENT_BYTE]),
        ]

    def _weight_ports(self, m: Module) -> None:
        buffer, feeder, written = self.weights, self.matrix_feeder, self.loader.written
        connect(m, feeder.read_weights, buffer.read)
        connect(m, feeder.read_scales, buffer.read_scales)
        for port, memory in ((buffer.write, Memory.WEIGHTS), (buffer.write_scales, Memory.SCALES)):
            write_load(m, self.params, written, memory, port)

    def _count(self, m: Module) -> None:
        planes, results = self.matrix.i0, self.matrix.o
        own = {
            Counter.MATRIX_BUSY: planes.valid & planes.ready,
            Counter.MATRIX_WAITS: planes.valid & ~planes.ready,
            Counter.RESULT_WAITS: results.valid & ~results.ready,
            Counter.GROUPS_COMPRESSED: Mux(self.collector.compressed, self.params.rows, 0),
        }
        self.count(m, own)
