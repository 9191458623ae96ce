"""Operations of a layer as instructions, in the plain order of the algorithm.

Common code uses a vector unit on fp16 rows, an array that multiplies converted activations by parts
of a matrix, loads and stores. Each machine's lowering adds conversion, products, moves and
attention.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from tilewright.compiler.graph import Attend, Matmul, Norm
from tilewright.compiler.image import NORM_SHARE, ROTATIONS, Lines
from tilewright.compiler.machine import Machine
from tilewright.compiler.plan import Plan
from tilewright.compiler.rows import Place, Rows
from tilewright.compiler.schedule import Code, Item
from tilewright.compiler.sizes import Matrix, Step
from tilewright.golden.bits import encode
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

LAYER_INDEX, CACHE_INDEX = 1, 2  # index registers that a loop over layers moves
_NORM, _SQUARES = 7, 6  # scalar registers


class Tensor(NamedTuple):
    """``elements`` fp16 values of every token of a tile, from ``row`` on."""

    row: int
    elements: int


class Scalar(NamedTuple):
    """A scalar register: one fp16 value for every token of a tile."""

    number: int


Operand = Tensor | Scalar | float
Vectors = dict[int, tuple[int, int]]  # by bank: line and bank in external memory
Chunk = tuple[Place, Place]  # its weights and scales on chip


class Load(NamedTuple):
    """A part of a chunk that is loaded at a time.

    A *cell* is the weights of a tile of columns and a group of inputs, with a row of scales.
    """

    outputs: range  # of the chunk
    groups: range  # of their inputs
    cells: tuple[range, ...]  # of the chunk in memory, one after the other on chip
    continues: bool = False  # the sums of the load before go on
    keeps: bool = False  # and on in the next one


Then = Callable[[int, int, list[Tensor]], None]  # tile, part of a matrix and its outputs


@lru_cache(maxsize=256)  # long programs repeat a few constants
def half(value: float) -> int:
    """The fp16 pattern nearest to a number."""
    return int(encode(FP16, value))


class Held:
    """A tensor of every token tile: on chip all the time, or spilled and moved piece by piece."""

    def __init__(self, lowering: "Lowering", name: str, elements: int, *, resident: bool):
        self.lowering, self.name, self.elements, self.resident = lowering, name, elements, resident
        self.places: list[Place] = []
        if resident:
            rows = lowering.machine.fp16_rows(elements)
            with lowering.fp16.within(lowering.fp16.regions - 1):
                self.places = [lowering.fp16.take(rows) for _ in lowering.tiles]

    def write(
        self, tile: int, first: int, elements: int, apart: "Iterable[Place | Tensor]" = ()
    ) -> Tensor:
        """Where elements from ``first`` on are to be written; :meth:`wrote` follows."""
        m, low = self.lowering.machine, self.lowering
        if self.resident:
            return Tensor(self.places[tile].first + m.row_of(first), elements)
        return low.tensor(elements, apart)

    def read(
        self, tile: int, first: int, elements: int, apart: "Iterable[Place | Tensor]" = ()
    ) -> Tensor:
        """Elements from ``first`` on; :meth:`done` follows their last use."""
        found = self.write(tile, first, elements, apart)
        if not self.resident:
            self.lowering.load_tile(found, self.line(tile, first))
        return found

    def wrote(self, tile: int, first: int, tensor: Tensor) -> None:
        if not self.resident:
            self.lowering.store_tile(tensor, self.line(tile, first))
            self.done(tensor)

    def done(self, tensor: Tensor) -> None:
        if not self.resident:
            self.lowering.release(tensor)

    def line(self, tile: int, first: int) -> int:
        """Where a spilled tile's elements lie."""
        low = self.lowering
        return low.lines.spilled(self.name, tile) + low.lines_before(first)

    def release(self) -> None:
        for place in self.places:
            self.lowering.fp16.give(place)
        self.places = []


