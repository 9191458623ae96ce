"""Operations on Harmonia: fp16 in one memory, activations in another, operands in a third.

Attention runs on the array. The cache lies in external memory in parts, each in the form of the
operand memories; a context that fits is one part. In a prompt, bank r has the query of token r of
the tile. For a single token, the heads that share keys are loaded to banks of their own, so that
the array multiplies all of them at once; their results return to the token's bank the same way.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tilewright.compiler.attention import attend_parts
from tilewright.compiler.harmonia.machine import CACHED, Cached, HarmoniaMachine
from tilewright.compiler.lowering import (
    CACHE_INDEX,
    Chunk,
    Held,
    Load,
    Lowering,
    Scalar,
    Tensor,
    Vectors,
)
from tilewright.compiler.rows import Place, Rows
from tilewright.compiler.sizes import Matrix, Token
from tilewright.golden.harmonia_machine.isa import CACHED as CACHED_OPERANDS
from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of
from tilewright.golden.params.harmonia_machine import Conversion, Memory, Opcode, Operand, Sums
from tilewright.golden.params.vector import Operation

_FEW_GROUPS = 64  # with fewer, weights of gate and up are loaded faster than SiLU works on results


class Part(NamedTuple):
    """A part of a head's keys or values on chip, low halves after it."""

    tensor: Cached
    number: int
    place: Place

    @property
    def low(self) -> int:
        return self.place.first + self.tensor.part_rows

    def row(self, unit: int) -> int:
        """A unit of the whole cache."""
        within = unit - self.number * self.tensor.part_units
        return self.place.first + within * self.tensor.across

    def slot(self, machine: HarmoniaMachine, unit: int) -> int:
        """The row of a unit's low halves."""
        within = unit - self.number * self.tensor.part_units
        return self.low + machine.params.low_slot(self.tensor.operand, within) * self.tensor.across


class Job(NamedTuple):
    """Queries that see the same keys at once: of tokens of a tile, or of heads of a token."""

    token: Token  # the last that the first bank sees, or the newest
    head: int  # of keys and values
    queries: Place  # activations
    lanes: int
    seen: int  # tokens
    limit: int  # tokens that bank 0 sees where each bank sees one more; 0: all see all
    result: Tensor
    number: int


