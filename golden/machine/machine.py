"""The way through a program on a golden accelerator, and the instructions that all of them have.

Instructions take effect one after the other; the hardware's units run several at the same time and
have the same results. Only after an error of the external memory may instructions behind it have
run that golden has not. Ranges that one instruction reads and writes must not overlap, except a
vector operation's that are the same. Whether a program keeps to that, the accelerator's ``hazards``
say.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.instruction import BaseInstruction, works_on_scalars
from tilewright.golden.machine.loops import Fetch, Loops
from tilewright.golden.machine.stream import WORD_BYTES
from tilewright.golden.machine.vector import elementwise, reduce_tensor
from tilewright.golden.params.machine import SCALARS, Error, Kind
from tilewright.golden.params.vector import Operation


class Step(NamedTuple):
    """A finished instruction; one that consists of others comes before them."""

    instruction: Any  # with index registers added to its addresses
    settings: Any  # that it found
    fetch: Fetch | None = None  # None: a part of the one before it


@dataclass
class Outcome:
    """How a program ended."""

    error: Error
    instruction: int  # the one that stopped it
    saturated: bool
    counts: dict[Any, int]  # by the accelerator's counters; what does not depend on timing
    trace: list[Step] = field(default_factory=list)
    streamed: bool = False  # its instructions came from external memory


class BaseMachine(ABC):
    """External memory, scalar registers, and a program's steps; a subclass adds the rest.

    ``external`` is changed in place; its lines are numbered from 0. Lines beyond its end answer
    with a bus error, and so does every line of ``bad_lines``.
    """

    INSTRUCTION: ClassVar[type[BaseInstruction]]
    SETTINGS: ClassVar[type[Any]]  # what ``configure`` sets, and without arguments what is at first
    COUNTED: ClassVar[tuple[IntEnum, ...]]  # counters that do not depend on timing
    COUNTER: ClassVar[Any]

    def __init__(self, params: Any, external: NDArray[np.uint8], bad_lines: Iterable[int] = ()):
        if external.dtype != np.uint8 or len(external) % params.line_bytes:
            raise ValueError(f"external memory is whole lines of {params.line_bytes} bytes")
        self.params = params
        self.external = external.reshape(-1, params.line_bytes)
        self.bad_lines = frozenset(bad_lines)
        self.scalars = np.zeros((SCALARS, params.rows), np.uint16)
        opcodes = {opcode.name: opcode for opcode in self.INSTRUCTION.FIELDS}
        self._halt, self._begin = opcodes["HALT"], opcodes["LOOP"]  # compared at every step

    @abstractmethod
    def _check(self, x: Any) -> Error:
        """Why the machine stops at an instruction, None if its opcode is unknown."""

    @abstractmethod
    def _execute(self, x: Any) -> Error:
        """The effect of a right instruction."""

    @abstractmethod
    def _put(self, x: Any, data: NDArray[np.uint8]) -> None:
        """Lines into the rows that a load names."""

    @abstractmethod
    def _get(self, x: Any) -> NDArray[np.uint8]:
        """The rows that a store names, as whole lines."""

    @abstractmethod
    def _tensor(self, row: int, elements: int) -> NDArray[np.uint16]:
        """fp16 patterns (banks, elements in whole rows) from ``row`` on, 0 beyond ``elements``."""

    @abstractmethod
    def _write_tensor(self, row: int, values: NDArray[np.uint16]) -> None:
        """fp16 patterns (banks, elements) to rows from ``row`` on."""

    # Programs.

    def run(self, program: Iterable[BaseInstruction | int]) -> Outcome:
        """Execute from instruction 0 to a halt or an error."""
        words = [x.encode() if isinstance(x, BaseInstruction) else x for x in program]
        size = self.params.instructions
        if len(words) > size:
            raise ValueError(f"{len(words)} instructions do not fit {size}")
        words += [0] * (size - len(words))
        return self._run(lambda number: words[number] if number < size else Error.END)

    def run_stream(self, line: int) -> Outcome:
        """Execute a program of any length that lies in external memory from ``line`` on."""
        each, code = self.params.line_instructions, self.external.copy()

        def word(number: int) -> int | Error:
            place, within = line + number // each, number % each * WORD_BYTES
            if place >= len(code) or place in self.bad_lines:
                return Error.BUS
            return int.from_bytes(code[place, within : within + WORD_BYTES].tobytes(), "little")

        return self._run(word, streamed=True)

    def _run(self, word_at: Callable[[int], int | Error], *, streamed: bool = False) -> Outcome:
        """Execute instructions by their numbers; an ``Error`` stops the program there."""
        self.settings, self.loops = self.SETTINGS(), Loops()
        counts = dict.fromkeys(self.COUNTED, 0)
        self.outcome = Outcome(Error.NONE, 0, False, counts, streamed=streamed)
        self.fetch: Fetch | None = Fetch(0, 0, 0)
        while True:
            fetch = self.fetch
            assert fetch is not None
            word = word_at(fetch.number)
            self.outcome.instruction = fetch.number
            if isinstance(word, Error):
                self.outcome.error = word
                return self.outcome
            x = self.INSTRUCTION.decode(word)
            if x is not None:
                x = self.loops.effective(x)
            error = self._step(x)
            if x is None or error is not Error.NONE or x.opcode is self._halt:
                self.outcome.error = error
                return self.outcome
            self.fetch = self.loops.go_on(fetch.number + 1)

    def _step(self, x: Any) -> Error:
        """Judge and execute one instruction."""
        if x is not None and x.opcode is self._begin:
            return self._loop(x)
        error = self._check(x)
        if error is Error.NONE:
            error = self._execute(x)
        if error is Error.NONE:
            self._finish(x)
        return error

    def _loop(self, x: Any) -> Error:
        assert self.fetch is not None
        error = self._check(x)
        if error is Error.NONE and self.loops.problem(x, self.fetch.number):
            error = Error.LOOP
        if error is Error.NONE:
            self.loops.enter(x, self.fetch.number)
            self._finish(x)
        return error

    def _finish(self, x: Any) -> None:
        self._count(self.COUNTER.INSTRUCTIONS, 1)
        self._note(x)

    def _note(self, x: Any) -> None:
        """Into the trace; what follows without a fetch of its own is a part of it."""
        self.outcome.trace.append(Step(x, self.settings, self.fetch))
        self.fetch = None

    def _count(self, counter: IntEnum, amount: int) -> None:
        self.outcome.counts[counter] += amount

    # Moves.

    def _lines(self, x: Any) -> slice | None:
        """The lines that a load or store moves; None if one of them answers with an error."""
        count = self.params.lines(x["memory"], x["rows"])
        lines = range(x["line"], x["line"] + count)
        if lines.stop > len(self.external) or not self.bad_lines.isdisjoint(lines):
            return None
        return slice(lines.start, lines.stop)

    def _load(self, x: Any) -> Error:
        lines = self._lines(x)
        if lines is None:
            return Error.BUS
        self._put(x, self.external[lines].reshape(-1))
        self._count_read(x["memory"], lines.stop - lines.start)
        return Error.NONE

    def _count_read(self, memory: int, lines: int) -> None:
        self._count(self.COUNTER.LINES_READ, lines)

    def _store(self, x: Any) -> Error:
        lines = self._lines(x)
        if lines is None:
            return Error.BUS
        self.external[lines] = self._get(x).reshape(-1, self.params.line_bytes)
        self._count(self.COUNTER.LINES_WRITTEN, lines.stop - lines.start)
        return Error.NONE

    # Vector operations.

    def _vector(self, x: Any) -> None:
        operation, scalars = Operation(x["operation"]), works_on_scalars(x)
        elements = 1 if scalars else x["elements"]
        a = self._operand(x["a_kind"], x["a"], elements)
        if x["a_kind"] == Kind.TENSOR:
            a = self._visible(x, a)
        b = self._operand(x["b_kind"], x["b"], elements) if operation.takes_b else a
        a, b = np.broadcast_arrays(a, b)
        if operation.reduces:
            lanes = self.params.vector.row_lanes
            values = reduce_tensor(operation, a, b, elements, lanes, x["scale"])
            self.scalars[x["destination"]] = values
        elif scalars:
            self.scalars[x["destination"]] = elementwise(operation, a, b)[:, 0]
        else:
            values = elementwise(operation, a, b)
            self._write_tensor(x["destination"], values[:, :elements])
            if operation.keeps_sum:
                lanes = self.params.vector.row_lanes
                total = reduce_tensor(Operation.SUM, values, values, elements, lanes, x["scale"])
                self.scalars[x["total"]] = total

    def _operand(self, kind: int, value: int, elements: int) -> NDArray[np.uint16]:
        """(banks, elements in whole rows), or (banks, 1) where all elements are the same."""
        if kind == Kind.TENSOR:
            return self._tensor(value, elements)
        if kind == Kind.SCALAR:
            return self.scalars[value][:, np.newaxis]
        return np.full((self.params.rows, 1), value, np.uint16)

    def _visible(self, x: Any, a: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """What of its first tensor a vector operation sees: here, all."""
        return a
