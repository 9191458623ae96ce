"""One matrix product of any size, from external memory to external memory, as a program.

Activations lie converted in external memory, results are stored in fp16. Either a block of token
tiles stays on chip while all weights pass, or a part of the weights while all tokens pass,
whichever takes less time to load. As many blocks, or parts, as have some hundred instructions are
straight-line code, in which the loads of one overlap with the products of another; the others are
repetitions of it.

While one part of the weights is multiplied, the next is loaded; but each part takes instructions
for all tokens. Token tiles that are loaded, multiplied and stored together take fewer instructions,
but nothing of them overlaps. So programs of a few numbers of parts and of tiles are counted, and
the shortest is it.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from tilewright.compiler.count import ProgramTime, program_time
from tilewright.compiler.image import Lines
from tilewright.compiler.lowering import Chunk, Lowering, Tensor
from tilewright.compiler.machine import Machine
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import at_line
from tilewright.compiler.rows import NoRoomError, Place, Rows
from tilewright.compiler.schedule import Item, schedule, written
from tilewright.compiler.sizes import Matrix, Step
from tilewright.golden.machine.moves import Move, load_cycles
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape

_ACTS, _WEIGHTS, _RESULTS = 1 << 28, 2 << 28, 3 << 28  # lines where each begins
_BITS = 4  # of a weight
ITEMS = 400  # instructions of a body, unless a block has more
FEW = 3  # repetitions that are counted, and one more, which says how long each further one takes
PARTS = (8, 4, 2, 1)  # of the weights, at least: they have to fit
TILES = (1, 2, 4, 8, 16)  # token tiles that are loaded, multiplied and stored together


class Body(NamedTuple):
    """Straight-line code, repeated; lines of each kind move on with every repetition."""

    items: list[Item]
    times: int
    strides: dict[int, int]  # by the first line of a kind


class Product:
    """``rows`` tokens times a matrix in parts; ``together`` token tiles are moved at once."""

    def __init__(self, machine: Machine, rows: int, matrix: Matrix, latency: Any, together: int):
        self.machine, self.rows, self.matrix, self.latency = machine, rows, matrix, latency
        self.together = together
        self.plan = Plan(machine=machine, shape=_stand_in(machine), context=1)
        self.lines = Lines(self.plan)
        self.tiles = -(-rows // machine.rows)
        self.spans = [
            range(first, min(self.tiles, first + together))
            for first in range(0, self.tiles, together)
        ]
        self.loads = machine.acts_loads(self.matrix)
        self._turn = 0
        self.part_lines = self.lines.chunk_lines(self.matrix)[1]

    # Lines: activations span by span, weights part by part, results by span and part.

    @property
    def _acts_lines(self) -> int:
        m = self.machine
        return sum(
            m.params.beat_line(m.lines(m.memory(x["memory"]), self.together * x["rows"]))
            for x in self.loads
        )

    @property
    def result_lines(self) -> int:
        m = self.machine
        rows = self.together * m.fp16_rows(self.matrix.part)
        return m.params.beat_line(m.lines(m.fp16_memory, rows))

    def _result_line(self, span: int, part: int) -> int:
        return _RESULTS + (span * len(self.matrix.parts) + part) * self.result_lines

    # Bodies.

    @cached_property
    def bodies(self) -> list[Body]:
        """A block of tokens after the other, or a part of the weights after the other."""
        most, parts, spans = self._most_spans(), len(self.matrix.parts), len(self.spans)
        weights, acts = (
            parts * self._load_cycles(self._part_loads),
            self.tiles * self._load_cycles(self.loads),
        )
        blocks = -(-spans // most)
        if blocks * weights + acts > weights + parts * acts:
            return self._parts()
        for size in range(-(-spans // blocks), 0, -1):
            try:
                return self._blocks(size)
            except NoRoomError:
                continue
        return self._parts()

    @property
    def fits(self) -> bool:
        try:
            return bool(self.bodies)
        except NoRoomError:
            return False

    @property
    def _part_loads(self) -> list[dict[str, int]]:
        m = self.machine
        rows = self.lines.chunk_rows(self.matrix, self.matrix.chunk)
        memories = (m.weights_memory, m.scales_memory)
        return [{"memory": int(n), "rows": k} for n, k in zip(memories, rows, strict=True)]

    def _load_cycles(self, loads: list[dict[str, int]]) -> int:
        p = self.machine.params
        moves = (Move(self.machine.memory(x["memory"]), x["rows"]) for x in loads)
        return sum(load_cycles(p, move, 1) for move in moves)

    def _most_spans(self) -> int:
        """Spans whose activations fit, with their results where these share the memory."""
        low = self._lowering()
        acts, shared = low.take_acts(self.matrix, self.together).rows, low.acts is low.fp16
        results = 2 * self.together * self.machine.fp16_rows(self.matrix.part) if shared else 0
        return max(1, min(len(self.spans), (low.acts.depth - results) // acts))

    def _lowering(self) -> Lowering:
        low: Lowering = self.machine.lowering(self.plan, self.lines, Step.prompt(0, 1), 1, False)
        return low

    def _blocks(self, size: int) -> list[Body]:
        """Some spans times all parts; then the next ones."""

        def write(low: Lowering, block: int) -> None:
            acts, last = dict[int, Place](), len(self.matrix.parts) - 1
            for part in range(last + 1):
                loaded = self._load_part(low, part)
                for span in range(block * size, min(len(self.spans), (block + 1) * size)):
                    if not part:
                        acts[span] = self._load_acts(low, span)
                    self._multiply(low, acts[span], loaded, span, part)
                    if part == last:
                        low.acts.give(acts[span])
                low.give_chunk(loaded)

        results = size * len(self.matrix.parts) * self.result_lines
        strides = {_ACTS: size * self._acts_lines, _RESULTS: results}
        whole = self.tiles // self.together // size
        return self._repeated(write, whole, -(-len(self.spans) // size), strides)

    def _parts(self) -> list[Body]:
        """All spans times a part; then the next one."""

        def write(low: Lowering, part: int) -> None:
            loaded = self._load_part(low, part)
            for span in range(len(self.spans)):
                acts = self._load_acts(low, span)
                self._multiply(low, acts, loaded, span, part)
                low.acts.give(acts)
            low.give_chunk(loaded)

        sizes = [len(part) for part in self.matrix.parts]
        strides = {_WEIGHTS: self.part_lines, _RESULTS: self.result_lines}
        return self._repeated(write, sizes.count(sizes[0]), len(sizes), strides)

    def _repeated(
        self,
        write: Callable[[Lowering, int], None],
        whole: int,
        count: int,
        strides: dict[int, int],
    ) -> list[Body]:
        """``count`` blocks or parts, of which ``whole`` are equal, a few in a body."""

        def code(numbers: range) -> list[Item]:
            low = self._lowering()
            self._turn = 0
            for number in numbers:
                write(low, number)
            return low.code.items

        each = max(1, ITEMS // len(code(range(1))))
        if each >= count:
            return [Body(code(range(count)), 1, {})]
        times = whole // each
        found = [Body(code(range(each)), times, {k: each * n for k, n in strides.items()})]
        if times * each < count:
            found.append(Body(code(range(times * each, count)), 1, {}))
        return found

    def _load_part(self, low: Lowering, part: int) -> Chunk:
        """Regions other than those of the previous part, which the array is reading."""
        align = max(low.beats)

        def take(memory: Rows, count: int, most: int) -> Place:
            each = -(-most // memory.region)
            first = part % max(1, memory.regions // each) * each
            with memory.within(*range(first, first + each)):
                return memory.take(count, align=align)

        sizes = len(self.matrix.parts[part]), self.matrix.chunk
        weights, scales = zip(*(self.lines.chunk_rows(self.matrix, n) for n in sizes), strict=True)
        place = take(low.weights, *weights)
        own = place if low.scales is low.weights else take(low.scales, *scales)
        (load,) = low.loads(self.matrix, sizes[0])
        low.move_chunk(self.matrix, _WEIGHTS, part, 0, 0, (place, own), load)
        return place, own

    def _load_acts(self, low: Lowering, span: int) -> Place:
        m, line, tiles = self.machine, _ACTS + span * self._acts_lines, len(self.spans[span])
        place = low.take_acts(self.matrix, tiles)
        for fields in self.loads:
            rows = tiles * fields["rows"]
            load = fields | {"row": place.first, "rows": rows, "line": line, "line_index": 0}
            low.emit("LOAD", **load)
            line += m.params.beat_line(m.lines(m.memory(fields["memory"]), rows))
        return place

    def _multiply(self, low: Lowering, acts: Place, loaded: Chunk, span: int, part: int) -> None:
        """Results go to other regions than those that are stored at that time."""
        m, tiles, size = self.machine, len(self.spans[span]), len(self.matrix.parts[part])
        each = m.fp16_rows(size)
        self._turn += 1
        with low.fp16.within(low.work_regions[self._turn % len(low.work_regions)]):
            place = low.fp16.take(tiles * each)
        low.multiply(acts, loaded, Tensor(place.first, size), self.matrix, tiles)
        rows = (tiles - 1) * each + m.words(size)
        low.move("STORE", m.fp16_memory, place.first, rows, self._result_line(span, part))
        low.fp16.give(place)

    # Programs.

    @cached_property
    def _scheduled(self) -> list[list[Any]]:
        machine, found = self.machine, []
        for body in self.bodies:
            order = schedule(machine, body.items, self.latency, counts_itself=False)
            found.append(written(machine, [body.items[k] for k in order], machine.defaults)[0])
        return found

    def program(self, most: int | None = None) -> list[Any]:
        """Instructions, with a limited number of repetitions of a body."""
        machine, found = self.machine, []
        for body, instructions in zip(self.bodies, self._scheduled, strict=True):
            for k in range(body.times if most is None else min(most, body.times)):
                found += [_moved(x, k, body.strides) for x in instructions] if k else instructions
        return [*found, machine.instruction(machine.opcode["HALT"], {})]

    @cached_property
    def time(self) -> ProgramTime:
        """Cycles; of many repetitions the first few are counted, as of layers."""
        count = self.bodies[0].times
        few = program_time(self.machine, self.program(FEW), self.latency)
        if count <= FEW:
            return few
        more = program_time(self.machine, self.program(FEW + 1), self.latency)
        return few.plus(more.plus(few, -1), count - FEW)


def best_product(machine: Machine, rows: int, inputs: int, outputs: int, latency: Any) -> Product:
    """``rows`` tokens of ``inputs`` values times weights with ``outputs`` outputs."""
    matrices = dict.fromkeys(_matrix(machine, inputs, outputs, parts) for parts in PARTS)
    spans = dict.fromkeys(min(tiles, -(-rows // machine.rows)) for tiles in TILES)
    products = [Product(machine, rows, x, latency, tiles) for tiles in spans for x in matrices]
    fit = [product for product in products if product.fits]
    return min(fit or products[:1], key=lambda product: product.time.cycles)


def _moved(x: Any, times: int, strides: dict[int, int]) -> Any:
    line = x.fields.get("line")
    stride = 0 if line is None else strides.get(line >> 28 << 28, 0)
    return at_line(x, line + times * stride) if stride else x


def _matrix(machine: Machine, inputs: int, outputs: int, parts: int) -> Matrix:
    """Weights in parts of which the memory holds several."""
    groups, unit, columns = (
        -(-inputs // machine.params.group),
        machine.output_unit,
        machine.params.columns,
    )
    whole = machine.fp16_rows(columns) * (unit // columns) == machine.fp16_rows(unit)
    if whole and machine.weight_tiles(columns) == 1:
        unit = columns  # results of a tile of columns fill whole rows
    rows = machine.tile_weight_rows(groups) * (unit // columns)
    require(
        rows <= machine.most_part_rows,
        f"{inputs} inputs of {unit} outputs do not fit the weights' memory of"
        f" {machine.params.slug}",
    )
    half = machine.params.depth(machine.weights_memory) // 2
    units = min(max(1, half // rows), -(-outputs // (unit * parts)))
    return Matrix("gate", outputs, inputs, _BITS, groups, units * unit, units * unit)


@lru_cache(maxsize=8)
def _stand_in(machine: Machine) -> LlmShape:
    """The smallest model that the machine takes: only its lowering of products is needed."""
    for size in (machine.params.group << k for k in range(8)):
        shape = LlmShape(
            model_type="llama",
            name="product",
            hidden_size=size,
            intermediate_size=size,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=size,
            vocab_size=size,
            max_position_embeddings=1,
        )
        try:
            machine.check_shape(shape)
        except ValueError as error:
            problem = error
        else:
            return shape
    raise problem
