"""One matrix product of any size, from external memory to external memory, as a program.

Activations lie converted in external memory, results are stored in fp16. Either a block of token
tiles stays on chip while all weights pass, or a part of the weights while all tokens pass,
whichever takes less time to load. Blocks, or parts, are repetitions of one straight-line body.

While one part of the weights is multiplied, the next is loaded; but each part takes instructions
for every token tile. So programs of a few numbers of parts are counted, and the shortest is it.
"""

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from tilewright.compiler.count import ProgramTime, program_time
from tilewright.compiler.image import Lines
from tilewright.compiler.lowering import Lowering
from tilewright.compiler.machine import Machine
from tilewright.compiler.plan import Plan
from tilewright.compiler.rows import NoRoomError, Place
from tilewright.compiler.schedule import Item, schedule, written
from tilewright.compiler.sizes import Matrix, Step
from tilewright.golden.machine.moves import load_cycles
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape

_ACTS, _WEIGHTS, _RESULTS = 1 << 28, 2 << 28, 3 << 28  # lines where each begins
_BITS = 4  # of a weight
FEW = 3  # repetitions that are counted, and one more, which says how long each further one takes
PARTS = (4, 2, 1)  # of the weights, at least: they have to fit


class Body(NamedTuple):
    """Straight-line code, repeated; lines of each kind move on with every repetition."""

    items: list[Item]
    times: int
    strides: dict[int, int]  # by the first line of a kind


