"""The Harmonia accelerator."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Value
from amaranth.lib.wiring import connect

from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Counter,
    HarmoniaParams,
    Memory,
    Opcode,
)
from tilewright.golden.params.machine import OPCODE_BITS
from tilewright.hw.harmonia_machine.buffers import ActivationBuffer, HalvesBuffer
from tilewright.hw.harmonia_machine.controller import INSTRUCTIONS, Controller
from tilewright.hw.harmonia_machine.conversion import ConversionPath
from tilewright.hw.harmonia_machine.dataflow import ResultWriter, SumFeeder
from tilewright.hw.harmonia_machine.group_writer import COMMAND_NAMES
from tilewright.hw.harmonia_machine.operands import MEMORIES, OperandArray
from tilewright.hw.harmonia_machine.vector import VectorPath
from tilewright.hw.machine.banks import write_load
from tilewright.hw.machine.control import connect_control, connect_ports, count, transfers
from tilewright.hw.machine.dma import Dma
from tilewright.hw.machine.registers import Registers
from tilewright.hw.unit import Unit

__all__ = ["Harmonia"]

ACTIVATIONS = {
    Memory.MANTISSAS: "mantissas",
    Memory.SIGNS: "signs",
    Memory.EXPONENTS: "exponents",
}


class Harmonia(Unit[HarmoniaParams]):
    """Figure 12: memories, array, converter, offset generator, vector unit, control, memory port.

    Numerics: tilewright.golden.harmonia_machine.executor, bit by bit. Timing:
    tilewright.golden.harmonia_machine.cycles. One instruction works at a time, beside it at most
    one load of operand memories: so every port of a memory has one user at a time, and its users'
    requests are simply joined.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.registers = self.registers = Registers(p, Counter)
        m.submodules.controller = self.controller = Controller(p)
        m.submodules.dma = self.dma = Dma(p, INSTRUCTIONS)
        m.submodules.activations = self.activations = ActivationBuffer(p)
        m.submodules.halves = self.halves = HalvesBuffer(p)
        m.submodules.array = self.array = OperandArray(p)
        m.submodules.feeder = self.feeder = SumFeeder(p)
        m.submodules.results = self.results = ResultWriter(p)
        m.submodules.conversion = self.conversion = ConversionPath(p)
        m.submodules.vector = self.vector = VectorPath(p)
        registers, controller, dma = self.registers, self.controller, self.dma

        connect_ports(m, self, registers, controller, dma)
        connect(m, self.feeder.sums, self.array.i)
        connect(m, self.array.o, self.results.results)
        works = Cat(
            self.activations.read_enable,
            self.halves.read.enable,
            self.halves.write.enable,
            self.conversion.write_operands.enable.as_value().any(),
        ).any()
        connect_control(m, registers, controller, dma, self.conversion.saturated, works)
        m.d.comb += controller.converting.eq(self.conversion.busy)
        opcode = controller.word[:OPCODE_BITS]
        gemm_runs = self.feeder.busy | self.results.busy
        others_run = self.conversion.busy | self.vector.busy
        m.d.comb += controller.running.eq(Mux(opcode == Opcode.GEMM, gemm_runs, others_run))
        self._gemm(m, opcode)
        self._vector(m, opcode)
        self._conversion(m, opcode)
        self._activation_ports(m)
        self._halves_ports(m)
        self._operand_ports(m)
        self._count(m, opcode)
        return m

    # Instructions.

    def _gemm(self, m: Module, opcode: Value) -> None:
        controller = self.controller
        gemm = INSTRUCTIONS.operands_of(Opcode.GEMM, controller.word)
        for unit in (self.feeder, self.results):
            m.d.comb += [
                unit.start.eq(controller.go & (opcode == Opcode.GEMM)),
                *(unit.gemm[name].eq(value) for name, value in gemm.items()),
                unit.gemm.tokens.eq(controller.tokens),
                unit.gemm.row_major.eq(controller.row_major),
                unit.gemm.causal_limit.eq(controller.causal_limit),
            ]
        m.d.comb += self.vector.maxima.eq(self.results.maxima)

    def _vector(self, m: Module, opcode: Value) -> None:
        controller, command = self.controller, self.vector.command
        vector = INSTRUCTIONS.operands_of(Opcode.VECTOR, controller.word)
        m.d.comb += [
            self.vector.start.eq(controller.go & (opcode == Opcode.VECTOR)),
            *(command[name].eq(value) for name, value in vector.items()),
            command.elements.eq(Mux(controller.scalars_only, 1, vector["elements"])),
            command.words.eq(controller.words),
            command.takes_b.eq(controller.takes_b),
            command.to_scalar.eq(controller.reduces | controller.scalars_only),
        ]

    def _conversion(self, m: Module, opcode: Value) -> None:
        controller, command = self.controller, self.conversion.command
        kinds = (Opcode.CONVERT, Opcode.LEARN, Opcode.CLEAR)
        m.d.comb += [
            self.conversion.start.eq(
                controller.go & reduce(or_, (opcode == kind for kind in kinds))
            ),
            command.learn.eq(opcode == Opcode.LEARN),
            command.clear.eq(opcode == Opcode.CLEAR),
            command.lanes.eq(controller.lanes),
            command.words.eq(controller.words),
        ]
        for kind in kinds:
            fields = INSTRUCTIONS.operands_of(kind, controller.word)
            with m.If(opcode == kind):
                m.d.comb += [
                    command[COMMAND_NAMES.get(name, name)].eq(value)
                    for name, value in fields.items()
                    if name != "background"
                ]
        spatial = command.conversion == Conversion.VALUES
        m.d.comb += command.blocks.eq(Mux(spatial, controller.tiles, controller.groups))

    # Ports of the memories.

    def _activation_ports(self, m: Module) -> None:
        buffer, feeder, read, written = (
            self.activations,
            self.feeder,
            self.dma.read,
            self.dma.written,
        )
        converted = self.conversion.write_activations
        m.d.comb += [
            buffer.read_enable.eq(feeder.read_enable | read.valid),
            buffer.read_row.eq(Mux(feeder.read_enable, feeder.read_row, read.row)),
            feeder.read_data.eq(buffer.read_data),
            buffer.write_row.eq(Mux(converted.enable, converted.row, written.row)),
        ]
        for memory, name in ACTIVATIONS.items():
            loads = written.valid & (written.memory == memory)
            m.d.comb += [
                buffer.write_enable[name].eq(converted.enable | loads),
                buffer.write_data[name].eq(
                    Mux(converted.enable, converted.data[name].as_value(), written.data)
                ),
            ]

    def _halves_ports(self, m: Module) -> None:
        buffer, read, written = self.halves, self.dma.read, self.dma.written
        readers = self.conversion.read, self.vector.read
        m.d.comb += [
            buffer.read.enable.eq(Cat(port.enable for port in readers).any() | read.valid),
            buffer.read.address.eq(read.row),
            buffer.write.lanes.eq(self.controller.lanes),
            buffer.write.enable.eq(written.valid & (written.memory == Memory.FP16)),
            buffer.write.address.eq(written.row),
            buffer.write.data.eq(written.data),
        ]
        for port in readers:
            m.d.comb += port.data.eq(buffer.read.data)
            with m.If(port.enable):
                m.d.comb += buffer.read.address.eq(port.address)
        for port in (self.results.write, self.vector.write):
            with m.If(port.enable):
                m.d.comb += [
                    buffer.write.enable.eq(1),
                    buffer.write.address.eq(port.address),
                    buffer.write.data.eq(port.data),
                ]

    def _operand_ports(self, m: Module) -> None:
        """Rows from external memory, from the converter, and back to external memory."""
        p, array, read, written = self.params, self.array, self.dma.read, self.dma.written
        converted = self.conversion.write_operands
        m.d.comb += [
            array.write.eq(converted),
            array.read.enable.eq(read.valid & (read.memory >= Memory.OPERANDS)),
            array.read.row.operands.eq(read.row),
            array.read.row.facts.eq(read.row),
        ]
        rows = {name: self.activations.read_data[name].as_value() for name in ACTIVATIONS.values()}
        stored = {memory: rows[name] for memory, name in ACTIVATIONS.items()}
        stored[Memory.FP16] = self.halves.read.data.as_value()
        for name, memory in MEMORIES.items():
            stored[memory] = Cat(*(word[name] for word in array.read_data))
            write_load(m, p, written, memory, getattr(array, f"load_{name}"))
        with m.Switch(read.memory):
            for memory in Memory:
                if memory.stores:
                    with m.Case(memory):
                        m.d.comb += self.dma.read_data.eq(stored[memory])

    # Counters.

    def _count(self, m: Module, opcode: Value) -> None:
        sums, memory = self.array.i, self.dma.written.memory
        lines_read = transfers(self.dma.mem_request)
        own = {
            Counter.MATRIX_BUSY: sums.valid & sums.ready,
            Counter.MATRIX_WAITS: sums.valid & ~sums.ready,
            Counter.MANTISSA_LINES: Mux(memory == Memory.MANTISSAS, lines_read, 0),
            Counter.OPERAND_LINES: Mux(memory == Memory.OPERANDS, lines_read, 0),
            Counter.GROUPS_CONVERTED: self.conversion.converted,
        }
        count(m, self.registers, self.controller, self.dma, opcode == Opcode.GEMM, own)