class Gated(Held):
    """Results of SiLU that are spilled, every part in lines of its own."""

    def line(self, tile: int, first: int) -> int:
        low, gate = self.lowering, self.lowering.plan.matrices["gate"]
        begin = low.lines.spilled(self.name, tile)
        return begin + first // gate.part * low.machine.tile_lines(gate.part)


class Lowering(ABC):
    """Writes one step; ``together`` token tiles share each part of the weights.

    ``spill``: 0 all tensors stay on chip, 1 those of attention do not, 2 none does but activations
    of products, 3 nor do the activations of the last product while others are needed.
    """

    shared = 0  # whether few tokens are shared out over the array's rows: all banks hold one
    copy: int | None = None  # of the tokens, whose banks alone products write; None: those of all

    def __init__(
        self, machine: Machine, plan: Plan, lines: Lines, step: Step, together: int, spill: int
    ):
        self.machine, self.plan, self.lines, self.step = machine, plan, lines, step
        self.shape, self.together, self.spill = plan.shape, together, spill
        self.tiles = machine.tiles(step)
        self.code = Code()
        self.fp16 = machine.rows_of(machine.fp16_memory)
        self.weights = machine.rows_of(machine.weights_memory)
        self.scales, self.acts = self._other_rows()
        # Tensors that stay are in the last region; parts of a product have others in turn, so that
        # units work on one while the array leaves the next.
        own = range(self.fp16.regions - 1) or range(1)
        self.work_regions = own[1:] if self.acts is self.fp16 and len(own) > 1 else own
        stored = machine.weights_memory, machine.scales_memory
        self.beats = [max(1, machine.params.beat_rows(memory)) for memory in stored]
        self.first_chunk: Chunk | None = None  # rows that the first weights are in
        self.tile = 0  # at work
        self.sections: tuple[list[Item], list[Item], list[Item]] = ([], [], [])

    @property
    def head_copies(self) -> int:
        """Copies of the tokens in banks that a product can write by themselves."""
        return self.machine.copies(self.shared)

    @abstractmethod
    def _other_rows(self) -> tuple[Rows, Rows]:
        """Rows of scales, and those of converted activations."""

    # Emission.

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Attribute the instructions that follow to this operation."""
        before, self.code.operation = self.code.operation, name
        yield
        self.code.operation = before

    def emit(self, opcode: str, **fields: int) -> None:
        x = self.machine.instruction(self.machine.opcode[opcode], fields)
        self.code.add(x, self.needs(x))

    @abstractmethod
    def needs(self, x: Any) -> tuple:
        """Settings that an instruction needs, as they are wanted now."""

    def apply(
        self,
        operation: Operation,
        a: Operand,
        b: Operand = 0.0,
        *,
        into: Tensor | Scalar,
        scale: float = 1.0,
        **fields: int,
    ) -> None:
        """One vector instruction."""
        tensors = [x for x in (a, b, into) if isinstance(x, Tensor)]
        (a_kind, a_field), (b_kind, b_field) = encoded(a), encoded(b)
        self.emit(
            "VECTOR",
            operation=int(operation),
            a_kind=a_kind,
            b_kind=b_kind,
            a=a_field,
            b=b_field,
            destination=into[0],
            elements=tensors[0].elements if tensors else 0,
            scale=half(scale),
            **fields,
        )

    # fp16 tensors.

    def tensor(self, elements: int, apart: Iterable[Place | Tensor] = ()) -> Tensor:
        """Room for a tensor, in other regions than ``apart``."""
        rows = self.machine.fp16_rows(elements)
        return Tensor(self.fp16.take(rows, apart=map(self.place, apart)).first, elements)

    def place(self, x: Place | Tensor) -> Place:
        if isinstance(x, Place):
            return x
        return Place(x.row, x.row + self.machine.fp16_rows(x.elements))

    def release(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            self.fp16.give(self.place(tensor))

    def lines_before(self, first: int) -> int:
        """Lines of a token tile before the element of this number."""
        return self.machine.lines(self.machine.fp16_memory, self.machine.row_of(first))

    @abstractmethod
    def load_vector(self, into: Tensor, line: int, index: int = 0) -> None:
        """Values that all tokens share, to every bank."""

    def load_tile(self, into: Tensor, line: int, index: int = 0) -> None:
        m = self.machine
        self.move("LOAD", m.fp16_memory, into.row, m.words(into.elements), line, index)

    def store_tile(self, x: Tensor, line: int, index: int = 0) -> None:
        m = self.machine
        self.move("STORE", m.fp16_memory, x.row, m.words(x.elements), line, index)

    # Activations and products.

    @abstractmethod
    def take_acts(self, matrix: Matrix, tiles: int = 1) -> Place:
        """Room for the converted activations of a product, one token tile after the other."""

    @abstractmethod
    def convert(self, x: Tensor, acts: Place, matrix: Matrix, first: int = 0) -> None:
        """Activations of a product from input ``first`` on, a copy for each 4 bits of a weight."""

    @abstractmethod
    def multiply(
        self, acts: Place, chunk: Chunk, into: Tensor, matrix: Matrix, tiles: int = 1
    ) -> None:
        """Activations times a chunk of a matrix, for token tiles that lie one after the other."""

    def multiply_piece(
        self, acts: Place, chunk: Chunk, into: Tensor, matrix: Matrix, load: Load
    ) -> None:
        """Activations times what was loaded of a chunk."""
        self.multiply(acts, chunk, into, matrix)

    def loads(self, matrix: Matrix, outputs: int) -> list[Load]:
        """Parts of a chunk of so many outputs, loaded one after the other."""
        cells = self.machine.weight_tiles(outputs) * matrix.groups
        return [Load(range(outputs), range(matrix.groups), (range(cells),))]

    def load_chunk(
        self, matrix: Matrix, line: int, part: int, k: int, load: Load, index: int = LAYER_INDEX
    ) -> Chunk:
        """Weights and scales of a chunk, or a piece of it; ``line`` is the matrix's first."""
        if self.first_chunk is not None:
            found, self.first_chunk = self.first_chunk, None
            return found
        places = self.take_chunk(sum(map(len, load.cells)))
        self.move_chunk(matrix, line, part, k, index, places, load)
        return places

    def take_chunk(self, cells: int) -> Chunk:
        """Room for weights and scales, from the start of a beat on."""
        weights, align = self.machine.tile_weight_rows(cells), self.beats
        return self.weights.take(weights, align=align[0]), self.scales.take(cells, align=align[1])

    def multiply_chunk(
        self,
        acts: Sequence[tuple[int, Place, Tensor]],
        matrix: Matrix,
        line: int,
        part: int,
        k: int,
        index: int = LAYER_INDEX,
    ) -> None:
        """Load a chunk and multiply the activations of some tiles, which outputs follow, by it."""
        for load in self.loads(matrix, len(matrix.chunks(part)[k])):
            loaded = self.load_chunk(matrix, line, part, k, load, index)
            for tile, place, into in acts:
                self.turn_to(tile, matrix.name)
                row = into.row + self.machine.row_of(load.outputs.start)
                self.multiply_piece(place, loaded, Tensor(row, len(load.outputs)), matrix, load)
            self.give_chunk(loaded)

    def take_chunk_at(self, places: Chunk) -> None:
        self.weights.take_at(places[0])
        if self.scales is not self.weights:
            self.scales.take_at(places[1])

    def give_chunk(self, places: Chunk) -> None:
        self.weights.give(places[0])
        if self.scales is not self.weights:
            self.scales.give(places[1])

    def move_chunk(
        self, matrix: Matrix, line: int, part: int, k: int, index: int, places: Chunk, load: Load
    ) -> None:
        m, (own, other) = self.machine, places
        scales_line, size = self.lines.chunk_lines(matrix)
        first = line + (part * matrix.part_chunks + k) * size
        before = 0
        for cells in load.cells:
            weights, scales = m.tile_weight_rows(len(cells)), len(cells)
            at = scales_line + m.lines(m.scales_memory, cells.start)
            # The longer load is issued last: it runs while others are.
            self.move("LOAD", m.scales_memory, other.first + before, scales, first + at, index)
            at = m.lines(m.weights_memory, m.tile_weight_rows(cells.start))
            row = own.first + m.tile_weight_rows(before)
            self.move("LOAD", m.weights_memory, row, weights, first + at, index)
            before += len(cells)

    def move(
        self, opcode: str, memory: Any, row: int, rows: int, line: int, index: int = 0, **more: int
    ) -> None:
        """A load or a store of rows."""
        fields = {"memory": int(memory), "row": row, "rows": rows, "line": line}
        self.emit(opcode, line_index=index, **fields, **more)

    def product(
        self, names: Sequence[str], acts: Sequence[Place], tiles: Sequence[int], then: Then
    ) -> None:
        """Matrices times activations of some token tiles; ``then`` takes each part's outputs."""
        matrices = [self.plan.matrices[name] for name in names]
        for part in range(len(matrices[0].parts)):
            with self.fp16.within(self.work_regions[part % len(self.work_regions)]):
                self._product_part(names, matrices, acts, tiles, part, then)

    def _product_part(
        self,
        names: Sequence[str],
        matrices: Sequence[Matrix],
        acts: Sequence[Place],
        tiles: Sequence[int],
        part: int,
        then: Then,
    ) -> None:
        """One part, in a region in which the array does not work on the next."""
        outputs: dict[int, list[Tensor]] = {tile: [] for tile in tiles}
        for name, matrix in zip(names, matrices, strict=True):
            for tile in tiles:
                self.turn_to(tile, name)
                outputs[tile].append(self.result(matrix, part, outputs[tile]))
            for k, chunk in enumerate(matrix.chunks(part)):
                rows = self.machine.row_of(chunk.start - matrix.parts[part].start)
                into = [Tensor(outputs[tile][-1].row + rows, len(chunk)) for tile in tiles]
                given = list(zip(tiles, acts, into, strict=True))
                self.multiply_chunk(given, matrix, self.lines.of_layer(name), part, k)
        for tile in tiles:
            self.turn_to(tile, names[0])
            then(tile, part, outputs[tile])

    def turn_to(self, tile: int, name: str) -> None:
        """Turn to a tile, for the operation or matrix of this name."""
        self.tile = tile

    def result(self, matrix: Matrix, part: int, others: Sequence[Tensor]) -> Tensor:
        """Room for a part's outputs, away from those that they are combined with."""
        elements = len(matrix.parts[part])
        if matrix.name in ("q", "k"):
            return self.guarded(elements)
        return self.tensor(elements, apart=others)

    # A layer.

    def enter(self, embeddings: Sequence[tuple[int, int]]) -> None:
        """Vectors of the step's tokens, at these lines and banks; tables of their positions."""
        self.shared = self.machine.few(self.step)
        self.x = Held(self, "x", self.shape.hidden_size, resident=self.spill < 2)
        self.gated = Gated(self, "gated", self.shape.intermediate_size, resident=False)
        numbers = iter(embeddings)
        for tile, tokens in enumerate(self.tiles):
            self.tile = tile
            vectors = {bank: next(numbers) for bank in tokens}
            self.gather(self.x, tile, range(self.shape.hidden_size), vectors)
        self.begin()

    def begin(self) -> None:
        """Load the tokens' vectors, before the first layer."""
        single = len(self.tiles) == 1
        tables, size = self.lines.rotation_tables, self.lines.rotated
        resident = single and self.spill < 2
        self.rotations = Held(self, "rotations", size * tables, resident=resident)
        for tile, tokens in enumerate(self.tiles):
            self.tile = tile
            for table in range(tables):
                part = range(table * size, (table + 1) * size)
                lines = {b: self.lines.rotation(t.position, table) for b, t in tokens.items()}
                self.gather(self.rotations, tile, part, lines)

    @abstractmethod
    def gather(self, held: Held, tile: int, part: range, vectors: Vectors) -> None:
        """Elements of vectors that lie at lines and banks of external memory, by token's bank."""

    def layer(self) -> None:
        """All operations of a layer; index registers say which."""
        graph = list(self.plan.graph)
        middle = next(k for k, op in enumerate(graph) if isinstance(op, Attend))
        tiles = range(len(self.tiles))
        groups = [tiles[k : k + self.together] for k in range(0, len(tiles), self.together)]
        self.begin_attention()
        for group in groups:
            self._run(graph[:middle], group)
        with self.operation("attention"):
            self.attend(tiles)
        for group in groups:
            self._run(graph[middle + 1 :], group)
        self.end_attention()

    def _run(self, graph: Sequence[Norm | Matmul], tiles: Sequence[int]) -> None:
        """Some operations on some tiles; operands of products are given back after their last."""
        acts: dict[str, list[Place]] = {}
        last = {op.source: k for k, op in enumerate(graph)}
        for k, op in enumerate(graph):
            with self.operation(op.name):
                if isinstance(op, Norm):
                    matrix = self._first_product(graph[k:], op.result)
                    acts[op.result] = [self.norm(op.name, tile, matrix) for tile in tiles]
                    continue
                if op.source == "attended":
                    acts[op.source] = [self.attended_acts(tile) for tile in tiles]
                if op.result and self.spill < 3:
                    matrix = self._first_product(graph[k:], op.result)
                    acts[op.result] = [self.take_acts(matrix) for _ in tiles]
                self.operands = dict(zip(tiles, acts.get(op.result, []), strict=False))
                self.product(op.weights, acts[op.source], tiles, self._after(op))
                if last[op.source] == k:
                    for place in acts.pop(op.source):
                        self.acts.give(place)
                if op.result and self.spill >= 3:
                    matrix = self._first_product(graph[k:], op.result)
                    acts[op.result] = [self._spilled_acts(tile, matrix) for tile in tiles]

    def _spilled_acts(self, tile: int, matrix: Matrix) -> Place:
        """Activations of a product from the tensor that was spilled for it."""
        self.turn_to(tile, matrix.name)
        acts = self.take_acts(matrix)
        for part in self.plan.matrices["gate"].parts:
            x = self.gated.read(tile, part.start, len(part))
            self.convert(x, acts, matrix, part.start)
            self.gated.done(x)
        return acts

    def _first_product(self, graph: Sequence[Norm | Matmul], source: str) -> Matrix:
        """A matrix that these activations are multiplied by."""
        names = [op.weights[0] for op in graph if isinstance(op, Matmul) and op.source == source]
        return self.plan.matrices[names[0]]

    def _after(self, op: Matmul) -> Then:
        steps = [getattr(self, f"_{name}") for name in op.then]
        name = op.weights[0]

        def then(tile: int, part: int, outputs: list[Tensor]) -> None:
            for step in steps:
                outputs = step(tile, name, part, outputs)
            self.release(*outputs)

        return then

    # Element by element. Each gives back the tensors that are left.

    def norm(self, name: str, tile: int, matrix: Matrix) -> Place:
        """RMS norm of a token tile as activations; the gain holds the root of NORM_SHARE."""
        self.turn_to(tile, name)
        width, norm = self.shape.hidden_size, Scalar(_NORM)
        pieces = self.pieces(self.x)
        for k, piece in enumerate(pieces):
            x = self.x.read(tile, piece.start, len(piece))
            into = norm if k == 0 else Scalar(_SQUARES)
            self.apply(Operation.DOT, x, x, into=into, scale=NORM_SHARE / width)
            if k:
                self.apply(Operation.ADD, norm, Scalar(_SQUARES), into=norm)
            self.x.done(x)
        self.apply(Operation.ADD, norm, self.shape.norm_eps * NORM_SHARE, into=norm)
        self.apply(Operation.RECIPROCAL_ROOT, norm, into=norm)
        acts = self.take_acts(matrix)
        for piece in pieces:
            x = self.x.read(tile, piece.start, len(piece))
            gain = self.tensor(len(piece))
            line = self.lines.final_norm if name == "final_norm" else self.lines.of_layer(name)
            index = 0 if name == "final_norm" else LAYER_INDEX
            self.load_vector(gain, line + self.vector_line(piece.start), index)
            y = self.tensor(len(piece), apart=[gain])
            self.apply(Operation.MULTIPLY, x, norm, into=y)
            self.x.done(x)
            self.apply(Operation.MULTIPLY, y, gain, into=y)
            self.release(gain)
            self.convert(y, acts, matrix, piece.start)
            self.release(y)
        return acts

    def pieces(self, held: Held) -> list[range]:
        """Elements that are worked on at a time: all where they and more stay on chip."""
        elements = held.elements
        if self.has_room(held):
            return [range(elements)]
        unit = self.machine.params.group
        rows = self.fp16.depth // 16
        step = max(unit, rows * self.machine.row_values // unit * unit)
        return [range(k, min(k + step, elements)) for k in range(0, elements, step)]

    def has_room(self, held: Held) -> bool:
        """Whether there is room for others as large."""
        return held.resident

    def vector_line(self, first: int) -> int:
        """Lines from the start of a vector to the element of this number."""
        return self.machine.vector_lines(first) if first else 0

    def _bias(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        (y,) = outputs
        matrix = self.plan.matrices[name]
        bias = self.tensor(y.elements, apart=[y])
        line = self.lines.of_layer(f"{name} bias")
        line += part * self.machine.vector_lines(matrix.part)
        self.load_vector(bias, line, LAYER_INDEX)
        self.apply(Operation.ADD, y, bias, into=y)
        self.release(bias)
        return outputs

    def _rotary(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        """Every channel by its cosine, and the channel half a head away by its sine.

        Channels beyond the part's are multiplied by zeros of the tables: they must be finite.
        """
        (x,) = outputs
        y = self.rotated(tile, name, part, x)
        for first in range(0, x.elements, self.lines.rotated):
            row, size = self.machine.row_of(first), min(self.lines.rotated, x.elements - first)
            self._rotate(tile, name, Tensor(x.row + row, size), Tensor(y.row + row, size))
        self.release_guarded(x)
        return [y]

    def _rotate(self, tile: int, name: str, x: Tensor, y: Tensor) -> None:
        shift = self.machine.row_of(self.shape.head_dim // 2)
        scaled = name == "q" and self.lines.rotation_tables > len(ROTATIONS)
        other = self.tensor(x.elements, apart=[y])
        for k, rows in enumerate((0, shift, -shift)):
            at = (len(ROTATIONS) * scaled + k) * self.lines.rotated
            table = self.rotations.read(tile, at, x.elements, apart=[x])
            into = other if k else y
            self.apply(Operation.MULTIPLY, Tensor(x.row + rows, x.elements), table, into=into)
            self.rotations.done(table)
            if k:
                self.apply(Operation.ADD, y, other, into=y)
        self.release(other)

    def rotated(self, tile: int, name: str, part: int, x: Tensor) -> Tensor:
        """Where rotated queries or keys go."""
        if name == "q":
            return self.q.write(tile, self.first_of(name, part), x.elements, apart=[x])
        return self.tensor(x.elements, apart=[x])

    def first_of(self, name: str, part: int) -> int:
        """The first output of a part of a matrix."""
        return self.plan.matrices[name].parts[part].start

    def guarded(self, elements: int) -> Tensor:
        """Room for outputs that are rotated: half a head before and after them is zero."""
        zeros = self.shape.head_dim // 2
        guard, rows = self.machine.row_of(zeros), self.machine.fp16_rows(elements)
        first = self.fp16.take(rows + 2 * guard).first
        for row in (first, first + guard + rows):
            self.load_vector(Tensor(row, zeros), self.lines.zeros)
        return Tensor(first + guard, elements)

    def release_guarded(self, x: Tensor) -> None:
        guard = self.machine.row_of(self.shape.head_dim // 2)
        rows = self.machine.fp16_rows(x.elements)
        self.fp16.give(Place(x.row - guard, x.row + rows + guard))

    def _silu(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        """SiLU(gate) times up, as activations of the next product."""
        gate, up = outputs
        s = self.tensor(gate.elements, apart=[gate])
        self.apply(Operation.MULTIPLY, gate, -1.0, into=s)
        self.apply(Operation.EXPONENTIAL, s, into=s)
        self.apply(Operation.ADD, s, 1.0, into=s)
        self.apply(Operation.RECIPROCAL, s, into=s)
        self.apply(Operation.MULTIPLY, gate, s, into=gate)
        self.release(s)
        self.apply(Operation.MULTIPLY, gate, up, into=gate)
        first = self.first_of(name, part)
        if self.spill < 3:
            self.convert(gate, self.operands[tile], self.plan.matrices["down"], first)
            return outputs
        self.gated.wrote(tile, first, gate)
        return [up]

    def _add(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        """To the token's vector."""
        (y,) = outputs
        first = self.first_of(name, part)
        x = self.x.read(tile, first, y.elements, apart=[y])
        self.apply(Operation.ADD, x, y, into=x)
        self.x.wrote(tile, first, x)
        return outputs

    # Attention, which every machine has in its own way.

    q: Held  # rotated queries
    attended: Held  # results of all heads

    @property
    def sharing(self) -> int:
        """Heads of queries that share keys and values."""
        return self.shape.num_attention_heads // self.shape.num_key_value_heads

    def queries_of(self, head: int) -> range:
        """The heads of queries that share the keys of ``head``."""
        return range(head * self.sharing, (head + 1) * self.sharing)

    def begin_attention(self) -> None:
        """Room that attention has throughout a layer."""
        width = self.shape.query_width
        self.q = Held(self, "queries", width, resident=self.resident_queries)
        self.attended = Held(self, "attended", width, resident=not self.spill)

    @property
    @abstractmethod
    def resident_queries(self) -> bool:
        """Whether queries stay on chip."""

    def end_attention(self) -> None:
        """Give it back."""
        self.q.release()
        self.attended.release()

    @abstractmethod
    def _append(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        """New keys or values into the cache."""

    def _queries(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        self.q.wrote(tile, self.first_of(name, part), outputs[0])
        return []

    @abstractmethod
    def attend(self, tiles: Sequence[int]) -> None:
        """All heads of some tiles."""

    def attended_acts(self, tile: int) -> Place:
        """Results of attention as activations."""
        self.turn_to(tile, "output")
        matrix = self.plan.matrices["output"]
        acts = self.take_acts(matrix)
        for piece in self.pieces(self.attended):
            x = self.attended.read(tile, piece.start, len(piece))
            self.convert(x, acts, matrix, piece.start)
            self.attended.done(x)
        return acts

    def leave(self) -> None:
        """Tokens of the last layer to external memory."""
        for tile in range(len(self.tiles)):
            self.tile = tile
            for piece in self.pieces(self.x):
                x = self.x.read(tile, piece.start, len(piece))
                self.store_tile(x, self.lines.leaving(tile) + self.lines_before(piece.start))
                self.x.done(x)


def encoded(operand: Any) -> tuple[int, int]:
    """Kind and field of a vector operand: a scalar register, a number, or a tensor's row."""
    if isinstance(operand, Scalar):
        return int(Kind.SCALAR), operand.number
    if isinstance(operand, (int, float)):
        return int(Kind.IMMEDIATE), half(operand)
    return int(Kind.TENSOR), operand.row