class Product:
    """``rows`` tokens times a matrix in parts."""

    def __init__(self, machine: Machine, rows: int, matrix: Matrix, latency: Any):
        self.machine, self.rows, self.matrix, self.latency = machine, rows, matrix, latency
        self.plan = Plan(machine=machine, shape=_stand_in(machine), context=1)
        self.lines = Lines(self.plan)
        self.tiles = -(-rows // machine.rows)
        self.loads = machine.acts_loads(self.matrix)
        self._turn = 0
        self.part_lines = self.lines.chunk_lines(self.matrix)[1]

    # Lines: activations tile by tile, weights part by part, results by tile and part.

    @property
    def _acts_lines(self) -> int:
        m = self.machine
        return sum(
            m.params.beat_line(m.lines(m.memory(x["memory"]), x["rows"])) for x in self.loads
        )

    @property
    def _result_lines(self) -> int:
        m = self.machine
        return m.params.beat_line(m.tile_lines(self.matrix.part))

    def _result_line(self, tile: int, part: int) -> int:
        return _RESULTS + (tile * len(self.matrix.parts) + part) * self._result_lines

    # Bodies.

    @cached_property
    def bodies(self) -> list[Body]:
        """A block of tokens after the other, or a part of the weights after the other."""
        most, parts = self._most_tiles(), len(self.matrix.parts)
        weights, acts = (
            parts * self._load_cycles(self._part_loads),
            self.tiles * self._load_cycles(self.loads),
        )
        blocks = -(-self.tiles // most)
        if blocks * weights + acts > weights + parts * acts:
            return self._parts()
        for size in range(-(-self.tiles // blocks), 0, -1):
            try:
                return self._blocks(size)
            except NoRoomError:
                continue
        return self._parts()

    @property
    def _part_loads(self) -> list[dict[str, int]]:
        m = self.machine
        rows = self.lines.chunk_rows(self.matrix, self.matrix.chunk)
        memories = (m.weights_memory, m.scales_memory)
        return [{"memory": int(n), "rows": k} for n, k in zip(memories, rows, strict=True)]

    def _load_cycles(self, loads: list[dict[str, int]]) -> int:
        p = self.machine.params
        return sum(load_cycles(p, self.machine.memory(x["memory"]), x["rows"], 1) for x in loads)

    def _most_tiles(self) -> int:
        """Token tiles whose activations fit, with their results where these share the memory."""
        low = self._lowering()
        acts, shared = low.take_acts(self.matrix).rows, low.acts is low.fp16
        results = 2 * self.machine.fp16_rows(self.matrix.part) if shared else 0
        return max(1, min(self.tiles, (low.acts.depth - results) // acts))

    def _lowering(self) -> Lowering:
        low: Lowering = self.machine.lowering(self.plan, self.lines, Step.prompt(0, 1), 1, False)
        return low

    def _blocks(self, size: int) -> list[Body]:
        whole, rest = divmod(self.tiles, size)
        strides = {
            _ACTS: size * self._acts_lines,
            _RESULTS: size * len(self.matrix.parts) * self._result_lines,
        }
        found = [Body(self._block(0, size), whole, strides)]
        if rest:
            found.append(Body(self._block(whole * size, rest), 1, {}))
        return found

    def _block(self, first: int, size: int) -> list[Item]:
        """Some token tiles times all parts."""
        low, tiles = self._lowering(), range(first, first + size)
        acts = {}
        for part in range(len(self.matrix.parts)):
            loaded = self._load_part(low, part)
            for tile in tiles:
                if tile not in acts:
                    acts[tile] = self._load_acts(low, tile)
                self._multiply(low, acts[tile], loaded, tile, part)
            low.give_chunk(loaded)
        return low.code.items

    def _parts(self) -> list[Body]:
        sizes = [len(part) for part in self.matrix.parts]
        whole = sizes.count(sizes[0])
        strides = {_WEIGHTS: self.part_lines, _RESULTS: self._result_lines}
        found = [Body(self._part(0), whole, strides)]
        if whole < len(sizes):
            found.append(Body(self._part(whole), 1, {}))
        return found

    def _part(self, part: int) -> list[Item]:
        """All token tiles times a part."""
        low = self._lowering()
        loaded = self._load_part(low, part)
        for tile in range(self.tiles):
            acts = self._load_acts(low, tile)
            self._multiply(low, acts, loaded, tile, part)
            low.acts.give(acts)
        return low.code.items

    def _load_part(self, low: Lowering, part: int) -> tuple[Place, Place]:
        """Regions other than those of the previous part, which the array is reading."""
        p, m, weights = self.machine.params, self.machine, low.weights
        rows, scales = self.lines.chunk_rows(self.matrix, len(self.matrix.parts[part]))
        align = max(1, p.beat_rows(m.weights_memory), p.beat_rows(m.scales_memory))
        each = -(-self.lines.chunk_rows(self.matrix, self.matrix.chunk)[0] // weights.region)
        first = part % max(1, weights.regions // each) * each
        with weights.within(*range(first, first + each)):
            place = weights.take(rows, align=align)
        own = place if low.scales is weights else low.scales.take(scales, align=align)
        low.move_chunk(self.matrix, _WEIGHTS, part, 0, 0, (place, own))
        return place, own

    def _load_acts(self, low: Lowering, tile: int) -> Place:
        m, line = self.machine, _ACTS + tile * self._acts_lines
        place = low.take_acts(self.matrix)
        for fields in self.loads:
            low.emit("LOAD", row=place.first, line=line, line_index=0, **fields)
            line += m.params.beat_line(m.lines(m.memory(fields["memory"]), fields["rows"]))
        return place

    def _multiply(
        self, low: Lowering, acts: Place, loaded: tuple[Place, Place], tile: int, part: int
    ) -> None:
        """Results go to other regions than those that are stored at that time."""
        self._turn += 1
        with low.fp16.within(low.work_regions[self._turn % len(low.work_regions)]):
            result = low.tensor(len(self.matrix.parts[part]))
        low.multiply(acts, *loaded, result, self.matrix)
        low.store_tile(result, self._result_line(tile, part))
        low.release(result)

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
    products = [Product(machine, rows, matrix, latency) for matrix in matrices]
    return min(products, key=lambda product: product.time.cycles)


def _moved(x: Any, times: int, strides: dict[int, int]) -> Any:
    line = x.fields.get("line")
    stride = 0 if line is None else strides.get(line >> 28 << 28, 0)
    return type(x)(x.opcode, x.fields | {"line": line + times * stride}) if stride else x


def _matrix(machine: Machine, inputs: int, outputs: int, parts: int) -> Matrix:
    """Weights in parts of which the memory holds several."""
    groups, unit, columns = (
        -(-inputs // machine.params.group),
        machine.output_unit,
        machine.params.columns,
    )
    if machine.fp16_rows(columns) * (unit // columns) == machine.fp16_rows(unit):
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
