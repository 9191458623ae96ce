"""Operations on Anda: everything is in one buffer; attention is fp16 on the vector lanes.

Three arrangements of attention. A single token is the same in all banks: bank r holds the keys of
tokens r, r + ``rows``, ..., each bank has a softmax of its own, and the banks' sums are merged as
the parts of a streamed softmax are, through external memory, from which they return to every bank.
A batch is the same, token by token. In a prompt, bank r has the query of token r, and keys are
loaded to every bank.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tilewright.compiler.anda.machine import AndaMachine
from tilewright.compiler.graph import Attend
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
from tilewright.golden.anda_machine.isa import GEMMS
from tilewright.golden.params.anda_machine import FP16_ROWS, Memory, Opcode, group_rows
from tilewright.golden.params.vector import Operation

LEAST = -60000.0  # a bank without tokens has this as its largest score
_TOP, _SUM, _OWN = Scalar(0), Scalar(1), Scalar(5)
_MERGED_TOP, _MERGED_SUM = Scalar(2), Scalar(3)
_BLOCKS, _BLOCK_ROWS = 4, 256  # blocks of a context, and rows of a block at most


class Copies(NamedTuple):
    """Words of all banks, in every bank."""

    place: Place
    step: int  # beats from a word to the next of the same bank
    bank: int  # rows from a bank's words to those of the next

    def row(self, bank: int) -> int:
        """The first word of a bank."""
        return self.place.first + bank * self.bank

    def word(self, number: int) -> int:
        """A word of the first bank."""
        return self.place.first + number * self.step


class AndaLowering(Lowering):
    """Writes a step for Anda."""

    machine: AndaMachine
    _turn = 0  # region of the last block of a cache
    _attended = 0  # tokens times heads: every other one is merged elsewhere

    @property
    def beat_words(self) -> int:
        return self.machine.params.beat_words

    def _other_rows(self) -> tuple[Rows, Rows]:
        return self.machine.rows_of(Memory.SCALES), self.fp16

    def needs(self, x: Any) -> tuple:
        if x.opcode in GEMMS:
            return self._mantissa, 0
        return (None, self._mantissa) if x.opcode is Opcode.COMPRESS else ()

    # Moves.

    def load_vector(self, into: Tensor, line: int, index: int = 0) -> None:
        words = self.machine.words(into.elements)
        self.move("LOAD", Memory.BROADCAST, into.row, words, line, index)

    def gather(self, held: Held, tile: int, part: range, vectors: Vectors) -> None:
        """Banks without a token hold what the last one's does: zeros may have no norm."""
        into, last = held.write(tile, part.start, len(part)), max(vectors)
        if self.step.kind == "token":
            self.load_vector(into, vectors[0][0])
        else:
            for k, (bank, (line, _)) in enumerate(vectors.items()):
                vector = self.tensor(len(part), apart=[into])
                self.load_vector(vector, line)
                most = self.shared or self.machine.rows
                self._of(range(bank, most if bank == last else bank + 1))
                self.apply(Operation.MULTIPLY, vector, _OWN, into=vector if k else into)
                if k:
                    self.apply(Operation.ADD, into, vector, into=into)
                self.release(vector)
        held.wrote(tile, part.start, into)

    def _own(self, banks: range) -> None:
        """One in some banks, else zero."""
        # Beats with a one in a single bank follow the one with ones in all.
        first = self.ones + (1 + banks.start) * self.beat_words
        rows = Tensor(first, len(banks) * self.machine.beat_values)
        self.apply(Operation.LARGEST, rows, into=_OWN)

    def _of(self, tokens: range) -> None:
        """One in the banks of some tokens of a tile, else zero."""
        copies = self.machine.rows + self.shared - 2 if self.shared > 1 else 0
        self._own(range(copies + tokens.start, copies + tokens.stop))

    def enter(self, embeddings: Sequence[tuple[int, int]]) -> None:
        rows = len(self.machine.owners) * self.beat_words
        with self.fp16.within(self.fp16.regions - 1):
            self.ones = self.fp16.take(rows + FP16_ROWS).first
        self.move("LOAD", Memory.ACTIVATIONS, self.ones, rows, self.lines.constants)
        super().enter(embeddings)
        if self.shared > 1:
            self._choices = [self._choice(bank) for bank in self.tiles[0]]

    def _choice(self, bank: int) -> Tensor:
        """In every bank, one as the element of this number, else zero."""
        with self.fp16.within(self.aside):
            x = self.tensor(self.shared)
        single = self.ones + (1 + bank) * self.beat_words
        self._sums(Operation.DOTS, single, self.ones, x.row, 1, results=self.shared, across=1)
        return x

    def _chosen(self, x: Tensor, bank: int) -> Tensor:
        """In every bank, what one of few tokens has in its own."""
        into = self.tensor(x.elements, apart=[x])
        fields = {"results": self.machine.beats(x.elements), "across": 1}
        choice = self._choices[bank]
        self._sums(Operation.WEIGH, x.row, choice.row, into.row, self.shared, **fields)
        return into

    # Products.

    def take_acts(self, matrix: Matrix, tiles: int = 1) -> Place:
        with self.fp16.within(0):
            return self.fp16.take(tiles * self.machine.planes(matrix))

    def convert(self, x: Tensor, acts: Place, matrix: Matrix, first: int = 0) -> None:
        self._mantissa = self.machine.mantissa(matrix)
        each = acts.rows // matrix.copies
        row = acts.first + first // self.machine.params.group * group_rows(self._mantissa)
        for copy in range(matrix.copies):
            self.emit("COMPRESS", source=x.row, destination=row + copy * each, elements=x.elements)

    def multiply(
        self, acts: Place, chunk: Chunk, into: Tensor, matrix: Matrix, tiles: int = 1
    ) -> None:
        m = self.machine
        for tile in range(tiles):
            row = into.row + tile * m.fp16_rows(into.elements)
            source = acts.first + tile * m.planes(matrix)
            self._gemm("GEMM", source, chunk, Tensor(row, into.elements), matrix, matrix.groups)

    def _gemm(
        self,
        opcode: str,
        source: int,
        chunk: Chunk,
        into: Tensor,
        matrix: Matrix,
        groups: int,
        **fields: int,
    ) -> None:
        weights, scales = chunk
        self._mantissa = self.machine.mantissa(matrix)
        fields |= {"weights": weights.first, "scales": scales.first, "destination": into.row}
        inputs = groups * self.machine.params.group
        self.emit(opcode, source=source, inputs=inputs, outputs=into.elements, **fields)

    def multiply_piece(
        self, acts: Place, chunk: Chunk, into: Tensor, matrix: Matrix, load: Load
    ) -> None:
        if not self.shared:
            self.multiply(acts, chunk, into, matrix)
            return
        source = acts.first + load.groups.start * group_rows(self.machine.mantissa(matrix))
        fields = {
            "span": self.shared.bit_length() - 1,
            "continues": int(load.continues),
            "keeps": int(load.keeps),
        }
        self._gemm("SHARED_GEMM", source, chunk, into, matrix, len(load.groups), **fields)

    def loads(self, matrix: Matrix, outputs: int) -> list[Load]:
        """A chunk in pieces: shared, one piece of each pass after the other; else block after
        block."""
        pieces, tiles = matrix.pieces, self.machine.params.block_tiles
        if len(pieces) == 1:
            return super().loads(matrix, outputs)
        block = tiles * self.machine.params.columns
        blocks = -(-outputs // block)

        def cells(piece: range, some: range) -> range:
            first = blocks * piece.start + some.start * len(piece)
            return range(tiles * first, tiles * (first + len(some) * len(piece)))

        each = self.machine.rows // self.shared // tiles if self.shared else 1
        found = []
        for b in range(0, blocks, each):
            own = range(b * block, min(outputs, (b + each) * block))
            lie = [cells(p, range(b, min(blocks, b + each))) for p in pieces]
            if self.shared:
                found += [
                    Load(own, p, (x,), p.start > 0, p.stop < matrix.groups)
                    for p, x in zip(pieces, lie, strict=True)
                ]
            else:
                found.append(Load(own, range(matrix.groups), tuple(lie)))
        return found

    # Attention.

    @property
    def resident_queries(self) -> bool:
        # Wider vectors would leave too few regions to stream keys and values through.
        narrow = 4 * self.machine.fp16_rows(self.shape.query_width) <= self.fp16.region
        return not self.spill and narrow and self.step.kind != "batch"

    @property
    def aside(self) -> int:
        """The region of vectors that attention works on; blocks of the cache have the others."""
        return self.fp16.regions - 1

    def _heads_of(self, name: str, part: int) -> range:
        outputs = self.plan.matrices[name].parts[part]
        return range(outputs.start // self.shape.head_dim, outputs.stop // self.shape.head_dim)

    def _append(self, tile: int, name: str, part: int, outputs: list[Tensor]) -> list[Tensor]:
        (new,) = outputs
        tokens = self.tiles[tile]
        match self.step.kind:
            case "token":
                self._join(new, name, self._heads_of(name, part), tokens[0])
            case "prompt":
                self._whole(new, name, self._heads_of(name, part), tokens)
            case "batch" if self.shared:
                for bank, token in tokens.items():
                    one = self._chosen(new, bank)
                    self._join(one, name, self._heads_of(name, part), token)
                    self.release(one)
            case "batch":  # copied to every bank, head by head, when the head is attended to
                first = self.lines_before(self.first_of(name, part))
                self.store_tile(new, self._new_line(tile, name) + first)
        return outputs

    def _new_line(self, tile: int, name: str) -> int:
        """New keys or values of a tile, one of every sequence."""
        m, number = self.machine, 2 * tile + (name == "v")
        first = self.lines.scratch + 2 * self.sharing * m.merged_lines(self.shape)
        return first + number * m.tile_lines(self.shape.kv_width)

    def _cache_line(self, token: Token, name: str, head: int, tile: int) -> int:
        """A tile of tokens of a head's keys or values."""
        m = self.machine
        number = 2 * head + (name == "v")
        first = self.lines.cache_of(token.sequence) + number * m.head_lines(self.plan)
        return first + tile * m.cached_tile(self.plan)

    def _join(self, new: Tensor, name: str, heads: range, token: Token) -> None:
        """A token's keys or values, the same in all banks, to their bank of the last tile."""
        words = self.machine.words(self.shape.head_dim)
        tile, bank = divmod(token.position, self.machine.rows)
        kept = self.tensor(new.elements, apart=[new])
        self._own(range(bank, bank + 1))
        self.apply(Operation.MULTIPLY, new, _OWN, into=kept)
        lines = [self._cache_line(token, name, head, tile) for head in heads]
        if bank:
            old = self.tensor(new.elements, apart=[kept])
            for k, line in enumerate(lines):
                row = old.row + k * words
                self.move("LOAD", Memory.ACTIVATIONS, row, words, line, CACHE_INDEX)
            self.apply(Operation.ADD, kept, old, into=kept)
            self.release(old)
        for k, line in enumerate(lines):
            self.move("STORE", Memory.ACTIVATIONS, kept.row + k * words, words, line, CACHE_INDEX)
        self.release(kept)

    def _whole(self, new: Tensor, name: str, heads: range, tokens: dict[int, Token]) -> None:
        """A tile of a prompt as it lies, with zeros in banks that have no token."""
        words, source = self.machine.words(self.shape.head_dim), new
        if len(tokens) < self.machine.rows:
            source = self.tensor(new.elements, apart=[new])
            self._own(range(len(tokens)))
            self.apply(Operation.MULTIPLY, new, _OWN, into=source)
        tile = tokens[0].position // self.machine.rows
        for k, head in enumerate(heads):
            line = self._cache_line(tokens[0], name, head, tile)
            self.move("STORE", Memory.ACTIVATIONS, source.row + k * words, words, line, CACHE_INDEX)
        if source is not new:
            self.release(source)

    def layer(self) -> None:
        """Tokens that are shared out attend with the first heads while others are multiplied."""
        if not self.shared:
            super().layer()
            return
        graph = list(self.plan.graph)
        middle = next(k for k, op in enumerate(graph) if isinstance(op, Attend))
        norm, *products = graph[:middle]
        ops = {op.weights[0]: op for op in products}
        matrices = self.plan.matrices
        self.begin_attention()
        with self.operation(norm.name):
            acts = [self.norm(norm.name, 0, matrices["k"])]

        def multiply(name: str, part: int) -> None:
            regions = self.work_regions
            with self.operation(ops[name].name), self.fp16.within(regions[part % len(regions)]):
                then = self._after(ops[name])
                self._product_part([name], [matrices[name]], acts, [0], part, then)

        queries = 0
        for part in range(len(matrices["k"].parts)):
            multiply("k", part)
            multiply("v", part)
            heads = self._heads_of("k", part)
            while queries < len(matrices["q"].parts) and (
                self._heads_of("q", queries).start < heads.stop * self.sharing
            ):
                multiply("q", queries)
                queries += 1
            with self.operation("attention"):
                self._attend_few(heads)
        self.acts.give(acts[0])
        self._run(graph[middle + 1 :], [0])
        self.end_attention()

    def attend(self, tiles: Sequence[int]) -> None:
        if self.step.kind == "prompt":
            self._attend_prompt(tiles)
            return
        for tile in tiles:
            self.tile, tokens = tile, self.tiles[tile]
            if self.step.kind == "token":
                self._attend_alone(tokens[0], range(self.shape.num_key_value_heads))
            else:
                self._attend_batch(tile, tokens)

    def _attend_alone(self, token: Token, heads: range) -> None:
        channels = self.shape.head_dim
        for head in heads:
            own = self.queries_of(head)
            queries = [(self.q.read(0, k * channels, channels).row, 1) for k in own]
            results = [self.attended.write(0, k * channels, channels) for k in own]
            self._attend_token(token, head, queries, results)
            for k, result in zip(own, results, strict=True):
                self.attended.wrote(0, k * channels, result)

    def _attend_few(self, heads: range) -> None:
        """Token by token, each the same in all banks while it attends."""
        channels = self.shape.head_dim
        for head in heads:
            own = self.queries_of(head)
            queries = [self.q.read(0, k * channels, channels) for k in own]
            results = [self.attended.write(0, k * channels, channels) for k in own]
            for bank, token in self.tiles[0].items():
                if self.shared == 1:
                    self._attend_token(token, head, [(x.row, 1) for x in queries], results)
                    continue
                with self.fp16.within(self.aside):
                    chosen = [self._chosen(x, bank) for x in queries]
                    ones = [self.tensor(channels) for _ in results]
                self._attend_token(token, head, [(x.row, 1) for x in chosen], ones)
                self.release(*chosen)
                self._put_in(bank, ones, results)
            for x in queries:
                self.q.done(x)
            for k, result in zip(own, results, strict=True):
                self.attended.wrote(0, k * channels, result)

    def _put_in(self, bank: int, ones: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """A token's results, which all banks have, to those of its own."""
        self._of(range(bank, bank + 1))
        for one, result in zip(ones, results, strict=True):
            self.apply(Operation.MULTIPLY, one, _OWN, into=one if bank else result)
            if bank:
                self.apply(Operation.ADD, result, one, into=result)
        self.release(*ones)

    def _attend_batch(self, tile: int, tokens: dict[int, Token]) -> None:
        """Head by head, its queries, keys and values of all tokens in every bank."""
        channels = self.shape.head_dim
        size = self.machine.words(channels)

        def spread(line: int) -> Copies:
            with self.fp16.within(self.aside):
                place = self.fp16.take(size * self.machine.rows)
            return self._copied(line, place, range(size))

        for head in range(self.shape.num_key_value_heads):
            own = self.queries_of(head)
            at = self.lines_before(head * channels)
            for name in ("k", "v"):
                news = spread(self._new_line(tile, name) + at)
                for bank, token in tokens.items():
                    self._append_one(news, bank, name, head, token)
                self.fp16.give(news.place)
            queries = [spread(self.q.line(tile, k * channels)) for k in own]
            results = [self.attended.write(tile, k * channels, channels) for k in own]
            for bank, token in tokens.items():
                places = [(copies.row(bank), copies.step) for copies in queries]
                with self.fp16.within(self.aside):
                    ones = [self.tensor(channels) for _ in results]
                self._attend_token(token, head, places, ones)
                self._put_in(bank, ones, results)
            for copies in queries:
                self.fp16.give(copies.place)
            for k, result in zip(own, results, strict=True):
                self.attended.wrote(tile, k * channels, result)

    def _copied(self, line: int, place: Place, words: Iterable[int]) -> Copies:
        """Words of every bank, from a line on, to all banks.

        Where a beat has several words, those of a bank must lie one after the other.
        """
        m, rows = self.machine, self.machine.rows
        if self.beat_words == 1:
            self.move("LOAD", Memory.BROADCAST, place.first, place.rows, line)
            return Copies(place, rows, 1)
        each = place.rows // rows
        for word in words:
            at = line + m.lines(Memory.ACTIVATIONS, word)
            self.move("LOAD", Memory.BROADCAST, place.first + word, rows, at, stride=each)
        return Copies(place, 1, each)

    def _append_one(self, news: Copies, bank: int, name: str, head: int, token: Token) -> None:
        """The key or value of a token, from the copies of all."""
        channels = self.shape.head_dim
        with self.fp16.within(self.aside):
            new = self.tensor(channels)
        fields = {"results": self.machine.beats(channels), "pitch": news.step}
        self._sums(Operation.WEIGH, news.row(bank), self.ones, new.row, 1, **fields)
        self._join(new, name, range(head, head + 1), token)
        self.release(new)

    def _sums(
        self,
        operation: Operation,
        a: int,
        b: int,
        into: int,
        elements: int,
        *,
        scale: float = 1.0,
        **fields: int,
    ) -> None:
        """DOTS or WEIGH on rows."""
        x, y, z = (Tensor(row, elements) for row in (a, b, into))
        self.apply(operation, x, y, into=z, scale=scale, **{"step": 1, "pitch": 1} | fields)

    def _dots(self, keys: Place, query: int, row: int, count: int, step: int = 1) -> None:
        """Scores from ``row`` on: the query of beats ``step`` apart times ``count`` keys."""
        channels = self.shape.head_dim
        fields = {"results": count, "step": step, "pitch": self.machine.beats(channels)}
        scale = channels**-0.5
        self._sums(Operation.DOTS, keys.first, query, row, channels, scale=scale, **fields)

    def _weigh(self, values: Place, row: int, into: Tensor, count: int) -> None:
        """The sum of ``count`` values, each times its power from ``row`` on."""
        beats = self.machine.beats(self.shape.head_dim)
        self._sums(Operation.WEIGH, values.first, row, into.row, count, results=beats, step=beats)

    def _block(self, tiles: int, queries: int) -> int:
        """Tiles of keys or values that are loaded at once, whole beats of scores."""
        words, lanes = self.machine.words(self.shape.head_dim), self.machine.beat_values
        most = self.fp16.region // 2 // words // lanes * lanes
        # The load is short compared with the work.
        if queries > _BLOCKS // 2 or self.shared:
            return most
        wanted = max(-(-tiles // _BLOCKS), -(-_BLOCK_ROWS // words))
        return min(most, -(-wanted // lanes) * lanes)

    def _attend_token(
        self, token: Token, head: int, queries: Sequence[tuple[int, int]], results: Sequence[Tensor]
    ) -> None:
        """Queries of one token, the same in all banks, at rows with steps; results likewise."""
        m, channels = self.machine, self.shape.head_dim
        words, tokens = self.machine.words(channels), token.position + 1
        tiles = -(-tokens // m.rows)
        block = self._block(tiles, len(queries))
        padded = m.fp16_rows(channels)
        near = [Place(row, row + 1) for row, _ in queries]
        # Scores are followed by the elements that the mask of the last tile clears.
        with self.fp16.within(self.aside):
            places = [self.fp16.take(m.fp16_rows(tiles) + FP16_ROWS) for _ in queries]
            entries = [self.fp16.take(padded + self.beat_words + FP16_ROWS) for _ in queries]
        scores = [Tensor(place.first, tiles) for place in places]
        for begin in range(0, tiles, block):
            count = min(block, tiles - begin)
            line = self._cache_line(token, "k", head, begin)
            keys = self._streamed(count * words, near)
            self.move("LOAD", Memory.ACTIVATIONS, keys.first, keys.rows, line, CACHE_INDEX)
            for (row, step), score in zip(queries, scores, strict=True):
                self._dots(keys, row, score.row + m.row_of(begin), count, step)
            self.fp16.give(keys)
        self._mask(scores, tokens % m.rows)
        for score, entry in zip(scores, entries, strict=True):
            self._softmax(score, entry.first + padded)
        with self.fp16.within(self.aside):
            spare = self.tensor(channels) if tiles > block else None
        for begin in range(0, tiles, block):
            count = min(block, tiles - begin)
            line = self._cache_line(token, "v", head, begin)
            values = self._streamed(count * words, places)
            self.move("LOAD", Memory.ACTIVATIONS, values.first, values.rows, line, CACHE_INDEX)
            for score, entry in zip(scores, entries, strict=True):
                sums = Tensor(entry.first, channels)
                into = spare if begin and spare else sums
                self._weigh(values, score.row + m.row_of(begin), into, count)
                if begin and spare:
                    self.apply(Operation.ADD, sums, spare, into=sums)
            self.fp16.give(values)
        if spare:
            self.release(spare)
        for place in places:
            self.fp16.give(place)
        for k, (entry, result) in enumerate(zip(entries, results, strict=True)):
            self._merge(self._attended % 2 * self.sharing + k, entry, result)
        self._attended += 1
        for entry in entries:
            self.fp16.give(entry)

    def _streamed(self, rows: int, apart: Sequence[Place]) -> Place:
        """Room for a block of the cache, in another region than the block before it."""
        self._turn = (self._turn + 1) % max(1, self.aside)
        if self.shared and self._turn in {place.first // self.fp16.region for place in apart}:
            self._turn = (self._turn + 1) % max(1, self.aside)
        with self.fp16.within(self._turn):
            align = self.machine.params.ways(Memory.ACTIVATIONS)
            return self.fp16.take(rows, apart=apart, align=align)

    def _mask(self, scores: Sequence[Tensor], tokens: int) -> None:
        """Scores of the last tile's missing tokens become -inf."""
        if not tokens:
            return
        m, size = self.machine, self.beat_words
        beat, lane = divmod(scores[0].elements - 1, m.beat_values)
        masks = self.fp16.take(m.rows * size + FP16_ROWS, apart=map(self.place, scores))
        line = self.lines.constants + m.mask_line(lane)
        self.move("LOAD", Memory.ACTIVATIONS, masks.first, m.rows * size, line)
        mask = Tensor(masks.first + tokens * size, lane + 1)
        for score in scores:
            last = Tensor(score.row + beat * size, lane + 1)
            self.apply(Operation.ADD, last, mask, into=last)
        self.fp16.give(masks)

    def _softmax(self, x: Tensor, note: int) -> None:
        """Powers in place of scores; largest and sum of every bank at the beats ``note``."""
        self.apply(Operation.LARGEST, x, into=_TOP)
        self.apply(Operation.MAXIMUM, _TOP, LEAST, into=_TOP)
        self.apply(Operation.SUBTRACT, x, _TOP, into=x)
        self.apply(Operation.EXPONENTIAL, x, into=x)
        self.apply(Operation.SUM, x, into=_SUM)
        ones = Tensor(self.ones, 1)
        self.apply(Operation.MULTIPLY, ones, _TOP, into=Tensor(note, 1))
        self.apply(Operation.MULTIPLY, ones, _SUM, into=Tensor(note + self.beat_words, 1))

    def _merge(self, k: int, entry: Place, result: Tensor) -> None:
        """The sums of all banks, each times its share of all powers."""
        m, rows, channels = self.machine, self.machine.rows, self.shape.head_dim
        size, padded = self.beat_words, m.fp16_rows(channels)
        if m.params.row_groups > 1:
            with self.fp16.within(self._turn):
                tops, sums = self.tensor(rows), self.tensor(rows)
            fields = {"results": rows, "across": 1}
            for note, into in ((padded, tops), (padded + size, sums)):
                self._sums(Operation.DOTS, entry.first + note, self.ones, into.row, 1, **fields)
            self._share(tops, sums)
            fields |= {"results": m.beats(channels)}
            self._sums(Operation.WEIGH, entry.first, tops.row, result.row, rows, **fields)
            self.release(tops, sums)
            return
        words, notes = m.words(channels), (padded, padded + size)
        line = self.lines.scratch + k * m.merged_lines(self.shape)
        self.move("STORE", Memory.ACTIVATIONS, entry.first, notes[1] + 1, line)
        place = self._streamed((notes[1] + size) * rows, [self.place(result)])
        copies = self._copied(line, place, (*range(words), *notes))
        with self.fp16.within(self.aside):
            tops, sums = self.tensor(rows), self.tensor(rows)
        apart = max(1, copies.bank // size)
        for word, into in zip(notes, (tops, sums), strict=True):
            first = copies.word(word)
            self._sums(Operation.DOTS, first, self.ones, into.row, 1, results=rows, pitch=apart)
        self._share(tops, sums)
        fields = {"results": m.beats(channels), "step": apart, "pitch": copies.step}
        self._sums(Operation.WEIGH, place.first, tops.row, result.row, rows, **fields)
        self.release(tops, sums)
        self.fp16.give(place)

    def _share(self, tops: Tensor, sums: Tensor) -> None:
        """In place of the banks' largest scores, their shares of all powers."""
        self.apply(Operation.LARGEST, tops, into=_MERGED_TOP)
        self.apply(Operation.SUBTRACT, tops, _MERGED_TOP, into=tops)
        self.apply(Operation.EXPONENTIAL, tops, into=tops)
        self.apply(Operation.DOT, tops, sums, into=_MERGED_SUM)
        self.apply(Operation.RECIPROCAL, _MERGED_SUM, into=_MERGED_SUM)
        self.apply(Operation.MULTIPLY, tops, _MERGED_SUM, into=tops)

    # A prompt.

    def _attend_prompt(self, tiles: Sequence[int]) -> None:
        """Tiles of queries of all heads that share keys, as many at a time as there is room for."""
        m = self.machine
        first = self.step.tokens[0].position // m.rows
        block_rows = self._prompt_block * m.rows * self.machine.words(self.shape.head_dim)
        longest = first + tiles[-1] + 1
        mask = self.fp16.take(2 * FP16_ROWS)
        line = self.lines.constants + m.prompt_mask_line
        self.move("LOAD", Memory.ACTIVATIONS, mask.first, FP16_ROWS, line)
        item_rows = self._prompt_rows(longest)
        for head in range(self.shape.num_key_value_heads):
            items = [(tile, head * self.sharing + k) for tile in tiles for k in range(self.sharing)]
            free = self.fp16.depth - sum(p.rows for p in (*self.x.places, *self.q.places))
            free -= sum(p.rows for p in self.attended.places) + 3 * block_rows
            # As many each time: the cache streams past few queries no faster than past many.
            times = -(-len(items) // max(1, free // item_rows))
            for k in range(times):
                own = items[k * len(items) // times : (k + 1) * len(items) // times]
                self._attend_items(head, own, first, mask.first)
        self.fp16.give(mask)

    @property
    def _prompt_block(self) -> int:
        """Tiles of keys in half a region; a field of an instruction counts their tokens."""
        words = self.machine.words(self.shape.head_dim)
        return max(1, min(self.fp16.region // 2 // words, 255) // self.machine.rows)

    def _prompt_rows(self, tiles: int) -> int:
        m = self.machine
        scores = m.fp16_rows(tiles * m.rows) + FP16_ROWS
        return scores + 3 * m.fp16_rows(self.shape.head_dim) + 1 + FP16_ROWS

    def _attend_items(
        self, head: int, items: Sequence[tuple[int, int]], first: int, mask: int
    ) -> None:
        m, channels, rows = self.machine, self.shape.head_dim, self.machine.rows
        token = self.step.tokens[0]
        tiles = [first + tile + 1 for tile, _ in items]  # of keys that each sees
        padded = m.fp16_rows(channels)
        # Operands of one instruction lie in different regions; else a row takes two cycles.
        with self.fp16.within(0):
            queries = [self.q.read(tile, k * channels, channels) for tile, k in items]
            sums = [self.fp16.take(padded + FP16_ROWS + 1) for _ in items]
        with self.fp16.within(1):
            places = [self.fp16.take(m.fp16_rows(n * rows) + FP16_ROWS) for n in tiles]
            spare = self.tensor(channels)
        longest, size = max(tiles), self._prompt_block
        blocks = {k: range(k, min(k + size, longest)) for k in range(0, longest, size)}

        def seen(begin: int, n: int) -> int:
            return min(self._prompt_block, n - begin) * rows

        for begin in blocks:
            keys = self._broadcast(token, "k", head, blocks[begin])
            for query, place, n in zip(queries, places, tiles, strict=True):
                if (count := seen(begin, n)) <= 0:
                    continue
                row = place.first + m.row_of(begin * rows)
                self._dots(keys, query.row, row, count)
                if begin * rows + count == n * rows:
                    own = Tensor(row + m.row_of(count - rows), rows)
                    self.apply(Operation.ADD, own, Tensor(mask, rows), into=own)
            self.fp16.give(keys)
        for query in queries:
            self.q.done(query)
        for begin in blocks:
            values = self._broadcast(token, "v", head, blocks[begin])
            for place, kept, n in zip(places, sums, tiles, strict=True):
                if (count := seen(begin, n)) <= 0:
                    continue
                if not begin:
                    self._prompt_softmax(Tensor(place.first, n * rows), kept.first + padded)
                total = Tensor(kept.first, channels)
                into = spare if begin else total
                row = place.first + m.row_of(begin * rows)
                self._weigh(values, row, into, count)
                if begin:
                    self.apply(Operation.ADD, total, spare, into=total)
            self.fp16.give(values)
        self.release(spare)
        for (tile, k), place, kept in zip(items, places, sums, strict=True):
            self.tile = tile
            result = self.attended.write(tile, k * channels, channels)
            self.apply(Operation.LARGEST, Tensor(kept.first + padded, 1), into=_SUM)
            self.apply(Operation.RECIPROCAL, _SUM, into=_SUM)
            self.apply(Operation.MULTIPLY, Tensor(kept.first, channels), _SUM, into=result)
            self.attended.wrote(tile, k * channels, result)
            self.fp16.give(place)
            self.fp16.give(kept)

    def _broadcast(self, token: Token, name: str, head: int, tiles: range) -> Place:
        """Tiles of keys or values to every bank, the words of a token side by side."""
        p, words = self.machine.params, self.machine.words(self.shape.head_dim)
        others = range(2, self.fp16.regions) or range(self.fp16.regions)
        self._turn += 1
        with self.fp16.within(others[self._turn % len(others)]):
            place = self.fp16.take(len(tiles) * p.rows * words)
        for k, tile in enumerate(tiles):
            line = self._cache_line(token, name, head, tile)
            for word in range(words):
                row = place.first + k * p.rows * words + word
                at = line + self.machine.lines(Memory.ACTIVATIONS, word)
                move = "LOAD", Memory.BROADCAST, row, p.rows, at, CACHE_INDEX
                self.move(*move, stride=words)
        return place

    def _prompt_softmax(self, x: Tensor, note: int) -> None:
        self.apply(Operation.LARGEST, x, into=_TOP)
        self.apply(Operation.SUBTRACT, x, _TOP, into=x)
        self.apply(Operation.EXPONENTIAL, x, into=x)
        self.apply(Operation.SUM, x, into=_SUM)
        self.apply(Operation.MULTIPLY, Tensor(self.ones, 1), _SUM, into=Tensor(note, 1))
