"""Runs programs: fetches instructions, has them checked, issues them to units, in order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import Field
from tilewright.golden.params.machine import (
    INDEX_SUFFIX,
    INSTRUCTION_BITS,
    LINE_FIELD,
    NUMBER_BITS,
    OPCODE_BITS,
    SIZE_FIELD,
    STATUS_FIELDS,
    Error,
    MachineMemory,
    MachineParams,
    UnitOfWork,
)
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.machine.loops import LOOP, Loops, add_indices
from tilewright.hw.machine.move import lines_of, move_layout, under_way
from tilewright.hw.unit import UNNAMED, field_shape

STATUS = data.StructLayout({f.name: field_shape(f) for f in STATUS_FIELDS})
LOAD, STORE = UnitOfWork.LOAD, UnitOfWork.STORE
_MEASURE = ("SIZE", "MEASURE", "SETTLE", "COMPARE")  # states in which an instruction is measured


@dataclass(frozen=True)
class InstructionSet:
    """How an accelerator's instructions are taken apart, and which units run them.

    ``opcodes`` has HALT, CONFIGURE, LOAD, STORE, WAIT and LOOP; loads and stores have the fields of
    a move (``move_layout``).
    """

    opcodes: type[IntEnum]
    fields: Mapping[Any, tuple[Field, ...]]  # by opcode
    memories: type[MachineMemory]
    units: Mapping[UnitOfWork, tuple[IntEnum, ...]]  # opcodes of each unit

    @property
    def without_unit(self) -> list[IntEnum]:
        """Opcodes that no unit runs and that wait for nothing."""
        run = {opcode for own in self.units.values() for opcode in own}
        return [o for o in self.opcodes if o not in run and o.name not in ("WAIT", "HALT")]

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


class Sequencer(wiring.Component):
    """Issues the program's instructions, in their order, each to the unit that runs it.

    Every instruction is fetched, decoded, measured and checked, a cycle each (more to be measured
    where ``MachineParams.measure_cycles`` says so); one that is wrong
    (:class:`tilewright.golden.params.machine.Error`) stops the program before it does anything. A
    loop (``Loops``) that goes back or ends takes a cycle before the next fetch, and a program
    that streams from external memory waits there for its instruction.

    In the cycle of the check an instruction waits until its unit is idle and holds none of the
    regions of memories that others hold; a load also for a store of lines that it reads, and a
    store for such a load. Then its ``start`` is pulsed, with ``word`` and all that belongs to it,
    which do not stay. A wait or a halt waits for all units. As an instruction gets all it needs at
    once, and in order, none can wait for a later one.

    When a unit has failed or an instruction is wrong, no more is issued; the program stops when all
    units are idle, at the first instruction that was wrong. When the watchdog has ``expired``, the
    program is over, and nothing more is fetched until a reset: what the accelerator waits for may
    still arrive.

    Members
    -------
    base : Out
        The first instruction that may still be fetched.
    word : Out
        The instruction. ``members`` are those of the accelerator, among them ``words``: the beats
        of a vector instruction.
    start_load, busy_load : Out, In
        And likewise of every unit: it takes the instruction now; it works on one.
    load_full, load_count, load_ends : In
        Where several loads are under way: none is taken now; how many they are; the oldest ends.
    issue_load : Out
        Where units start a cycle later (``MachineParams.start_cycles``), and likewise of every
        unit: its instruction is issued now. ``word`` and the rest hold for the next cycle.
    """

    def __init__(self, params: MachineParams, instructions: InstructionSet, members: dict):
        self.params, self.instructions = params, instructions
        self.loops = Loops()
        pulses = ("issue", "start") if params.start_cycles else ("start",)
        super().__init__(
            {
                "start": In(1),
                "stream": In(1),  # with ``start``: instructions come from external memory
                "filled": In(NUMBER_BITS),  # of a stream: instructions that have arrived
                "fetch_failed": In(1),  # of a stream: the line after them has an error
                "base": Out(NUMBER_BITS),
                "expired": In(1),
                "status": Out(STATUS),
                "fetch": Out(1),
                "fetch_address": Out(range(params.instructions)),
                "fetched": In(INSTRUCTION_BITS),
                "move": Out(move_layout(instructions.memories)),
                **{
                    f"{name}_{_name(unit)}": Out(1)
                    for unit in instructions.units
                    for name in pulses
                },
                **{f"busy_{_name(unit)}": In(1) for unit in instructions.units},
                **(
                    {
                        "load_full": In(1),
                        "load_count": In(range(params.loads + 1)),
                        "load_ends": In(1),
                    }
                    if params.loads > 1
                    else {}
                ),
                "failed_load": In(1),
                "failed_store": In(1),
                "word": Out(INSTRUCTION_BITS),
                **members,
                "scalars_only": Out(1),  # of a vector instruction: it has no tensor
                "takes_b": Out(1),
                "reduces": Out(1),
                "in_control": Out(1),  # this cycle fetches, decodes, measures or checks
                "issued": Out(1),  # an instruction is
            }
        )

    def check(self, m: Module) -> Value:
        """The instruction's error, in the second cycle after it is there."""
        raise NotImplementedError

    def needs(self) -> Value:
        """The regions and whatever else the instruction holds, a bit each, with the error."""
        raise NotImplementedError

    def reset_formats(self) -> list:
        """Statements with which a start resets what ``CONFIGURE`` sets."""
        raise NotImplementedError

    def configure(self) -> list:
        """Statements that ``CONFIGURE`` executes."""
        raise NotImplementedError

    def next_word(self, m: Module) -> Value:
        """The instruction word that is decoded now."""
        return self.fetched

    def next_number(self, number: Value) -> Value:
        """The number of the instruction after the one that is done."""
        return number + 1

    def dispatch(self, m: Module) -> None:
        """Cases of opcodes that the accelerator handles in a way of its own."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        opcodes = self.instructions.opcodes
        self.number = Signal(NUMBER_BITS)
        self.streamed, self.stuck = Signal(name=UNNAMED), Signal(name="stuck")
        m.submodules.loops = self.loops
        opcode = self.word[:OPCODE_BITS]
        self.error, self.cause = Signal(Error), Signal(Error)
        domain = m.d.sync if p.measure_cycles > 1 else m.d.comb
        domain += self.error.eq(self.check(m))
        self._follow(m)
        self._take_move(m)
        self.issues, free = Signal(name=UNNAMED), self._free(m, opcode)
        for unit, own in self.instructions.units.items():
            m.d.comb += self.issue(unit).eq(self.issues & is_one_of(opcode, own))
            if p.start_cycles:
                m.d.sync += self._of("start", unit).eq(self.issue(unit))
        self.idle = wire(
            m, "idle", ~Cat(self.works(unit) for unit in self.instructions.units).any()
        )
        self.moving = self._numbers(m, self.number)
        self.failed = wire(m, "failed", self.failed_load | self.failed_store)
        waits = wire(m, "waits", is_one_of(opcode, (opcodes["WAIT"], opcodes["HALT"])))
        own_way = is_one_of(opcode, self.instructions.without_unit)
        self.ready = wire(m, "ready", Mux(waits, self.idle, own_way | free))
        self._run(m)
        self._watch(m)
        return m

    def _follow(self, m: Module) -> None:
        """Where the program is: in the instruction memory and in its loops."""
        number, loops = self.number, self.loops
        loop = self.instructions.fields_of(self.instructions.opcodes["LOOP"], self.word)
        m.d.comb += [
            # A stream wraps around in as much of the memory as is a power of two.
            self.fetch_address.eq(Mux(self.streamed, number % self.params.code_ring, number)),
            self.base.eq(loops.base),
            loops.clear.eq(self.start),
            loops.number.eq(number),
            *(loops.loop[name].eq(loop[name]) for name, _ in LOOP),
        ]

    def _run(self, m: Module) -> None:
        """The states of a program, and of each of its instructions."""
        p = self.params
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [
                        self.number.eq(0),
                        self.streamed.eq(self.stream),
                        *self.reset_formats(),
                        self.status.eq(STATUS.const({"busy": 1})),
                    ]
                    m.next = "FETCH"
            with m.State("FETCH"):
                self._fetch(m)
            with m.State("DECODE"):
                m.d.comb += self.in_control.eq(1)
                fields, indices = self.instructions.fields, self.loops.indices
                m.d.sync += self.word.eq(add_indices(m, fields, self.next_word(m), indices))
                m.next = "MEASURE" if p.measure_cycles == 1 else "SIZE"
            measure = _MEASURE if p.measure_cycles == len(_MEASURE) else ("MEASURE",)
            for state, following in pairwise((*measure, "CHECK")):
                with m.State(state):
                    m.d.comb += self.in_control.eq(1)
                    m.next = following
            with m.State("CHECK"):
                m.d.comb += self.in_control.eq(self.ready)
                with m.If(self.failed | (self.error != Error.NONE)):
                    self._stop(m, self.error)
                with m.Elif(self.ready):
                    self._execute(m)
            with m.State("STOP"):
                # All units finish before the next program can start, and one of them may
                # still find an error of an instruction before the one that is wrong.
                with m.If(self.idle):
                    code = Mux(self.failed, Error.BUS, self.cause)
                    self._end(m, code, Mux(self.failed, self.moving, self.number))

    def _fetch(self, m: Module) -> None:
        """Fetch the next instruction, unless a loop goes back or the program ends here."""
        number, loops, status = self.number, self.loops, self.status
        m.d.comb += [self.in_control.eq(1), self.fetch.eq(1)]
        with m.If(self.stuck):
            pass
        with m.Elif(loops.ends):
            m.d.comb += loops.turn.eq(1)
            m.d.sync += number.eq(loops.following)
            m.d.sync += status.instruction.eq(loops.following)
        with m.Elif(~self.streamed & (number == self.params.instructions)):
            self._stop(m, Error.END)
        with m.Elif(self.streamed & (number == self.filled)):
            with m.If(self.fetch_failed):
                self._stop(m, Error.BUS)
        with m.Else():
            m.next = "DECODE"

    def _execute(self, m: Module) -> None:
        """Do what the instruction says, or issue it to its unit."""
        opcodes = self.instructions.opcodes
        with m.Switch(self.word[:OPCODE_BITS]):
            with m.Case(opcodes["CONFIGURE"]):
                m.d.sync += self.configure()
                self._proceed(m)
            with m.Case(opcodes["LOOP"]):
                m.d.comb += self.loops.enter.eq(1)
                self._proceed(m)
            with m.Case(opcodes["HALT"]):
                m.d.comb += self.issued.eq(1)
                self._end(m, Error.NONE, self.number)
            self.dispatch(m)
            with m.Default():
                m.d.comb += self.issues.eq(1)
                self._proceed(m)

    def _proceed(self, m: Module) -> None:
        m.d.comb += self.issued.eq(1)
        following = self.next_number(self.number)
        m.d.sync += [self.number.eq(following), self.status.instruction.eq(following)]
        m.next = "FETCH"

    def _stop(self, m: Module, code: Value) -> None:
        m.d.sync += self.cause.eq(code)
        m.next = "STOP"

    def _end(self, m: Module, code: Value, where: Value) -> None:
        m.d.sync += [
            self.status.eq(STATUS.const({"done": 1})),
            self.status.error.eq(code),
            self.status.instruction.eq(where),
        ]
        m.next = "IDLE"

    def _watch(self, m: Module) -> None:
        """End a program whose watchdog has expired, for good."""
        status, stuck = self.status, self.stuck
        with m.If(self.expired):
            m.d.sync += stuck.eq(1)
        with m.If(self.expired | stuck):
            expired = {"done": 1, "error": Error.WATCHDOG}
            m.d.sync += status.eq(STATUS.const(expired))
            # Only a load, a store or the next instruction of a stream can wait for ever.
            waiting = Mux(self.busy_load | self.busy_store, self.moving, self.number)
            m.d.sync += status.instruction.eq(Mux(stuck, status.instruction, waiting))

    def issue(self, unit: UnitOfWork) -> Signal:
        """Whether an instruction of the unit is issued now."""
        return self._of("issue" if self.params.start_cycles else "start", unit)

    def works(self, unit: UnitOfWork) -> Value:
        """Whether an instruction that was issued to the unit is not over."""
        busy = self._of("busy", unit)
        return busy | self._of("start", unit) if self.params.start_cycles else busy

    def _of(self, name: str, unit: UnitOfWork) -> Signal:
        return getattr(self, f"{name}_{_name(unit)}")

    def _take_move(self, m: Module) -> None:
        """The command of a load or store."""
        opcode = self.instructions.opcodes["LOAD"]
        move = self.instructions.fields_of(opcode, self.word)
        declared = [f.name for f in self.instructions.fields[opcode]]  # maybe no stride
        m.d.comb += [
            self.move[name].eq(move[name] if name in declared else 1)
            for name, _ in move_layout(self.instructions.memories)
        ]

    def _free(self, m: Module, opcode: Value) -> Value:
        """Whether all that the instruction needs is free."""
        needs = Value.cast(self.needs())
        if self.params.measure_cycles > 1:
            needs = registered(m, "needs", needs)
        busy = Signal()
        taken = []
        for unit, own in self.instructions.units.items():
            if self.several(unit):  # they write their rows one after the other
                with m.If(is_one_of(opcode, own)):
                    m.d.comb += busy.eq(self.load_full)
                loads = enumerate(self._loads(m, "held_load", needs))
                taken += [
                    Mux((self.load_count > k) & ~is_one_of(opcode, own), held, 0)
                    for k, held in loads
                ]
                continue
            held = Signal(len(needs), name=f"held_{_name(unit)}")
            with m.If(self.issue(unit)):
                m.d.sync += held.eq(needs)
            with m.If(is_one_of(opcode, own)):
                m.d.comb += busy.eq(self.works(unit))
            taken.append(held & self.works(unit).replicate(len(needs)))
        conflict = needs & reduce(or_, taken)
        return wire(m, "free", ~busy & ~conflict.any() & ~self._same_lines(m, opcode))

    def _same_lines(self, m: Module, opcode: Value) -> Value:
        """Whether a load reads lines that a store writes, or the other way round."""
        end = Signal(LINE_FIELD + 1, name="line_end")  # of the instruction, if it has lines
        lines = Signal(SIZE_FIELD + 16, name="lines_now")
        with m.Switch(self.move.memory):
            for memory in self.instructions.memories:
                with m.Case(memory):
                    m.d.comb += lines.eq(lines_of(self.params, memory, self.move.rows))
        m.d.sync += end.eq(self.move.line + lines)
        same = []
        for unit, other in ((LOAD, STORE), (STORE, LOAD)):
            name = _name(unit)
            is_other = opcode == self.instructions.opcodes[other.name]
            if self.several(unit):
                given = Signal(data.StructLayout({"first": LINE_FIELD, "end": len(end)}))
                m.d.comb += [given.first.eq(self.move.line), given.end.eq(end)]
                for k, held in enumerate(self._loads(m, "load_lines", given)):
                    meets = (self.move.line < held.end) & (held.first < end)
                    same.append(is_other & (self.load_count > k) & meets)
                continue
            first_held = Signal(LINE_FIELD, name=f"{name}_line")
            end_held = Signal.like(end, name=f"{name}_line_end")
            with m.If(self.issue(unit)):
                m.d.sync += [first_held.eq(self.move.line), end_held.eq(end)]
            meets = (self.move.line < end_held) & (first_held < end)
            same.append(is_other & self.works(unit) & meets)
        return Cat(same).any()

    def _numbers(self, m: Module, number: Value) -> Value:
        """The number of the load or store that fails or waits; the earlier one if both do."""
        load, store, load_is_later = Signal(NUMBER_BITS), Signal(NUMBER_BITS), Signal()
        if self.several(LOAD):
            given = Signal(data.StructLayout({"number": NUMBER_BITS, "is_later": 1}))
            m.d.comb += [given.number.eq(number), given.is_later.eq(1)]
            loads = self._loads(m, "load_number", given)
            with m.If(~self.failed_load):  # a load that fails may end in the same cycle
                is_later = loads[0].is_later & ~self.issue(STORE)
                m.d.sync += [load.eq(loads[0].number), load_is_later.eq(is_later)]
            with m.If(self.issue(STORE)):
                m.d.sync += [held.is_later.eq(0) for held in loads]
        else:
            with m.If(self.issue(LOAD)):
                m.d.sync += [load.eq(number), load_is_later.eq(1)]
        with m.If(self.issue(STORE)):
            m.d.sync += store.eq(number)
            if not self.several(LOAD):
                m.d.sync += load_is_later.eq(0)
        of_load = Mux(self.failed_load | self.failed_store, self.failed_load, self.busy_load)
        of_store = Mux(self.failed_load | self.failed_store, self.failed_store, self.busy_store)
        return wire(m, "moving", Mux(of_load & ~(of_store & load_is_later), load, store))

    def several(self, unit: UnitOfWork) -> bool:
        """Whether several instructions of the unit are under way."""
        return unit is LOAD and self.params.loads > 1

    def _loads(self, m: Module, name: str, given: Any) -> list[Any]:
        """``given`` of the loads under way, the oldest first."""
        issue, ends, count = self.issue(LOAD), self.load_ends, self.load_count
        return under_way(m, name, self.params.loads, given, issue, ends, count)

    def sized(self, m: Module, name: str, value: Value) -> Value:
        """A part of a size, or a product, computed a cycle before everything that depends on it.

        Where instructions are measured in one cycle it is computed there.
        """
        return value if self.params.measure_cycles == 1 else registered(m, name, value)

    def loop_errors(self) -> tuple[tuple[Value, Error], ...]:
        """Errors of a loop, in order."""
        loop = self.loops.loop
        too_long = loop.body > self.params.longest_loop
        return (
            ((loop.count == 0) | (loop.body == 0) | too_long, Error.SIZE),
            (self.loops.refused, Error.LOOP),
        )


def registered(m: Module, name: str, value: Value) -> Signal:
    """``value`` of the previous cycle."""
    signal = Signal(value.shape(), name=name)
    m.d.sync += signal.eq(value)
    return signal


def _name(unit: UnitOfWork) -> str:
    return unit.name.lower()


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
