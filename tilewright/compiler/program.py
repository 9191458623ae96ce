"""Programs of steps and of the vocabulary head: lowered, scheduled, in a loop over the layers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tilewright.compiler.head import lower_head
from tilewright.compiler.image import Lines
from tilewright.compiler.lowering import CACHE_INDEX, LAYER_INDEX, Lowering
from tilewright.compiler.machine import Machine, SumKind
from tilewright.compiler.rows import NoRoomError
from tilewright.compiler.schedule import Item, dependences, schedule, written
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.moves import Latency
from tilewright.golden.params.block import require
from tilewright.golden.params.machine import LINE_FIELD

FEW_TILES = 2
# Tensors that are spilled, and whether rows are allocated first fit, in the order of preference.
LEVELS = ((0, False), (1, False), (2, False), (3, False), (2, True), (3, True))


@dataclass(frozen=True)
class Program:
    """Instructions, each with the operation that it serves."""

    instructions: list[Any]
    operations: list[str]
    body: range  # those of a layer; of the first where layers are not a loop
    layers: int
    looped: bool

    def __len__(self) -> int:
        return len(self.instructions)

    def with_settings(self, machine: Machine) -> Iterator[Item]:
        """Instructions, each with the settings that it finds."""
        settings = machine.defaults
        for x, operation in zip(self.instructions, self.operations, strict=True):
            if x.opcode.name == "CONFIGURE":
                settings = machine.settings(x)
            yield Item(x, settings, operation)

    def sums(self, machine: Machine) -> tuple[tuple[SumKind, int], ...]:
        """Kinds of sums, and the groups that the array sums in each."""
        sums: dict[SumKind, int] = {}
        for number, item in enumerate(self.with_settings(machine)):
            found = machine.sums(item)
            if found is not None:
                times = self.layers if self.looped and number in self.body else 1
                sums[found[0]] = sums.get(found[0], 0) + times * found[1]
        return tuple(sorted(sums.items()))

    def first_of_layer(self, layer: int) -> int:
        """The first instruction of a layer; of the number of layers, that which follows them."""
        if self.looped and layer < self.layers:
            return self.body.start
        return self.body.start + (1 if self.looped else layer) * len(self.body)


def step_program(
    lines: Lines,
    step: Step,
    embeddings: Sequence[tuple[int, int]] | None = None,
    *,
    latency: Latency,
    layers: int | None = None,
) -> Program:
    """Tokens of a step through all layers, or through ``layers`` of them.

    ``embeddings`` are lines and banks of the tokens' vectors; by default those of token 0.
    """
    plan = lines.plan
    count = plan.shape.num_hidden_layers if layers is None else layers
    vectors = tuple(embeddings or [lines.embedding(0)] * len(step.tokens))
    machine = plan.machine
    sections = _lowered(lines, step, vectors)
    before, body, after = (code.ordered(machine, latency) for code in sections)
    first, first_names = written(machine, before, machine.defaults)
    # A loop's body begins with whatever its end leaves: it sets all that it needs.
    inner, names = written(machine, body, machine.defaults)
    last, last_names = written(machine, after, machine.defaults)
    strides = {LAYER_INDEX: lines.layer, CACHE_INDEX: lines.cache}
    begin = len(first)
    looped = len(inner) <= machine.params.longest_loop
    if looped:
        loop = {"count": count, "body": len(inner), "stride3": 0}
        loop |= {"stride1": strides[LAYER_INDEX], "stride2": strides[CACHE_INDEX]}
        loop_instruction = machine.instruction(machine.opcode["LOOP"], loop)
        instructions = [*first, loop_instruction, *inner]
        operations = [*first_names, "", *names]
        begin += 1
    else:
        instructions, operations = list(first), list(first_names)
        for layer in range(count):
            instructions += [_of_layer(x, layer, strides) for x in inner]
            operations += names
    instructions += [*last, machine.instruction(machine.opcode["HALT"], {})]
    operations += [*last_names, ""]
    own = range(begin, begin + len(inner))
    return Program(instructions, operations, own, count, looped)


def _of_layer(x: Any, layer: int, strides: dict[int, int]) -> Any:
    """An instruction of a layer's body, for one layer."""
    index = x.fields.get("line_index", 0)
    return at_line(x, x.fields["line"] + layer * strides[index]) if index else x


