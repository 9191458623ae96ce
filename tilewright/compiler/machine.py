"""A machine as the compiler sees it: memories, layouts, costs, and the lowering of operations.

A machine is added by subclassing :class:`Machine` and :class:`~tilewright.compiler.lowering
.Lowering` in a package of its own, named in ``MACHINES``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.rows import Rows
from tilewright.compiler.schedule import Access, Item
from tilewright.compiler.sizes import Matrix, Sizes, Step, Token
from tilewright.golden.machine.clock import Task
from tilewright.golden.machine.instruction import BaseInstruction, scalar_accesses
from tilewright.golden.machine.layout import to_bytes
from tilewright.golden.machine.moves import Latency
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.machine import MachineParams
from tilewright.golden.weights import Weights

Bytes = NDArray[np.uint8]
SumKind = tuple[int, int]  # bits of activations' mantissas, and tiles of columns summed at once
MACHINES = ("anda", "harmonia")  # packages in this folder, by the block that each is for


class Machine(ABC):
    """An accelerator of one size, with the formats that a model has on it.

    Machines of the same parameters and formats are equal: counts of their programs are cached.
    """

    name: str
    units: tuple[str, ...]  # counters of their busy cycles
    params: Any
    memory: Any  # the enumeration of its memories
    opcode: Any  # that of its opcodes
    instruction: type[BaseInstruction]
    weights_memory: Any
    scales_memory: Any
    fp16_memory: Any
    defaults: tuple  # settings that no instruction has asked for
    cycles: Any  # golden modules of the machine: its clock,
    isa: Any  # its instructions,
    golden: type  # and its executor

    def __init__(self, params: Any, formats: Any):
        self.params, self.formats = params, formats
        self.rows: int = params.rows  # tokens of a tile
        self.control_cycles: int = params.control_cycles
        self.loads: int = params.loads  # under way
        self._tasks: dict[Any, dict[tuple, Task]] = {}  # by latency
        self._accesses: dict[tuple, tuple[list[Access], list[Access], int, bool]] = {}
        self._lines: dict[tuple[Any, int], int] = {}
        self._but_lines = {  # values of an opcode's other fields
            int(opcode): itemgetter(*(f.name for f in declared if f.name != "line"))
            for opcode, declared in self.instruction.FIELDS.items()
            if declared
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Machine):
            return NotImplemented
        both = (self.params, self.formats), (other.params, other.formats)
        return type(self) is type(other) and both[0] == both[1]

    def __hash__(self) -> int:
        return hash((self.params, self.formats))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.params!r}, {self.formats!r})"

    # Sizes; where no value is given, a machine sets it in __init__.

    row_values: int  # fp16 values of a token in a row
    output_unit: int  # outputs that are worked on together, at least
    chunk_unit: int  # outputs that a product writes as a whole
    step_unit: int  # positions at multiples of this may begin a step of several tokens
    step_tokens: int  # tokens of one sequence in a step, at most
    shared_tokens: int  # of a step that row groups share out, at most
    part_rows: int  # rows of weights that a part should have: several parts fit at once
    most_part_rows: int  # rows of weights that a part can have
    packed: int = 1  # vectors of a table that share lines, each in a bank of its own
    counts_itself = True  # an instruction in the chain that it begins, where a step is scheduled
    most_counted = 2048  # fp16 counts no further: elements of a part of the head

    @abstractmethod
    def check_shape(self, shape: LlmShape) -> None:
        """Refuse a model whose sizes the machine cannot lay out."""

    @abstractmethod
    def tile_weight_rows(self, groups: int) -> int:
        """Rows of the weights' memory that a tile of columns takes."""

    def weight_tiles(self, outputs: int) -> int:
        """Tiles of columns that the weights of some outputs take, with those that fill a block."""
        return self.params.whole_tiles(-(-outputs // self.params.columns))

    def piece(self, groups: int) -> int:
        """Groups of inputs of a chunk that lie together, where a chunk is too large; else 0."""
        return 0

    def words(self, elements: int) -> int:
        """Rows that hold a number of elements."""
        return -(-elements // self.row_values)

    @abstractmethod
    def fp16_rows(self, elements: int) -> int:
        """Rows that a vector instruction writes for a number of elements."""

    def row_of(self, elements: int) -> int:
        """Rows before the element of this number."""
        return elements // self.row_values

    def rows_of(self, memory: Any) -> Rows:
        """A fresh allocator of a memory."""
        p = self.params
        return Rows(memory.name.lower(), p.depth(memory), p.region_rows(memory))

    # Layout of external memory.

    def lines(self, memory: Any, rows: int) -> int:
        """Lines of external memory that some rows fill."""
        found = self._lines.get((memory, rows))
        if found is None:
            found = self._lines[memory, rows] = self.params.lines(memory, rows)
        return found

    @abstractmethod
    def vector_lines(self, elements: int) -> int:
        """Lines of fp16 values that all tokens share."""

    @abstractmethod
    def vector_bytes(self, patterns: NDArray[np.uint16]) -> Bytes:
        """The content of these lines."""

    def tile_lines(self, elements: int) -> int:
        """Lines of a token tile of fp16 values."""
        return self.lines(self.fp16_memory, self.fp16_rows(elements))

    @abstractmethod
    def tile_values(self, data: Bytes, elements: int) -> NDArray[np.uint16]:
        """fp16 patterns (banks, elements) of a token tile in external memory."""

    @abstractmethod
    def weight_rows(self, weights: Weights) -> tuple[NDArray, NDArray]:
        """Rows of 4-bit weights, and of their scales."""

    def to_bytes(self, memory: Any, rows: NDArray) -> Bytes:
        """Rows of a memory as whole lines."""
        return to_bytes(self.params, memory, rows)

    def packed_lines(self, elements: int) -> int:
        """Lines of as many vectors of a table as share them."""
        return self.vector_lines(elements)

    @abstractmethod
    def packed_bytes(self, patterns: NDArray[np.uint16]) -> Bytes:
        """Vectors (number, elements) of a table."""

    def constants(self, shape: LlmShape) -> Bytes:
        """Constants that programs of the machine need besides weights and tables."""
        return np.zeros(0, np.uint8)

    def constants_lines(self, shape: LlmShape) -> int:
        return len(self.constants(shape)) // self.params.line_bytes

    query_scale: float  # of the cosines and sines that queries are rotated with; 0: 1 / sqrt(C)

    @abstractmethod
    def cache_lines(self, sizes: Sizes) -> int:
        """Lines of the cache of one layer of one sequence."""

    @abstractmethod
    def scratch_lines(self, sizes: Sizes) -> int:
        """Lines that steps use and leave undefined."""

    # Programs.

    @abstractmethod
    def row_accesses(self, item: Item) -> tuple[list[Access], list[Access]]:
        """Rows that an instruction reads, and those that it writes."""

    def accesses(self, item: Item) -> tuple[list[Access], list[Access]]:
        """Rows, lines and registers that an instruction reads, and those that it writes."""
        x = item.instruction
        key = self._key(item, 0)
        found = self._accesses.get(key)
        if found is None:
            moved = self.lines(self.memory(x["memory"]), x["rows"]) if "line" in x.fields else 0
            found = *self._on_chip(item), moved, x.opcode.name == "LOAD"
            self._accesses[key] = found
        reads, writes, lines, loads = found
        if not lines:
            return reads, writes
        line = x["line"]
        where = Access(("lines", x["line_index"]), line, line + lines)
        return ([*reads, where], writes) if loads else (reads, [*writes, where])

    @abstractmethod
    def deciding(self, item: Item) -> tuple:
        """The settings that decide which rows an instruction takes and for how long."""

    def _key(self, item: Item, channel: int) -> tuple:
        """The key of an instruction's rows and cycles; a line matters only by its channel."""
        x = item.instruction
        opcode = int(x.opcode)
        return opcode, self.deciding(item), channel, self._but_lines[opcode](x.fields)

    def _on_chip(self, item: Item) -> tuple[list[Access], list[Access]]:
        reads, writes = self.row_accesses(item)
        if item.instruction.opcode.name == "VECTOR":
            read, written = scalar_accesses(item.instruction)
            reads += [Access("scalars", n, n + 1) for n in read]
            writes += [Access("scalars", n, n + 1) for n in written]
        return reads, writes

    @abstractmethod
    def settings_of(self, item: Item) -> Any:
        """The settings that an instruction runs with."""

    def tasks(self, latency: Any) -> Callable[[Item], Task]:
        """Return a function for unit, duration and regions of an instruction."""
        known = self._tasks.setdefault(latency, {})
        channels, p = self.params.memory_channels, self.params

        def task(item: Item) -> Task:
            key = self._key(item, item.instruction.fields.get("line", 0) % channels)
            found = known.get(key)
            if found is None:
                made = self.cycles.task(p, item.instruction, self.settings_of(item), latency)
                assert made is not None
                found = known[key] = made
            return found

        return task

    @abstractmethod
    def configure(self, settings: tuple) -> Any:
        """The instruction that sets these."""

    def acts_loads(self, matrix: Matrix) -> list[dict[str, int]]:
        """Fields of the loads of a token tile's converted activations, but for row and line."""
        raise ValueError(f"{self.name} has no programs of single products")

    @abstractmethod
    def settings(self, x: Any) -> tuple:
        """The settings of an instruction that :meth:`configure` returned."""

    @abstractmethod
    def sums(self, item: Item) -> tuple[SumKind, int] | None:
        """The sums of a product, and how many groups they have; None for others."""

    def lowering(self, plan: Any, lines: Any, step: Step, together: int, spill: int) -> Any:
        """The lowering that writes the operations of a step.

        ``together`` token tiles share weights on chip; ``spill`` says which tensors are stored
        between operations, as :class:`~tilewright.compiler.lowering.Lowering` says.
        """
        return _package(self.name).Lowering(self, plan, lines, step, together, spill)

    def few(self, step: Step) -> int:
        """Whether a step's tokens are shared out over the array's rows; to how many at a time."""
        some = step.kind != "prompt" and len(step.tokens) <= self.shared_tokens
        return self.params.row_groups > 1 and some

    def copies(self, few: int) -> int:
        """Copies of tokens in banks that a product can write by themselves, after ``few``."""
        return 1

    def bank(self, token: Token, index: int, step: Step) -> int:
        """The bank of the step's token of this index, within its tile."""
        return index % self.rows

    def tiles(self, step: Step) -> list[dict[int, Token]]:
        """Tokens by bank, tile by tile."""
        found: list[dict[int, Token]] = []
        for index, token in enumerate(step.tokens):
            bank = self.bank(token, index, step)
            if not found or bank in found[-1] or bank < max(found[-1]):
                found.append({})
            found[-1][bank] = token
        return found

    # The golden machine.

    def executor(self, external: Bytes, constant: int) -> Any:
        """The golden machine with this memory, whose first ``constant`` lines nothing changes."""
        return self.golden(self.params, external, constant=constant)

    def program_cycles(self, outcome: Any, latency: Latency) -> dict:
        """Counters of time of a program that halted."""
        return dict(self.cycles.program_cycles(self.params, outcome, latency))

    def first_hazard(self, program: list) -> Any:
        """The first instruction that reads rows before their values are there, or None."""
        return self.isa.first_hazard(self.params, program)

    def disassemble(self, program: list) -> str:
        return self.isa.disassemble(program)

    def with_mantissas(self, lengths: Mapping[str, int]) -> "Machine":
        """The machine with activations of other lengths by module, where a model may choose."""
        return self

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Formats, for a manifest."""

    @property
    @abstractmethod
    def activations(self) -> str:
        """The format of activations in words."""


def machine_of(params: MachineParams, **formats: Any) -> Machine:
    """The machine of a block's parameters; ``formats`` are what it lets a model choose."""
    if params.block not in MACHINES:
        known = " or ".join(MACHINES)
        raise ValueError(f"models are compiled for a block {known}, not {params.block}")
    found: Machine = _package(params.block).Machine(params, **formats)
    return found


def _package(block: str) -> Any:
    return import_module(f"tilewright.compiler.{block}")
