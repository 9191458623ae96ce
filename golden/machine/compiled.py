"""Golden accelerators for programs of whole models: bit for bit the executors, but faster.

Instructions are decoded and checked once. Weights stay in external memory until they are first
multiplied. Vector operations are numpy's.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.fast_vector import (
    ARITHMETIC,
    FUNCTIONS,
    arithmetic,
    largest,
    reduced,
    table,
)
from tilewright.golden.machine.instruction import BaseInstruction, works_on_scalars
from tilewright.golden.machine.machine import BaseMachine, Outcome
from tilewright.golden.machine.stream import WORD_BYTES
from tilewright.golden.params.machine import Error, Kind
from tilewright.golden.params.vector import Operation

Lanes = slice | NDArray[np.int64]  # banks, as an index
_LINE = ("line",)


class _Vector(NamedTuple):
    """A vector instruction, decoded once: loops execute it again."""

    operation: Operation
    of_scalars: bool  # one of few operations on scalar registers
    rare: bool  # left to the executor
    all_banks: bool  # computed for banks that are not written too
    reduces: bool
    takes_b: bool
    by_table: bool

    @classmethod
    def of(cls, x: BaseInstruction) -> "_Vector":
        operation = Operation(x["operation"])
        simple = operation in ARITHMETIC or operation in FUNCTIONS
        known = simple or operation.reduces or operation in (Operation.COPY, Operation.POWERS)
        return cls(
            operation,
            works_on_scalars(x) and x["a_kind"] == Kind.SCALAR and simple,
            x["a_kind"] != Kind.TENSOR or not known,
            operation.reduces or operation.keeps_sum,
            operation.reduces,
            operation.takes_b,
            operation in FUNCTIONS,
        )


class DecodedOnce(BaseInstruction):
    """Words are decoded once; a base of an accelerator's instruction, before its own."""

    KNOWN: ClassVar[dict[int, Any]]  # one for each accelerator

    @classmethod
    def decode(cls, word: int) -> Self | None:
        if word not in cls.KNOWN:
            cls.KNOWN[word] = super().decode(word)
        found: Self | None = cls.KNOWN[word]
        return found

    @cached_property
    def vector(self) -> _Vector:
        return _Vector.of(self)


class Pending(NamedTuple):
    """Rows that a load has announced and nothing has read yet."""

    line: int
    rows: int
    skip: int = 0  # rows of the load before the first of these


