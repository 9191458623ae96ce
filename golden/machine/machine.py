"""How a golden accelerator executes programs, and the instructions that every accelerator has.

Instructions take effect one after the other; the hardware runs several at the same time, with the
same results. Only after an error of the external memory may it have run later instructions that
golden has not. Ranges that one instruction reads and writes must not overlap, except equal ones of
a vector operation; the accelerator's ``hazards`` check this.

Programs of whole models run here too: instructions are decoded and checked once, weights stay in
external memory until they are first multiplied, and vector operations are numpy's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.fast_products import PartWeights
from tilewright.golden.machine.fast_vector import (
    ARITHMETIC,
    FUNCTIONS,
    arithmetic,
    largest,
    reduced,
    table,
)
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.layout import element_dtype, from_bytes, to_bytes
from tilewright.golden.machine.loops import Fetch, Loops
from tilewright.golden.machine.stream import WORD_BYTES
from tilewright.golden.machine.vector import elementwise
from tilewright.golden.params.machine import SCALARS, Error, Kind
from tilewright.golden.params.vector import Operation

Lanes = slice | NDArray[np.int64]  # banks, as an index
_LINE = ("line",)


class Step(NamedTuple):
    """An executed instruction; one that expands into others precedes them."""

    instruction: Any  # with index registers added to its addresses
    settings: Any  # in force when it was executed
    fetch: Fetch | None = None  # None: a part of the one before it


@dataclass
class Outcome:
    """How a program ended."""

    error: Error
    instruction: int  # the one that stopped it
    saturated: bool
    counts: dict[Any, int]  # by the accelerator's counters; those that do not depend on timing
    trace: list[Step] = field(default_factory=list)
    streamed: bool = False  # its instructions came from external memory


class Place(NamedTuple):
    """Rows of a memory."""

    memory: Any
    row: int
    rows: int


class Pending(NamedTuple):
    """Rows that a load has announced and nothing has read yet."""

    line: int
    rows: int
    skip: int = 0  # rows of the load before the first of these


class BaseMachine(ABC):
    """External memory, scalar registers and the steps of a program; a subclass adds the rest.

    ``external`` is changed in place; its lines are numbered from 0. Lines beyond its end answer
    with a bus error, and so does every line of ``bad_lines``. Nothing writes the first ``constant``
    lines, such as those of a model's weights; loads from them are deferred until their rows are
    read.
    """

    INSTRUCTION: ClassVar[type[BaseInstruction]]
    MEMORY: ClassVar[Any]  # the enumeration of what loads and stores move
    SETTINGS: ClassVar[type[Any]]  # what ``configure`` sets; without arguments, the initial values
    COUNTED: ClassVar[tuple[IntEnum, ...]]  # counters that do not depend on timing
    COUNTER: ClassVar[Any]
    LAZY: ClassVar[tuple[Any, ...]]  # memories of weights
    CHECKED_BY_SETTINGS: ClassVar[bool]  # whether an instruction's validity depends on settings

    def __init__(
        self,
        params: Any,
        external: NDArray[np.uint8],
        bad_lines: Iterable[int] = (),
        *,
        constant: int = 0,
    ):
        external = np.asarray(external)  # slices of a memmap are slow
        if external.dtype != np.uint8 or len(external) % params.line_bytes:
            raise ValueError(f"external memory is whole lines of {params.line_bytes} bytes")
        self.params = params
        self.external = external.reshape(-1, params.line_bytes)
        self.bad_lines = frozenset(bad_lines)
        self.scalars = np.zeros((SCALARS, params.rows), np.uint16)
        opcodes = {opcode.name: opcode for opcode in self.INSTRUCTION.FIELDS}
        self._halt, self._begin = opcodes["HALT"], opcodes["LOOP"]  # compared at every step
        self._constant = constant
        self._counted: dict[tuple[int, int], int] = {}  # lines by memory and rows
        self._pending: dict[tuple[Any, int], Pending] = {}
        self._verdicts: dict[tuple, Error] = {}
        self._unpacked: dict[tuple, PartWeights] = {}
        self.memories: dict[Any, NDArray] = {
            m: np.zeros((params.depth(m), *params.row_shape(m)), element_dtype(params, m))
            for m in self.MEMORY
        }
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Make what the memories do not hold."""

    @abstractmethod
    def _judge(self, x: Any) -> Error:
        """Why the machine stops at an instruction; None if its opcode is unknown."""

    @abstractmethod
    def _execute(self, x: Any) -> Error:
        """The effect of a valid instruction."""

    # Programs.

    def verdict(self, word: int) -> Error:
        """Why a program would stop at its first instruction, if it is this word."""
        self.settings = self.SETTINGS()
        return self._judge(self.INSTRUCTION.decode(word))

    def run(self, program: Iterable[BaseInstruction | int]) -> Outcome:
        """Execute from instruction 0 to a halt or an error."""
        words = [x.encode() if isinstance(x, BaseInstruction) else x for x in program]
        size = self.params.instructions
        if len(words) > size:
            raise ValueError(f"{len(words)} instructions do not fit {size}")
        words += [0] * (size - len(words))
        return self._run(lambda number: words[number] if number < size else Error.END)

    def run_stream(self, line: int) -> Outcome:
        """Execute a program of any length in external memory, from ``line`` on.

        It must not write to its own lines.
        """
        each, code = self.params.line_instructions, self.external
        fetched: dict[int, int] = {}  # loops repeat instructions

        def word(number: int) -> int | Error:
            if number in fetched:
                return fetched[number]
            place, within = line + number // each, number % each * WORD_BYTES
            if place >= len(code) or place in self.bad_lines:
                return Error.BUS
            octets = code[place, within : within + WORD_BYTES].tobytes()
            fetched[number] = int.from_bytes(octets, "little")
            return fetched[number]

        return self._run(word, streamed=True)

    def _run(self, word_at: Callable[[int], int | Error], *, streamed: bool = False) -> Outcome:
        """Execute instructions by their numbers; an ``Error`` stops the program there."""
        self.settings, self.loops = self.SETTINGS(), Loops()
        counts = dict.fromkeys(self.COUNTED, 0)
        self.outcome = Outcome(Error.NONE, 0, False, counts, streamed=streamed)
        self.fetch: Fetch | None = Fetch(0, 0, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            self.outcome.error = self._steps(word_at)
        return self.outcome

    def _steps(self, word_at: Callable[[int], int | Error]) -> Error:
        while True:
            fetch = self.fetch
            assert fetch is not None
            word = word_at(fetch.number)
            self.outcome.instruction = fetch.number
            if isinstance(word, Error):
                return word
            x = self.INSTRUCTION.decode(word)
            if x is not None:
                x = self.loops.effective(x)
            error = self._step(x)
            if x is None or error is not Error.NONE or x.opcode is self._halt:
                return error
            self.fetch = self.loops.go_on(fetch.number + 1)

    def _step(self, x: Any) -> Error:
        """Check and execute one instruction."""
        error = self._check(x)
        if error is Error.NONE:
            error = self._loop(x) if x.opcode is self._begin else self._execute(x)
        if error is Error.NONE:
            self._count(self.COUNTER.INSTRUCTIONS, 1)
            self._note(x)
        return error

    def _loop(self, x: Any) -> Error:
        assert self.fetch is not None
        if self.loops.problem(x, self.fetch.number):
            return Error.LOOP
        self.loops.enter(x, self.fetch.number)
        return Error.NONE

    def _note(self, x: Any) -> None:
        """Append to the trace; entries until the next fetch are parts of this one."""
        self.outcome.trace.append(Step(x, self.settings, self.fetch))
        self.fetch = None

    def _count(self, counter: IntEnum, amount: int) -> None:
        self.outcome.counts[counter] += amount

    def _check(self, x: Any) -> Error:
        """The verdict on an instruction, which does not depend on its line."""
        if x is None:
            return self._judge(x)
        written = x.origin or x  # before index registers were added
        same = written is x or written.moved == _LINE
        key = (written if same else x).checked, self.settings if self.CHECKED_BY_SETTINGS else None
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._judge(x)
        return found

    # Moves.

    def _lines(self, x: Any) -> slice | None:
        """The lines that a load or store moves; None if one of them answers with an error."""
        key = x["memory"], x["rows"]
        count = self._counted.get(key)
        if count is None:
            count = self._counted[key] = self.params.lines(*key)
        first, end = x["line"], x["line"] + count
        if end > len(self.external) or not self.bad_lines.isdisjoint(range(first, end)):
            return None
        return slice(first, end)

    def _load(self, x: Any) -> Error:
        memory, row, lines = x["memory"], x["row"], self._lines(x)
        if lines is None:
            return Error.BUS
        self._count_read(memory, lines.stop - lines.start)
        if memory in self.LAZY:
            if x.fields.get("stride", 1) != 1:
                self.settle()
            else:
                self._forget(memory, row, x["rows"])
                if lines.stop <= self._constant:
                    self._pending[memory, row] = Pending(x["line"], x["rows"])
                    return Error.NONE
        data = self.external[lines].reshape(-1)
        self._put(x, from_bytes(self.params, self.MEMORY(memory), data, x["rows"]))
        return Error.NONE

    def _put(self, x: Any, rows: NDArray) -> None:
        """Write the rows that a load names."""
        self._moved(x)[:] = rows

    def _moved(self, x: Any) -> NDArray:
        """The rows that a load or store names."""
        stride = x.fields.get("stride", 1)
        span = (x["rows"] - 1) * stride + 1
        return self._rows(self.MEMORY(x["memory"]), x["row"], span)[::stride]

    def _rows(self, memory: Any, first: int, rows: int) -> NDArray:
        if memory in self.LAZY:
            self._settle_rows(memory, first, rows)
        return self.memories[memory][first : first + rows]

    def _count_read(self, memory: int, lines: int) -> None:
        self._count(self.COUNTER.LINES_READ, lines)

    def _store(self, x: Any) -> Error:
        lines = self._lines(x)
        if lines is None:
            return Error.BUS
        data = to_bytes(self.params, self.MEMORY(x["memory"]), self._moved(x))
        self.external[lines] = data.reshape(-1, self.params.line_bytes)
        self._count(self.COUNTER.LINES_WRITTEN, lines.stop - lines.start)
        return Error.NONE

    def _forget(self, memory: int, row: int, rows: int) -> None:
        """Drop rows that are written again from pending loads, which keep their other rows."""
        before = self._pending.get((memory, row))
        if before is not None and before.rows == rows:  # pending loads share no rows
            del self._pending[memory, row]
            return
        for key, pending in list(self._pending.items()):
            first, end = key[1], key[1] + pending.rows
            if key[0] != memory or first >= row + rows or row >= end:
                continue
            del self._pending[key]
            if first < row:
                self._pending[memory, first] = pending._replace(rows=row - first)
            if row + rows < end:
                gone = row + rows - first
                rest = pending._replace(rows=pending.rows - gone, skip=pending.skip + gone)
                self._pending[memory, row + rows] = rest

    def settle(self) -> None:
        """Write all pending rows."""
        for key in list(self._pending):
            self._settle(key)

    def _settle_rows(self, memory: Any, first: int, rows: int) -> None:
        """Write the pending loads that overlap some rows."""
        for key, pending in list(self._pending.items()):
            if key[0] == memory and key[1] < first + rows and first < key[1] + pending.rows:
                self._settle(key)

    def _settle(self, key: tuple[Any, int]) -> None:
        memory, row = key
        pending = self._pending.pop(key)
        self.memories[memory][row : row + pending.rows] = self._fetched(memory, pending)

    def _fetched(self, memory: Any, pending: Pending) -> NDArray:
        rows = pending.skip + pending.rows
        count = self.params.lines(memory, rows)
        data = np.array(self.external[pending.line : pending.line + count]).reshape(-1)
        return from_bytes(self.params, memory, data, rows)[pending.skip :]

    def _part(
        self, places: Sequence[Place], key: int, unpack: Callable[[NDArray, NDArray], PartWeights]
    ) -> PartWeights:
        """Weights and scales of a product, unpacked once if their loads were deferred.

        ``key`` distinguishes parts at one place.
        """
        pending = [self._pending.get(place[:2]) for place in places]
        lines = [
            p.line
            for p, place in zip(pending, places, strict=True)
            if p and not p.skip and place.rows <= p.rows
        ]
        if len(lines) < len(places):
            return unpack(*(self._rows(*place) for place in places))
        own = lines[0], places[0].rows, key
        if own not in self._unpacked:
            loads = zip(places, lines, strict=True)
            rows = [self._fetched(p.memory, Pending(line, p.rows)) for p, line in loads]
            self._unpacked[own] = unpack(*rows)
        return self._unpacked[own]

    # Vector operations, on rows as the memory has them: (words, banks, values of a word).

    @property
    def _written(self) -> Lanes:
        """Banks that are written."""
        return slice(None)

    @abstractmethod
    def _words_of(self, row: int, count: int, lanes: Lanes) -> NDArray[np.uint16]:
        """fp16 patterns of rows, in some banks."""

    @abstractmethod
    def _put_words(
        self, row: int, words: NDArray[np.uint16], elements: int, lanes: Lanes
    ) -> None: ...

    def _shown(self, x: Any, a: NDArray[np.uint16], lanes: Lanes) -> NDArray[np.uint16]:
        """The visible part of a vector operation's first tensor: here, all of it."""
        return a

    def _vector(self, x: Any) -> None:
        kind, elements, word = x.vector, x["elements"], self.params.vector.row_lanes
        operation = kind.operation
        lanes = slice(None) if kind.all_banks else self._written
        count = 1 if kind.on_scalars else -(-elements // word)
        a = self._operand(x, "a", count, lanes)
        if x["a_kind"] == Kind.TENSOR:
            a = self._shown(x, a, lanes)
        b = self._operand(x, "b", count, lanes) if kind.takes_b else a
        if operation is Operation.LARGEST:
            self.scalars[x["destination"]] = largest(a, elements)
            return
        if kind.reduces:
            second = None if operation is Operation.SUM else b
            self.scalars[x["destination"]] = reduced(a, second, elements, x["scale"])
            return
        if operation in ARITHMETIC:
            result = arithmetic(operation, a, b)
        elif operation in FUNCTIONS:
            result = table(operation)[a]
        elif operation is Operation.POWERS:
            powers = table(Operation.EXPONENTIAL)[arithmetic(Operation.SUBTRACT, a, b)]
            self.scalars[x["total"]] = reduced(powers, None, elements, x["scale"])
            lanes = self._written
            result = powers[:, lanes]
        else:
            result = elementwise(operation, a, b)
        if kind.on_scalars:
            self.scalars[x["destination"]] = result.reshape(-1)
            return
        if elements % word:
            result[-1, ..., elements % word :] = 0
        self._put_words(x["destination"], result, elements, lanes)

    def _operand(self, x: Any, name: str, count: int, lanes: Lanes) -> NDArray[np.uint16]:
        """An operand's words; an axis has length 1 where its values are the same."""
        kind, value = x[f"{name}_kind"], x[name]
        if kind == Kind.TENSOR:
            return self._words_of(value, count, lanes)
        if kind == Kind.SCALAR:
            return self.scalars[value][lanes][np.newaxis, :, np.newaxis]
        return np.full((1, 1, 1), value, np.uint16)