class HarmoniaLowering(Lowering):
    """Writes a step for Harmonia."""

    machine: HarmoniaMachine
    share: Tensor | None = None  # of a part whose outputs are apart, in every copy's banks

    def __init__(self, *args: Any):
        super().__init__(*args)
        p = self.machine.params
        self.all_lanes = (1 << p.rows) - 1
        self.lanes, self.tokens, self.limit = self.all_lanes, 0, 0
        self._turn = 0
        self.seen = dict(self.step.seen)
        self.part_tokens = self.machine.part_tokens(self.plan)
        self.head_lines = self.machine.head_lines(self.plan)
        self.keys_of = self.machine.cached(self.plan, Operand.KEYS)
        self.values_of = self.machine.cached(self.plan, Operand.VALUES)
        self._cached_beat = max(1, *(p.beat_rows(memory) for memory in CACHED))
        self._parts: dict[tuple[Token, int, str, int], Part] = {}

    def _other_rows(self) -> tuple[Rows, Rows]:
        # Scales lie in the rows of their weights.
        return self.weights, self.machine.rows_of(Memory.MANTISSAS)

    def needs(self, x: Any) -> tuple:
        match x.opcode:
            case Opcode.STORE:
                return ()
            case Opcode.LOAD if x["memory"] != Memory.FP16:
                return ()
            case Opcode.GEMM:
                tokens = self.tokens if x["operand"] in CACHED_OPERANDS else None
                return self.lanes, tokens, None, self.limit if x["maxima"] else None
        return self.lanes, None, None, None

    def banks(self, tile: int) -> int:
        """The lanes of a tile's tokens."""
        return sum(self.copies(bank) for bank in self.tiles[tile])

    def copies(self, bank: int) -> int:
        """The lanes of the token of a bank: where few are shared out, of all in the same place."""
        if not self.shared:
            return 1 << bank
        if len(self.step.tokens) == 1:
            return self.all_lanes
        p = self.machine.params
        return sum(1 << k for k in range(bank, p.rows, p.group_rows))

    # Moves.

    def load_vector(self, into: Tensor, line: int, index: int = 0) -> None:
        self.load_tile(into, line, index)

    @contextmanager
    def written(self, lanes: int) -> Iterator[None]:
        """Write these banks."""
        before, self.lanes = self.lanes, lanes
        yield
        self.lanes = before

    def load_tile(self, into: Tensor, line: int, index: int = 0) -> None:
        with self.written(self.all_lanes):
            super().load_tile(into, line, index)

    def spread(self, into: Tensor, line: int, source: int, lanes: int) -> None:
        """The values of bank ``source`` of a tile to some banks."""
        rows = self.machine.words(into.elements)
        with self.written(lanes):
            self.move("LOAD", Memory.FP16, into.row, rows, line, spread=source + 1)

    def gather(self, held: Held, tile: int, part: range, vectors: Vectors) -> None:
        """Banks without a token hold what the first one's does: its norm exists."""
        into = held.write(tile, part.start, len(part))
        (first, (line, _)), *_ = vectors.items()
        if vectors == {bank: (line, bank) for bank in range(self.machine.rows)}:
            self.load_tile(into, line)
        else:
            for bank, (at, source) in vectors.items():
                self.spread(
                    into, at, source, self.all_lanes if bank == first else self.copies(bank)
                )
        held.wrote(tile, part.start, into)

    # Products.

    def loads(self, matrix: Matrix, outputs: int) -> list[Load]:
        """Groups that fit a region, so that some are loaded while others are multiplied.

        Only a block of a tile for each row group is larger than a region.
        """
        row_groups, region = self.machine.params.row_groups, self.weights.region
        if not self.shared or matrix.groups * row_groups <= region:
            return super().loads(matrix, outputs)
        count = -(-matrix.groups * row_groups // region)
        unit = max(self.beats) // row_groups  # scales of a piece begin at a beat
        each = -(-matrix.groups // count // unit) * unit
        firsts = range(0, matrix.groups, min(each, region // row_groups // unit * unit))
        pieces = [range(k, min(k + firsts.step, matrix.groups)) for k in firsts]
        return [
            Load(
                range(outputs),
                piece,
                (range(piece.start * row_groups, piece.stop * row_groups),),
                continues=piece.start > 0,
                keeps=piece.stop < matrix.groups,
            )
            for piece in pieces
        ]

    def take_chunk(self, cells: int) -> Chunk:
        own = range(self.weights.regions - (not self.shared)) or range(1)
        with self.weights.within(*own):
            place = self.weights.take(cells, align=max(self.beats))
        return place, place

    def take_acts(self, matrix: Matrix, tiles: int = 1) -> Place:
        return self._acts(tiles * matrix.groups)

    def _acts(self, rows: int) -> Place:
        """Rows in another region than the last: the array reads one while another is written."""
        self._turn += 1
        with self.acts.within(self._turn % self.acts.regions):
            return self.acts.take(rows)

    def has_room(self, held: Held) -> bool:
        return held.resident and not (self.shared and self.spill)

    # SiLU of few tokens: where it takes longer than its weights, the banks of each copy of a token
    # have another share of a part, which are then collected by way of external memory.

    def _shares(self, matrix: Matrix, part: int) -> int:
        """How many a part of gate or up has; 1: every bank takes all of its outputs."""
        most = self.machine.params.row_groups
        whole = matrix.groups < _FEW_GROUPS and matrix.groups * most <= self.weights.region
        if not (self.shared and self.spill < 3 and whole) or matrix.name not in ("gate", "up"):
            return 1
        blocks, rest = divmod(len(matrix.parts[part]), self.machine.chunk_unit)
        return 1 if rest else max(k for k in range(1, most + 1) if blocks % k == 0)

    def _multiply_share(
        self, acts: Place, chunk: Chunk, into: Tensor, own: Tensor, matrix: Matrix
    ) -> None:
        """Outputs of a part, of which ``into`` names rows as if no other copy had any."""
        p = self.machine.params
        offset = (into.row - own.row) * p.word_values
        for first in range(offset - offset % own.elements, offset + into.elements, own.elements):
            begin, end = max(first, offset), min(first + own.elements, offset + into.elements)
            if begin < end:
                tiles = (begin - offset) // p.columns
                place = Place(chunk[0].first + tiles * matrix.groups, chunk[0].end)
                row = own.row + self.machine.row_of(begin - first)
                self.copy = first // own.elements
                self.turn_to(self.tile, matrix.name)
                results = Tensor(row, end - begin)
                self._multiply(acts, (place, place), results, groups=matrix.groups, token_tiles=1)
        self.copy = None

    def _collect_shares(self, x: Tensor, acts: Place, matrix: Matrix, first: int) -> None:
        p, line = self.machine.params, self.gated.line(self.tile, first)
        gate = self.plan.matrices["gate"]
        with self.written(self.all_lanes):
            self.store_tile(x, line)
        for copy in range(len(gate.parts[first // gate.part]) // x.elements):
            y = self.tensor(x.elements, apart=[x])
            for bank in self.tiles[self.tile]:
                source = copy * p.group_rows + bank % p.group_rows
                self.spread(y, line, source, self.copies(bank))
            self._convert_copies(y, acts, matrix, first + copy * x.elements)
            self.release(y)

    def convert(self, x: Tensor, acts: Place, matrix: Matrix, first: int = 0) -> None:
        if self.share is not None and matrix.name == "down":
            self._collect_shares(x, acts, matrix, first)
        else:
            self._convert_copies(x, acts, matrix, first)

    def _convert_copies(self, x: Tensor, acts: Place, matrix: Matrix, first: int) -> None:
        each = matrix.groups // matrix.copies
        row = acts.first + first // self.machine.params.group
        for copy in range(matrix.copies):
            self._convert(x, row + copy * each)

    def _convert(self, x: Tensor, row: int) -> None:
        self._conversion(Conversion.ACTIVATIONS, x, row)

    def _conversion(self, kind: Conversion, x: Tensor, destination: int, **fields: int) -> None:
        fields |= {"source": x.row, "elements": x.elements, "destination": destination}
        self.emit("CONVERT", conversion=int(kind), **fields)

    def multiply(
        self, acts: Place, chunk: Chunk, into: Tensor, matrix: Matrix, tiles: int = 1
    ) -> None:
        self._multiply(acts, chunk, into, groups=matrix.groups, token_tiles=tiles)

    def multiply_piece(
        self, acts: Place, chunk: Chunk, into: Tensor, matrix: Matrix, load: Load
    ) -> None:
        if self.share is not None:
            self._multiply_share(acts, chunk, into, self.share, matrix)
            return
        sums = Sums.OPEN * load.keeps | Sums.FURTHER * load.continues
        state = {"register": int(sums)} if sums else {}
        own = Place(acts.first + load.groups.start, acts.end)
        self._multiply(own, chunk, into, groups=len(load.groups), token_tiles=1, **state)

    def _multiply(self, acts: Place, chunk: Chunk, into: Tensor, **fields: int) -> None:
        columns = tiles_of(self.machine.params, into.elements)
        shared = self.shared and columns % self.machine.params.row_groups == 0
        operand = Operand.SHARED if shared else Operand.WEIGHTS
        self._gemm(operand, acts, chunk[0].first, into, tiles=columns, **fields)

    def _gemm(
        self, operand: Operand, acts: Place, operands: int, into: Tensor, **fields: int
    ) -> None:
        fields |= {"operands": operands, "metadata": operands, "destination": into.row}
        self.emit("GEMM", operand=int(operand), source=acts.first, **fields)

    # A layer.

    def turn_to(self, tile: int, name: str) -> None:
        super().turn_to(tile, name)
        self.lanes = self._lanes_of(name, tile)

    def _lanes_of(self, name: str, tile: int) -> int:
        """All banks where a tile is stored with those that have no token: they must be known."""
        if self.copy is not None:
            own = self.machine.params.group_rows
            return (1 << own) - 1 << self.copy * own
        stored = name in ("attention_norm", "k", "v", "q") and self.step.kind != "prompt"
        return self.all_lanes if stored or name in ("final_norm", "head") else self.banks(tile)

    def result(self, matrix: Matrix, part: int, others: Sequence[Tensor]) -> Tensor:
        if matrix.name == "v" and self.new["v"].resident:
            first, size = self.first_of("v", part), len(matrix.parts[part])
            return self.new["v"].write(self.tile, first, size)
        self.share = None
        shares = self._shares(matrix, part)
        if shares > 1:
            self.share = self.tensor(len(matrix.parts[part]) // shares, apart=others)
            return self.share
        return super().result(matrix, part, others)

    # Attention.

    @property
    def _moves_queries(self) -> bool:
        """Whether queries go to banks of their own by way of external memory."""
        return self.step.kind == "batch" or (self.step.kind == "token" and self.sharing > 1)

    @property
    def resident_queries(self) -> bool:
        return not self.spill and not self._moves_queries

    def begin_attention(self) -> None:
        super().begin_attention()
        self.new = {name: self._new_held(name) for name in ("k", "v")}

    def _new_held(self, name: str) -> "New":
        resident = self.step.kind != "batch" and not self.spill
        return New(self, name, self.shape.kv_width, resident=resident)

    def end_attention(self) -> None:
        self.attended.release()

    def rotated(self, tile: int, name: str, part: int, x: Tensor) -> Tensor:
        if name == "k":
            return self.new["k"].write(tile, self.first_of(name, part), x.elements, apart=[x])
        return super().rotated(tile, name, part, x)

    def _append(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        self.new[name].wrote(tile, self.first_of(name, part), outputs[0])
        return []

    def attend(self, tiles: Sequence[int]) -> None:
        heads = range(self.shape.num_key_value_heads)
        number = 0
        for tile, tokens in enumerate(self.tiles):
            if self.step.kind == "prompt" and tile:
                break  # all tiles of a prompt are worked on head by head
            for bank, token in tokens.items():
                if self.step.kind == "prompt" and token != self.step.tokens[0]:
                    continue
                for head in heads:
                    number = self._attend_head(tile, bank, token, head, number)
        self.q.release()
        for held in self.new.values():
            held.release()
        self.lanes, self.tokens, self.limit = self.all_lanes, 0, 0

    def _attend_head(self, tile: int, bank: int, token: Token, head: int, number: int) -> int:
        """Append to the cache of a head, then attend with all queries that share it."""
        self._append_token(tile, bank, token, head)
        channels = self.shape.head_dim
        own = self.queries_of(head)
        if self._moves_queries:
            for first in range(0, self.sharing, self.machine.rows):
                several = own[first : first + self.machine.rows]
                self._attend_heads(tile, bank, token, head, several, number)
                number += 1
        else:
            for query in own:
                for k in range(len(self.tiles)):
                    self.lanes = self.banks(k)
                    x = self.q.read(k, query * channels, channels)
                    result = self.attended.write(k, query * channels, channels)
                    limit = 0
                    if self.step.kind == "prompt":
                        position = next(iter(self.tiles[k].values())).position
                        limit = position // self.machine.rows * self.machine.rows + 1
                    self._attend(token, head, x, result, limit, number)
                    self.q.done(x)
                    self.attended.wrote(k, query * channels, result)
                    number += 1
        self._drop_parts()
        return number

    def _attend_heads(
        self, tile: int, bank: int, token: Token, head: int, queries: range, number: int
    ) -> None:
        """Heads of queries of one token, each in a bank of its own."""
        channels = self.shape.head_dim
        with self.fp16.within(self.work_regions[number % len(self.work_regions)]):
            x, result = self.tensor(channels), self.tensor(channels)
        for k, query in enumerate(queries):
            # Banks without a head hold the first one's: all are known.
            lanes = 1 << k if k else self.all_lanes
            self.spread(x, self.q.line(tile, query * channels), bank, lanes)
        self.lanes = self.all_lanes
        self._attend(token, head, x, result, 0, number)
        line = self.attended_line(tile, bank, queries[0])
        self.store_tile(result, line)
        self.release(x, result)
        if self.step.kind == "batch" and not self.attended.resident:
            return  # results of all tokens are collected when they are converted
        for k, query in enumerate(queries):
            into = self.attended.write(tile, query * channels, channels)
            batch = self.step.kind == "batch"
            self.spread(into, line, k, self.copies(bank) if batch else self.banks(tile))
            self.attended.wrote(tile, query * channels, into)

    def attended_line(self, tile: int, bank: int, query: int) -> int:
        """Results of heads on their way to a token's bank."""
        m, tiles = self.machine, max(1, -(-self.plan.sequences // self.machine.rows))
        first = self.lines.scratch + 2 * tiles * m.tile_lines(self.shape.kv_width)
        number = (tile * m.rows + bank) if self.step.kind == "batch" else 0
        number = number * self.shape.num_attention_heads + query
        return m.params.beat_line(first) + number * m.attended_lines(self.shape)

    # The cache.

    def _seen(self, token: Token) -> int:
        return self.seen[token.sequence]

    def _line(self, token: Token, head: int, name: str) -> int:
        lines = self.head_lines
        return self.lines.cache_of(token.sequence) + head * lines["end"] + lines[name]

    def _append_token(self, tile: int, bank: int, token: Token, head: int) -> None:
        channels, batch = self.shape.head_dim, self.step.kind == "batch"
        tiles = [tile] if batch else range(len(self.tiles))
        keys, values = list[Tensor](), list[Tensor]()
        for k in tiles:
            for name, found in (("k", keys), ("v", values)):
                held = self.new[name]
                if batch:
                    x = self.tensor(channels)
                    lanes = 1 << token.position % self.machine.rows
                    self.spread(x, held.line(k, head * channels), bank, lanes)
                    found.append(x)
                else:
                    found.append(held.read(k, head * channels, channels))
        places = (
            [{token.position % self.machine.rows: token}]
            if batch
            else [self.tiles[k] for k in tiles]
        )
        self._append_key(token, head, keys, places)
        self._append_value(token, head, values, places)
        for name, found in (("k", keys), ("v", values)):
            for x in found:
                self.release(x) if batch else self.new[name].done(x)

    def _append_key(
        self, token: Token, head: int, keys: list[Tensor], tiles: list[dict[int, Token]]
    ) -> None:
        """Offsets from the first step's keys, in fp16; then conversion, less the offsets."""
        m, p, channels = self.machine, self.machine.params, self.shape.head_dim
        words, seen, first = self.machine.words(channels), self._seen(token), token.position == 0
        line = self._line(token, head, "window")
        window = Tensor(self.fp16.take(p.parts * words).first, p.parts * channels)
        self.load_tile(window, line, CACHE_INDEX)
        if first:
            for k, (key, tokens) in enumerate(zip(keys, tiles, strict=True)):
                self.lanes = sum(1 << bank for bank in tokens)
                self.apply(Operation.COPY, key, into=Tensor(window.row + k * words, channels))
            self.store_tile(window, line, CACHE_INDEX)
        self.lanes = self.all_lanes
        for k in range(p.parts):
            ends = {"first": int(k == 0), "last": int(k + 1 == p.parts)}
            self.emit("LEARN", source=window.row + k * words, elements=channels, **ends)
        self.fp16.give(Place(window.row, window.row + p.parts * words))
        unit = token.position // p.columns
        part = self._part(token, head, "k", unit // self.keys_of.part_units)
        changed = {unit}
        for key, tokens in zip(keys, tiles, strict=True):
            position = next(iter(tokens.values())).position
            number = position // p.rows
            self.lanes = sum(1 << bank for bank in tokens)
            below = {"low_halves": part.slot(m, unit), "metadata": part.row(unit)}
            own = number % p.parts
            self._conversion(Conversion.KEYS, key, part.row(unit), **below, part=own)
            leaving = (number * p.rows - p.local) // p.columns
            if leaving >= p.initial_slots(Operand.KEYS) and p.has_low(Operand.KEYS, leaving, seen):
                old = self._part(token, head, "k", leaving // self.keys_of.part_units)
                fields = {"rows": self.keys_of.across, "part": number % p.parts}
                self.emit("CLEAR", low_halves=old.slot(m, leaving), **fields)
                changed.add(leaving)
        self._store_unit(token, head, "k", part, unit)
        for low in changed:
            owner = self._part(token, head, "k", low // self.keys_of.part_units)
            self._store_low(token, head, "k", owner, low)

    def _append_value(
        self, token: Token, head: int, values: list[Tensor], tiles: list[dict[int, Token]]
    ) -> None:
        """The group that is not complete, again, with the newest values."""
        m, p, channels = self.machine, self.machine.params, self.shape.head_dim
        words, loops = self.machine.words(channels), self.machine.params.converter.loops
        line = self._line(token, head, "open")
        opened = Tensor(self.fp16.take(loops * words).first, loops * channels)
        self.load_tile(opened, line, CACHE_INDEX)
        for value, tokens in zip(values, tiles, strict=True):
            number = next(iter(tokens.values())).position // p.rows % loops
            self.lanes = sum(1 << bank for bank in tokens)
            self.apply(Operation.COPY, value, into=Tensor(opened.row + number * words, channels))
        group = token.position // p.group
        part = self._part(token, head, "v", group // self.values_of.part_units)
        places = {"low_halves": part.slot(m, group), "metadata": part.row(group)}
        x, tokens = Tensor(opened.row, channels), self._seen(token) - group * p.group
        self._conversion(Conversion.VALUES, x, part.row(group), **places, tokens=tokens)
        self.store_tile(opened, line, CACHE_INDEX)
        self.fp16.give(Place(opened.row, opened.row + loops * words))
        self._store_unit(token, head, "v", part, group)
        self._store_low(token, head, "v", part, group)

    def _part(self, token: Token, head: int, name: str, number: int) -> Part:
        """A part of a head's keys or values, loaded where it is not on chip."""
        key = token, head, name, number
        if key not in self._parts:
            self._parts[key] = self._load_cached(token, head, name, number)
        return self._parts[key]

    def _drop_parts(self, keep: Iterable[Part] = ()) -> None:
        """Give parts back that are not needed any more."""
        kept = list(keep)
        for key, part in list(self._parts.items()):
            if part not in kept:
                self.weights.give(part.place)
                del self._parts[key]

    def _load_cached(self, token: Token, head: int, name: str, number: int) -> Part:
        m, p = self.machine, self.machine.params
        tensor = self.keys_of if name == "k" else self.values_of
        seen = self._seen(token)
        slots = p.low_slots(tensor.operand) * tensor.across
        size = tensor.part_rows + slots
        # Keys and values of two heads in one region leave the other regions to weights; a larger
        # cache, or one in parts, rotates through all of them.
        small = tensor.parts == 1 and 4 * size <= self.weights.region
        with self.weights.within(*([self.weights.regions - 1] if small else [])):
            part = Part(tensor, number, self.weights.take(size, align=self._cached_beat))
        first = number * tensor.part_units
        units = min(tensor.part_units, -(-seen // tensor.unit) - first)
        rows = -(-units * tensor.across // m.line_rows) * m.line_rows
        begin = self._line(token, head, name) + number * tensor.part_lines
        for memory in CACHED:
            line = begin + tensor.lines[memory]
            self.move("LOAD", memory, part.place.first, rows, line, CACHE_INDEX)
        low_line = self._line(token, head, f"{name} low")
        whole = tensor.across * p.row_bits(Memory.OPERANDS) % p.line_bits == 0
        if not number and whole:
            self.move("LOAD", Memory.OPERANDS, part.low, slots, low_line, CACHE_INDEX)
            return part
        if number:  # the array takes the first units of a part for those of the initial window
            rows = p.initial_slots(tensor.operand) * tensor.across
            with self.written(self.all_lanes):
                for columns in range(p.parts):
                    self.emit("CLEAR", low_halves=part.low, rows=rows, part=columns)
        used = set()
        for unit in range(first, first + units):
            if p.has_low(tensor.operand, unit, seen) or not number:
                slot = p.low_slot(tensor.operand, unit)
                if slot in used:
                    continue
                used.add(slot)
                line = low_line + slot * tensor.low_lines
                row = part.slot(m, unit)
                self.move("LOAD", Memory.OPERANDS, row, tensor.across, line, CACHE_INDEX)
        return part

    def _store_unit(self, token: Token, head: int, name: str, part: Part, unit: int) -> None:
        """High halves, signs and exponents of a unit, in whole lines."""
        tensor, each = part.tensor, self.machine.line_rows
        first = part.row(unit) - part.place.first
        begin = first // each * each
        end = -(-(first + tensor.across) // each) * each
        line = self._line(token, head, name) + part.number * tensor.part_lines
        for memory in CACHED:
            at = line + tensor.lines[memory] + self.machine.lines(memory, begin)
            self.move("STORE", memory, part.place.first + begin, end - begin, at, CACHE_INDEX)

    def _store_low(self, token: Token, head: int, name: str, part: Part, unit: int) -> None:
        tensor, p = part.tensor, self.machine.params
        line = self._line(token, head, f"{name} low")
        line += p.low_slot(tensor.operand, unit) * tensor.low_lines
        row = part.slot(self.machine, unit)
        self.move("STORE", Memory.OPERANDS, row, tensor.across, line, CACHE_INDEX)

    # Streamed softmax.

    def _attend(
        self, token: Token, head: int, x: Tensor, result: Tensor, limit: int, number: int
    ) -> None:
        p, channels = self.machine.params, self.shape.head_dim
        queries = self._acts(groups_of(p, channels))
        self._convert(x, queries.first)
        seen = self._seen(token)
        if limit:
            seen = min(seen, limit - 1 + p.rows)
        job = Job(token, head, queries, self.lanes, seen, limit, result, number)
        attend_parts(self, job, range(-(-seen // self.part_tokens)))
        self.acts.give(queries)
        self.tokens = self.limit = 0

    def _size(self, job: Job, part: int) -> int:
        """Tokens of a part that are seen."""
        each = self.part_tokens
        return min(each, job.seen - part * each)

    def _limit(self, job: Job, part: int) -> int:
        each = self.part_tokens
        if not job.limit or (part + 1) * each < job.seen:
            return 0
        return job.limit - part * each

    def _cached_tokens(self, job: Job, part: int) -> int:
        """Tokens from a part's first on: the array counts windows from there."""
        return self._seen(job.token) - part * self.part_tokens

    def scores(self, job: Job, part: int, top: Scalar) -> Tensor:
        """Products of the queries and a part of the keys; the largest of every bank."""
        p, tensor = self.machine.params, self.keys_of
        keys = self._part(job.token, job.head, "k", part)
        size = self._size(job, part)
        turn = (job.number + part) % len(self.work_regions)
        with self.fp16.within(self.work_regions[turn]):
            scores = self.tensor(size)
        self.tokens, self.limit = self._cached_tokens(job, part), self._limit(job, part)
        fields = {"groups": tensor.across, "tiles": tiles_of(p, size), "low_halves": keys.low}
        fields |= {"maxima": 1, "register": top.number}
        self._gemm(Operand.KEYS, job.queries, keys.place.first, scores, **fields)
        return scores

    def powers(self, job: Job, part: int, scores: Tensor, top: Scalar, total: Scalar) -> None:
        """Powers in place of scores, and their sum."""
        fields = {"causal_limit": self._limit(job, part), "total": total.number}
        self.apply(Operation.POWERS, scores, top, into=scores, **fields)

    def weigh(self, job: Job, part: int, scores: Tensor, into: Tensor) -> None:
        """The powers times a part of the values."""
        p, tensor = self.machine.params, self.values_of
        values = self._part(job.token, job.head, "v", part)
        acts = self._acts(groups_of(p, scores.elements))
        self._convert(scores, acts.first)
        self.tokens, self.limit = self._cached_tokens(job, part), 0
        fields = {"groups": groups_of(p, scores.elements), "tiles": tensor.across}
        fields["low_halves"] = values.low
        self._gemm(Operand.VALUES, acts, values.place.first, into, **fields)
        self.acts.give(acts)
        if self.keys_of.parts > 1:
            self._drop_parts()

    def attended_acts(self, tile: int) -> Place:
        if self.step.kind == "batch" and not self.attended.resident:
            return self._collect(tile)
        return super().attended_acts(tile)

    def _collect(self, tile: int) -> Place:
        """Results of all tokens of a batch as activations, head by head."""
        self.turn_to(tile, "output")
        channels, rows = self.shape.head_dim, self.machine.rows
        matrix = self.plan.matrices["output"]
        acts = self.take_acts(matrix)
        for query in range(self.shape.num_attention_heads):
            head, k = divmod(query, self.sharing)
            first = head * self.sharing + k // rows * rows
            x = self.tensor(channels)
            for bank in self.tiles[tile]:
                line = self.attended_line(tile, bank, first)
                self.spread(x, line, k % rows, self.copies(bank))
            self.convert(x, acts, matrix, query * channels)
            self.release(x)
        return acts


class New(Held):
    """New keys or values of a step."""

    def line(self, tile: int, first: int) -> int:
        low = self.lowering
        number = 2 * tile + (self.name == "v")
        begin = low.lines.scratch + number * low.machine.tile_lines(self.elements)
        return begin + low.lines_before(first)