def at_line(x: Any, line: int) -> Any:
    """A load or store of another line of external memory, without an index register."""
    require(line < 1 << LINE_FIELD, f"external memory has no line {line}")
    # The other fields are valid: checking them again takes as long as all the rest.
    made = object.__new__(type(x))
    made.__dict__.update(opcode=x.opcode, fields=x.fields | {"line": line, "line_index": 0})
    made.__dict__["origin"] = None
    return made


class _Straight(NamedTuple):
    """Straight-line code in the plain order, with the dependences of each instruction."""

    items: list[Item]
    before: list[set[int]]

    @classmethod
    def of(cls, machine: Machine, items: list[Item]) -> "_Straight":
        return cls(items, dependences(machine, items))

    def ordered(self, machine: Machine, latency: Latency) -> list[Item]:
        counts = machine.counts_itself
        order = schedule(machine, self.items, latency, self.before, counts_itself=counts)
        return [self.items[k] for k in order]


@lru_cache(maxsize=16)  # other latencies and bandwidths have the same
def _lowered(lines: Lines, step: Step, vectors: tuple[tuple[int, int], ...]) -> list[_Straight]:
    """Entry, the body of a layer and exit, in the plain order, whatever the latency."""
    low = _fitting(lines, step, vectors)
    return [_Straight.of(lines.plan.machine, items) for items in low.sections]


def _fitting(lines: Lines, step: Step, vectors: Sequence[tuple[int, int]]) -> Lowering:
    """The lowering with the most tiles that share weights, with tensors on chip where they fit."""
    plan, problem = lines.plan, None
    tiles = len(plan.machine.tiles(step))
    sizes = [k for k in range(tiles, 0, -1) if k == tiles or k & (k - 1) == 0]
    # Many tiles that stay leave no room in which units work on others at the same time.
    for spill, compact in LEVELS if tiles <= FEW_TILES else LEVELS[2:]:
        for together in sizes:
            low = plan.machine.lowering(plan, lines, step, together, spill)
            for memory in (low.fp16, low.weights, low.scales, low.acts):
                memory.compact = compact
            try:
                low.sections = _sections(low, vectors)
            except NoRoomError as error:
                problem = error
                continue
            return low
    raise ValueError(f"{plan.shape.name} on {plan.machine.params.slug}: {problem}")


def _sections(
    low: Lowering, vectors: Sequence[tuple[int, int]]
) -> tuple[list[Item], list[Item], list[Item]]:
    """Entry, a layer, exit.

    The first weights of a layer are loaded by the layer before it, or on entry.
    """
    matrix, lines = low.plan.matrices["k"], low.lines
    found = []
    with low.operation("enter"):
        low.enter(vectors)
        load, *_ = low.loads(matrix, len(matrix.chunks(0)[0]))
        first = low.take_chunk(sum(map(len, load.cells)))
        low.move_chunk(matrix, lines.of_layer("k"), 0, 0, 0, first, load)
    found.append(_taken(low))
    low.first_chunk = first
    low.layer()
    with low.operation("next layer"):
        low.take_chunk_at(first)
        line = lines.layer + lines.of_layer("k")  # after the last layer this is the head, unused
        low.move_chunk(matrix, line, 0, 0, LAYER_INDEX, first, load)
    found.append(_taken(low))
    with low.operation("leave"):
        low.leave()
    found.append(_taken(low))
    return found[0], found[1], found[2]


def _taken(low: Lowering) -> list[Item]:
    items, low.code.items = low.code.items, []
    return items


@lru_cache(maxsize=64)
def _lowered_head(lines: Lines, tile: int, parts: int | None, few: int) -> _Straight:
    """No position of a token matters: one stands for all."""
    machine = lines.plan.machine
    low = machine.lowering(lines.plan, lines, Step.prompt(0, 1), 1, 2)
    low.shared = few
    lower_head(low, tile, parts)
    return _Straight.of(machine, _taken(low))


def head_program(
    lines: Lines, tile: int = 0, *, latency: Latency, parts: int | None = None, few: int = 0
) -> Program:
    """Logits and choices of a token tile that has left the last layer.

    ``few``: after a step whose tokens are shared out, ``Machine.few``.
    """
    machine = lines.plan.machine
    ordered = _lowered_head(lines, tile, parts, few).ordered(machine, latency)
    instructions, operations = written(machine, ordered, machine.defaults)
    halt = machine.instruction(machine.opcode["HALT"], {})
    return Program([*instructions, halt], [*operations, ""], range(0), 1, False)
