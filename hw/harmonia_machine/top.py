"""The Harmonia accelerator."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import connect

from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Counter,
    HarmoniaParams,
    Memory,
    Opcode,
)
from tilewright.golden.params.machine import OPCODE_BITS, UnitOfWork
from tilewright.hw.harmonia_machine.buffers import ActivationBuffer, HalvesBuffer, halves_row
from tilewright.hw.harmonia_machine.controller import INSTRUCTIONS, Controller
from tilewright.hw.harmonia_machine.conversion import ConversionPath
from tilewright.hw.harmonia_machine.dataflow import GEMM, ResultWriter, SumFeeder
from tilewright.hw.harmonia_machine.group_writer import COMMAND_NAMES
from tilewright.hw.harmonia_machine.operands import MEMORIES, OperandArray
from tilewright.hw.harmonia_machine.vector import VECTOR, VectorPath
from tilewright.hw.machine.banks import write_load
from tilewright.hw.machine.control import Accelerator, transfers

ACTIVATIONS = {Memory.MANTISSAS: "mantissas", Memory.SIGNS: "signs", Memory.EXPONENTS: "exponents"}


class Harmonia(Accelerator[HarmoniaParams]):
    """Figure 12: memories, array, converter, offset generator, vector unit, control, memory port.

    Numerics: tilewright.golden.harmonia_machine.executor, bit by bit. Timing:
    tilewright.golden.harmonia_machine.cycles. Loads, stores, gemms, vector instructions and
    conversions run at the same time, one of each at most, in regions of the memories that they
    hold for themselves.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        self.control(m, Controller(p), Counter, Memory)
        m.submodules.activations = self.activations = ActivationBuffer(p)
        m.submodules.halves = self.halves = HalvesBuffer(p)
        m.submodules.array = self.array = OperandArray(p)
        m.submodules.feeder = self.feeder = SumFeeder(p)
        m.submodules.results = self.results = ResultWriter(p)
        m.submodules.conversion = self.conversion = ConversionPath(p)
        m.submodules.vector = self.vector = VectorPath(p)
        self.connect_ports(m)
        connect(m, self.feeder.sums, self.array.i)
        connect(m, self.array.o, self.results.results)
        works = Cat(
            self.activations.matrix.enable,
            self.halves.read_vector.enable,
            self.halves.read_convert.enable,
            self.halves.write_matrix.enable,
            self.halves.write_vector.enable,
            self.conversion.write_operands.enable.as_value().any(),
        ).any()
        self.connect_control(m, self.conversion.saturated, works)
        opcode = self.controller.word[:OPCODE_BITS]
        self._gemm(m)
        self._vector(m)
        self._conversion(m, opcode)
        self._activation_ports(m)
        self._halves_ports(m)
        self._operand_ports(m)
        self._count(m)
        return m

    # Instructions.

    def _gemm(self, m: Module) -> None:
        controller, given = self.controller, Signal(GEMM)
        gemm = INSTRUCTIONS.operands_of(Opcode.GEMM, controller.word)
        m.d.comb += [
            *(given[name].eq(value) for name, value in gemm.items()),
            given.tokens.eq(controller.tokens),
            given.row_major.eq(controller.row_major),
            given.causal_limit.eq(controller.causal_limit),
            controller.busy_matrix.eq(self.feeder.busy | self.results.busy),
        ]
        taken = self.held(m, "gemm_held", controller.issue(UnitOfWork.MATRIX), given)
        for unit in (self.feeder, self.results):
            m.d.comb += [unit.start.eq(controller.start_matrix), unit.gemm.eq(taken)]
        m.d.comb += self.vector.maxima.eq(self.results.maxima)

    def _vector(self, m: Module) -> None:
        controller, given = self.controller, Signal(VECTOR)
        vector = INSTRUCTIONS.operands_of(Opcode.VECTOR, controller.word)
        issue = controller.issue(UnitOfWork.VECTOR)
        m.d.comb += [
            *(given[name].eq(value) for name, value in vector.items()),
            given.elements.eq(Mux(controller.scalars_only, 1, vector["elements"])),
            given.words.eq(controller.words),
            given.takes_b.eq(controller.takes_b),
            given.to_scalar.eq(controller.reduces | controller.scalars_only),
            controller.busy_vector.eq(self.vector.busy),
            self.vector.start.eq(controller.start_vector),
            self.vector.command.eq(self.held(m, "vector_held", issue, given)),
        ]

    def _conversion(self, m: Module, opcode: Value) -> None:
        controller, command = self.controller, self.conversion.command
        m.d.comb += [
            controller.busy_convert.eq(self.conversion.busy),
            self.conversion.start.eq(controller.start_convert),
            command.learn.eq(opcode == Opcode.LEARN),
            command.clear.eq(opcode == Opcode.CLEAR),
            command.lanes.eq(controller.lanes),
            command.words.eq(controller.words),
        ]
        for kind in (Opcode.CONVERT, Opcode.LEARN, Opcode.CLEAR):
            fields = INSTRUCTIONS.operands_of(kind, controller.word)
            with m.If(opcode == kind):
                m.d.comb += [
                    command[COMMAND_NAMES.get(name, name)].eq(value)
                    for name, value in fields.items()
                ]
        spatial = command.conversion == Conversion.VALUES
        m.d.comb += command.blocks.eq(Mux(spatial, controller.tiles, controller.groups))

    # Ports of the memories.

    def _activation_ports(self, m: Module) -> None:
        buffer, feeder, read, written = (
            self.activations,
            self.feeder,
            self.storer.read,
            self.loader.written,
        )
        converted, load = self.conversion.write_activations, buffer.load
        m.d.comb += [
            buffer.matrix.enable.eq(feeder.read_enable),
            buffer.matrix.address.eq(feeder.read_row),
            feeder.read_data.eq(buffer.matrix.data),
            buffer.store.enable.eq(read.valid & (read.memory <= Memory.EXPONENTS)),
            buffer.store.address.eq(read.row),
            *(buffer.convert.enable[name].eq(converted.enable) for name in ACTIVATIONS.values()),
            buffer.convert.address.eq(converted.row),
            buffer.convert.data.eq(converted.data),
            load.address.eq(written.row),
        ]
        for memory, name in ACTIVATIONS.items():
            m.d.comb += [
                load.enable[name].eq(written.valid & (written.memory == memory)),
                load.data[name].eq(written.data),
            ]

    def _halves_ports(self, m: Module) -> None:
        buffer, controller = self.halves, self.controller
        read, written, load = self.storer.read, self.loader.written, self.halves.write_load
        m.d.comb += [
            buffer.read_store.enable.eq(read.valid & (read.memory == Memory.FP16)),
            buffer.read_store.address.eq(read.row),
            load.enable.eq(written.valid & (written.memory == Memory.FP16)),
            load.address.eq(written.row),
        ]
        self._spread(m)
        connect(m, self.vector.read, buffer.read_vector)
        connect(m, self.conversion.read, buffer.read_convert)
        for unit, port in (("matrix", self.results.write), ("vector", self.vector.write)):
            write = getattr(buffer, f"write_{unit}")
            m.d.comb += [
                write.enable.eq(port.enable),
                write.address.eq(port.address),
                write.data.eq(port.data),
            ]
        # Which lanes are written is settled when the instruction is issued.
        for writer in (UnitOfWork.LOAD, UnitOfWork.MATRIX, UnitOfWork.VECTOR):
            name = writer.name.lower()
            issue = controller.issue(writer)
            lanes = self.held(m, f"lanes_{name}", issue, controller.lanes)
            m.d.comb += getattr(buffer, f"write_{name}").lanes.eq(lanes)

    def _spread(self, m: Module) -> None:
        """Rows that a load brings: every bank its own values, or all of them those of one."""
        controller, load, row = self.controller, self.halves.write_load, halves_row(self.params)
        move = INSTRUCTIONS.operands_of(Opcode.LOAD, controller.word)
        issue = controller.issue(UnitOfWork.LOAD)
        spread = self.held(m, "spread", issue, move["spread"])
        came, chosen = Signal(row), Signal(row.elem_shape, name="chosen_bank")
        m.d.comb += came.eq(self.loader.written.data)
        with m.Switch(spread):
            for bank in range(self.params.rows):
                with m.Case(bank + 1):
                    m.d.comb += chosen.eq(came[bank])
        for bank in range(self.params.rows):
            m.d.comb += load.data[bank].eq(Mux(spread.any(), chosen, came[bank]))

    def _operand_ports(self, m: Module) -> None:
        """Rows from external memory, from the converter, and back to external memory."""
        p, array, read, written = self.params, self.array, self.storer.read, self.loader.written
        converted = self.conversion.write_operands
        m.d.comb += [
            array.write.eq(converted),
            array.read.enable.eq(read.valid & (read.memory >= Memory.OPERANDS)),
            array.read.row.operands.eq(read.row),
            array.read.row.facts.eq(read.row),
        ]
        rows = self.activations.store.data
        stored = {memory: rows[name].as_value() for memory, name in ACTIVATIONS.items()}
        stored[Memory.FP16] = self.halves.read_store.data.as_value()
        for name, memory in MEMORIES.items():
            stored[memory] = Cat(*(word[name] for word in array.read_data))
            write_load(m, p, written, memory, getattr(array, f"load_{name}"))
        with m.Switch(read.memory):
            for memory in Memory:
                if memory.stores:
                    with m.Case(memory):
                        m.d.comb += self.storer.read_data.eq(stored[memory])

    # Counters.

    def _count(self, m: Module) -> None:
        sums, several = self.array.i, self.params.loads > 1
        memory = self.loader.asking if several else self.loader.written.memory
        lines_read = transfers(self.loader.mem_request)
        own = {
            Counter.MATRIX_BUSY: sums.valid & sums.ready,
            Counter.MATRIX_WAITS: sums.valid & ~sums.ready,
            Counter.MANTISSA_LINES: Mux(memory == Memory.MANTISSAS, lines_read, 0),
            Counter.OPERAND_LINES: Mux(memory == Memory.OPERANDS, lines_read, 0),
            Counter.GROUPS_CONVERTED: self.conversion.converted,
        }
        self.count(m, own)
