"""Runs programs: fetches instructions, has them checked, dispatches them, one at a time."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import Field
from tilewright.golden.params.machine import (
    INDEX_SUFFIX,
    INSTRUCTION_BITS,
    LINE_FIELD,
    NUMBER_BITS,
    OPCODE_BITS,
    ROW_FIELD,
    SIZE_FIELD,
    STATUS_FIELDS,
    Error,
    MachineMemory,
    MachineParams,
)
from tilewright.hw.machine.loops import LOOP, Loops, add_indices
from tilewright.hw.unit import field_shape

__all__ = [
    *("END_BITS", "STATUS", "InstructionSet", "Sequencer", "is_one_of", "first_error", "parts_of"),
]

END_BITS = 36  # holds the sum of a row and any product of sizes

STATUS = data.StructLayout({f.name: field_shape(f) for f in STATUS_FIELDS})


@dataclass(frozen=True)
class InstructionSet:
    """How an accelerator's instructions are taken apart.

    ``opcodes`` has HALT, CONFIGURE, LOAD, STORE, WAIT and LOOP; loads and stores have the fields of
    :attr:`move`. Loads of a memory whose ``background`` holds run beside what follows.
    """

    opcodes: type[IntEnum]
    fields: Mapping[Any, tuple[Field, ...]]  # by opcode
    memories: type[MachineMemory]

    def fields_of(self, opcode: IntEnum, word: Value) -> data.View:
        """The fields of an instruction word."""
        declared = {f.name: field_shape(f) for f in self.fields[opcode]}
        layout = data.StructLayout({"opcode": OPCODE_BITS, **declared})
        return data.View(layout, word[: layout.size])

    def operands_of(self, opcode: IntEnum, word: Value) -> dict[str, Value]:
        """The fields of an instruction word by name, but those that name index registers."""
        fields = self.fields_of(opcode, word)
        declared = [f.name for f in self.fields[opcode] if not f.name.endswith(INDEX_SUFFIX)]
        return {name: fields[name] for name in declared}

    @property
    def move(self) -> data.StructLayout:
        """What the memory port takes."""
        return data.StructLayout(
            {
                "store": 1,
                "memory": self.memories,
                "stride": 8,
                "row": ROW_FIELD,
                "rows": SIZE_FIELD,
                "line": LINE_FIELD,
            }
        )


class Sequencer(wiring.Component):
    """Runs the program from instruction 0 until it halts or an instruction is wrong.

    Every instruction is fetched, decoded, measured and checked, a cycle each; one that is wrong
    (:class:`tilewright.golden.params.machine.Error`) stops the program before it does anything. A
    loop (``Loops``) that goes back or ends takes a cycle before the next fetch, and a program
    that streams from external memory waits there for its instruction.

    A load or store then goes to the memory port when that is idle; loads in the background run on
    by themselves, and an error of the memory stops the program at the next instruction that needs
    the port, with the number of the load. Other instructions pulse ``go`` and run until ``running``
    falls. When the watchdog has ``expired``, the program is over, and nothing more is fetched until
    a reset: what the accelerator waits for may still come.

    Members
    -------
    base : Out
        The first instruction that may still be fetched.
    word : Out
        The instruction; it holds while it runs. ``members`` are those of the accelerator, among
        them ``words``: the beats of a vector instruction.
    """

    def __init__(self, params: MachineParams, instructions: InstructionSet, members: dict):
        self.params, self.instructions = params, instructions
        self.loops = Loops()
        super().__init__(
            {
                "start": In(1),
                "stream": In(1),  # with ``start``: instructions come from external memory
                "filled": In(NUMBER_BITS),  # of a stream: instructions that have come
                "fetch_failed": In(1),  # of a stream: the line behind them has an error
                "base": Out(NUMBER_BITS),
                "expired": In(1),
                "status": Out(STATUS),
                "fetch": Out(1),
                "fetch_address": Out(range(params.instructions)),
                "fetched": In(INSTRUCTION_BITS),
                "move": Out(stream.Signature(instructions.move)),
                "dma_idle": In(1),
                "dma_failed": In(1),
                "go": Out(1),
                "running": In(1),
                "word": Out(INSTRUCTION_BITS),
                **members,
                "scalars_only": Out(1),  # of a vector instruction: it has no tensor
                "takes_b": Out(1),
                "reduces": Out(1),
                "in_control": Out(1),  # what this cycle is spent on, for the counters
                "in_memory": Out(1),
                "finished": Out(1),  # an instruction is done
            }
        )

    def check(self, m: Module) -> Value:
        """The instruction's error, in the second cycle after it is there."""
        raise NotImplementedError

    def reset_formats(self) -> list:
        """Statements with which a start resets what ``CONFIGURE`` sets."""
        raise NotImplementedError

    def configure(self) -> list:
        """Statements that ``CONFIGURE`` executes."""
        raise NotImplementedError

    def next_word(self, m: Module) -> Value:
        """What the decoder takes now."""
        return self.fetched

    def next_number(self, number: Value) -> Value:
        """The number of the instruction behind the one that is done."""
        return number + 1

    def dispatch(self, m: Module, proceed: Callable[[], None]) -> None:
        """Cases of opcodes that the accelerator handles in a way of its own."""

    def stalled(self) -> Value | None:
        """Whether the instruction must wait before it is checked for what runs beside it."""
        return None

    def background_idle(self) -> Value:
        """Whether nothing runs beside the instructions."""
        return self.dma_idle

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        opcodes = self.instructions.opcodes
        number = Signal(NUMBER_BITS)
        streamed, stuck = Signal(), Signal()
        m.submodules.loops = loops = self.loops
        move_number = Signal.like(number)
        word = self.word
        opcode = word[:OPCODE_BITS]
        status = self.status
        move = self.instructions.fields_of(opcodes["LOAD"], word)
        declared = [f.name for f in self.instructions.fields[opcodes["LOAD"]]]  # maybe no stride
        loop = self.instructions.fields_of(opcodes["LOOP"], word)
        error = Signal(Error)
        background = Signal()
        m.d.comb += [
            error.eq(self.check(m)),
            # A stream wraps around in as much of the memory as is a power of two.
            self.fetch_address.eq(Mux(streamed, number % p.code_ring, number)),
            self.base.eq(loops.base),
            loops.clear.eq(self.start),
            loops.number.eq(number),
            *(loops.loop[name].eq(loop[name]) for name, _ in LOOP),
            background.eq((opcode == opcodes["LOAD"]) & self._in_background(move.memory)),
            self.move.p.store.eq(opcode == opcodes["STORE"]),
            *(
                self.move.p[name].eq(move[name] if name in declared else 1)
                for name in ("memory", "stride", "row", "rows", "line")
            ),
        ]

        def end() -> None:
            m.d.sync += [status.busy.eq(0), status.done.eq(1)]
            m.next = "IDLE"

        def stop(code: Value, where: Value = number) -> None:
            m.d.sync += [status.error.eq(code), status.instruction.eq(where)]
            m.next = "STOP"

        def proceed() -> None:
            m.d.comb += self.finished.eq(1)
            following = self.next_number(number)
            m.d.sync += [number.eq(following), status.instruction.eq(following)]
            m.next = "FETCH"

        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [
                        number.eq(0),
                        streamed.eq(self.stream),
                        *self.reset_formats(),
                        status.eq(STATUS.const({"busy": 1})),
                    ]
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += [self.in_control.eq(1), self.fetch.eq(1)]
                with m.If(stuck):
                    pass
                with m.Elif(loops.ends):
                    m.d.comb += loops.turn.eq(1)
                    m.d.sync += number.eq(loops.following)
                    m.d.sync += status.instruction.eq(loops.following)
                with m.Elif(~streamed & (number == p.instructions)):
                    stop(Error.END)
                with m.Elif(streamed & (number == self.filled)):
                    with m.If(self.fetch_failed):
                        stop(Error.BUS)
                with m.Else():
                    m.next = "DECODE"
            with m.State("DECODE"):
                m.d.comb += self.in_control.eq(1)
                m.d.sync += word.eq(
                    add_indices(m, self.instructions.fields, self.next_word(m), loops.indices)
                )
                m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.comb += self.in_control.eq(1)
                m.next = "CHECK"
            with m.State("CHECK"):
                stalled = self.stalled()
                with nullcontext() if stalled is None else m.If(~stalled):
                    m.d.comb += self.in_control.eq(1)
                    with m.If(error != Error.NONE):
                        stop(error)
                    with m.Else():
                        with m.Switch(opcode):
                            with m.Case(opcodes["CONFIGURE"]):
                                m.d.sync += self.configure()
                                proceed()
                            with m.Case(opcodes["LOOP"]):
                                m.d.comb += loops.enter.eq(1)
                                proceed()
                            with m.Case(opcodes["LOAD"], opcodes["STORE"]):
                                m.next = "ISSUE"
                            with m.Case(opcodes["WAIT"], opcodes["HALT"]):
                                m.next = "SETTLE"
                            self.dispatch(m, proceed)
                            with m.Default():
                                m.d.comb += self.go.eq(1)
                                m.next = "RUN"
            with m.State("ISSUE"):
                m.d.comb += self.in_memory.eq(1)
                with m.If(self.dma_idle):
                    with m.If(self.dma_failed):
                        stop(Error.BUS, move_number)
                    with m.Else():
                        m.d.comb += self.move.valid.eq(1)
                        m.d.sync += move_number.eq(number)
                        with m.If(background):
                            proceed()
                        with m.Else():
                            m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += self.in_memory.eq(1)
                with m.If(self.dma_idle):
                    with m.If(self.dma_failed):
                        stop(Error.BUS, move_number)
                    with m.Elif(opcode == opcodes["HALT"]):
                        m.d.comb += self.finished.eq(1)
                        end()
                    with m.Else():
                        proceed()
            with m.State("RUN"):
                with m.If(~self.running):
                    proceed()
            with m.State("STOP"):
                # What runs in the background ends before the next program can start.
                with m.If(self.background_idle()):
                    end()
        with m.If(self.expired):
            m.d.sync += stuck.eq(1)
        with m.If(self.expired | stuck):
            expired = {"done": 1, "error": Error.WATCHDOG}
            m.d.sync += status.eq(STATUS.const(expired))
            m.d.sync += status.instruction.eq(Mux(stuck, status.instruction, number))
        return m

    def loop_errors(self) -> tuple[tuple[Value, Error], ...]:
        """What is wrong with a loop."""
        loop = self.loops.loop
        too_long = loop.body > self.params.longest_loop
        return (
            ((loop.count == 0) | (loop.body == 0) | too_long, Error.SIZE),
            (self.loops.refused, Error.LOOP),
        )

    def _in_background(self, memory: Value) -> Value:
        codes = [code for code in self.instructions.memories if code.background]
        return reduce(or_, (memory == code for code in codes))


def first_error(m: Module, error: Signal, *wrong: tuple[Value, Error]) -> None:
    """Set ``error`` to the code of the first condition that holds."""
    for condition, code in reversed(wrong):
        with m.If(condition):
            m.d.comb += error.eq(code)


def parts_of(number: Value, size: int) -> Value:
    """How many parts of ``size``, a power of two, hold ``number``."""
    return (number + (size - 1)) >> (size.bit_length() - 1)


def is_one_of(value: Value, codes: Iterable[IntEnum]) -> Value:
    """Whether ``value`` is one of ``codes``."""
    return Cat(value == Const(int(code), len(Value.cast(value))) for code in codes).any()