class CompiledMachine(BaseMachine):
    """One accelerator with a model's image, whose first ``constant`` lines nothing changes.

    Programs lie in external memory, and none changes its own lines, so that none is copied.
    """

    LAZY: ClassVar[tuple[Any, ...]]  # memories of weights
    CHECKED_BY_SETTINGS: ClassVar[bool]  # whether settings decide if an instruction is right

    def __init__(self, params: Any, external: NDArray[np.uint8], constant: int):
        super().__init__(params, np.asarray(external))  # not as a memmap, whose slices cost
        self._constant = constant
        self._counted: dict[tuple[int, int], int] = {}  # lines of so many rows of a memory
        self._pending: dict[tuple[Any, int], Pending] = {}
        self._verdicts: dict[tuple[int, Any], Error] = {}  # by an instruction's identity
        self._verdicts_by_fields: dict[tuple, Error] = {}

    def _run(self, word_at: Callable[[int], int | Error], *, streamed: bool = False) -> Outcome:
        self._finished = 0  # instructions: a number is sooner counted than an entry of a table
        outcome = super()._run(word_at, streamed=streamed)
        outcome.counts[self.COUNTER.INSTRUCTIONS] = self._finished
        return outcome

    def _finish(self, x: Any) -> None:
        self._finished += 1
        self._note(x)

    def run_stream(self, line: int) -> Outcome:
        each, code = self.params.line_instructions, self.external
        fetched: dict[int, int] = {}  # loops come to instructions again

        def word(number: int) -> int | Error:
            if number in fetched:
                return fetched[number]
            place, within = line + number // each, number % each * WORD_BYTES
            if place >= len(code) or place in self.bad_lines:
                return Error.BUS
            octets = code[place, within : within + WORD_BYTES].tobytes()
            fetched[number] = int.from_bytes(octets, "little")
            return fetched[number]

        with np.errstate(over="ignore", invalid="ignore"):
            return self._run(word, streamed=True)

    # Checks. Whether an instruction is right does not depend on its line.

    def _check(self, x: Any) -> Error:
        if not isinstance(x, DecodedOnce):
            return super()._check(x)  # type: ignore[safe-super]
        settings = self.settings if self.CHECKED_BY_SETTINGS else None
        written = x.origin or x  # before index registers were added
        if written is not x and written.moved != _LINE:
            return self._verdict(x, settings)
        key = id(written), settings  # decoded instructions live on, so that no other has the id
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._verdict(x, settings)
        return found

    def _verdict(self, x: DecodedOnce, settings: Any) -> Error:
        fields = x.fields
        key = (x.opcode, settings, *(fields[name] for name in fields if name != "line"))
        found = self._verdicts_by_fields.get(key)
        if found is None:
            found = self._verdicts_by_fields[key] = super()._check(x)  # type: ignore[safe-super]
        return found

    # Moves. Weights stay in external memory until their rows are read.

    def _lines(self, x: Any) -> slice | None:
        if self.bad_lines:
            return super()._lines(x)
        key = x["memory"], x["rows"]
        count = self._counted.get(key)
        if count is None:
            count = self._counted[key] = self.params.lines(*key)
        end = x["line"] + count
        return slice(x["line"], end) if end <= len(self.external) else None

    def _load(self, x: Any) -> Error:
        memory, row, rows = x["memory"], x["row"], x["rows"]
        lines = self._lines(x) if memory in self.LAZY else None
        if lines is None:
            return super()._load(x)
        if x.fields.get("stride", 1) != 1:
            self.settle()
            return super()._load(x)
        self._forget(memory, row, rows)
        if lines.stop > self._constant:
            self._pending.pop((memory, row), None)
            return super()._load(x)
        self._pending[memory, row] = Pending(x["line"], rows)
        self._count_read(memory, lines.stop - lines.start)
        return Error.NONE

    def _forget(self, memory: int, row: int, rows: int) -> None:
        """Rows that are written again: of loads that overlap them, the other rows stay pending."""
        before = self._pending.get((memory, row))
        if before is not None and before.rows == rows:  # pending loads share no rows
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
        """Write all pending rows: memories are then as the executor leaves them."""
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
        self._buffer(memory)[row : row + pending.rows] = self._fetched(memory, pending)

    def _fetched(self, memory: Any, pending: Pending) -> NDArray:
        rows = pending.skip + pending.rows
        count = self.params.lines(memory, rows)
        data = np.array(self.external[pending.line : pending.line + count]).reshape(-1)
        return self._rows_of_lines(memory, data, rows)[pending.skip :]

    @abstractmethod
    def _buffer(self, memory: Any) -> NDArray:
        """All rows of a memory of weights."""

    @abstractmethod
    def _rows_of_lines(self, memory: Any, data: NDArray[np.uint8], rows: int) -> NDArray:
        """Rows as a memory holds them, of lines of external memory."""

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
        """The first tensor of a vector operation, as far as it is seen: here, all of it."""
        return a

    def _vector(self, x: Any) -> None:
        how: _Vector = x.vector
        operation, elements = how.operation, x["elements"]
        if how.of_scalars:
            self._on_scalars(x, how)
            return
        if how.rare:
            super()._vector(x)
            return
        lanes = slice(None) if how.all_banks else self._written
        word = self.params.vector.row_lanes
        count = -(-elements // word)
        a = self._shown(x, self._words_of(x["a"], count, lanes), lanes)
        b = self._second(x, count, lanes) if how.takes_b else a
        if operation is Operation.LARGEST:
            self.scalars[x["destination"]] = largest(a, elements)
            return
        if how.reduces:
            second = None if operation is Operation.SUM else b
            self.scalars[x["destination"]] = reduced(a, second, elements, x["scale"])
            return
        if operation is Operation.COPY:
            result = a.copy()
        elif how.by_table:
            result = table(operation)[a]
        elif operation is Operation.POWERS:
            powers = table(Operation.EXPONENTIAL)[arithmetic(Operation.SUBTRACT, a, b)]
            self.scalars[x["total"]] = reduced(powers, None, elements, x["scale"])
            lanes = self._written
            result = powers[:, lanes]
        else:
            result = arithmetic(operation, a, b)
        if elements % word:
            result[-1, ..., elements % word :] = 0
        self._put_words(x["destination"], result, elements, lanes)

    def _on_scalars(self, x: Any, how: _Vector) -> None:
        a = self.scalars[x["a"]]
        if how.by_table:
            result = table(how.operation)[a]
        else:
            immediate = x["b_kind"] == Kind.IMMEDIATE
            b = np.full(1, x["b"], np.uint16) if immediate else self.scalars[x["b"]]
            result = arithmetic(how.operation, a, b)
        self.scalars[x["destination"]] = result

    def _second(self, x: Any, count: int, lanes: Lanes) -> NDArray[np.uint16]:
        if x["b_kind"] == Kind.TENSOR:
            return self._words_of(x["b"], count, lanes)
        if x["b_kind"] == Kind.SCALAR:
            return self.scalars[x["b"]][lanes][np.newaxis, :, np.newaxis]
        return np.full((1, 1, 1), x["b"], np.uint16)
