"""Tokens of a prompt through all layers, or one token that is decoded: the program of a step.

A step begins with loads of its tokens' embeddings, whose lines and banks the host writes into the
program; tokens leave in lines of external memory, and so does the cache. Token t lies in bank
t mod ``rows`` all the way. Offsets of keys are learned from the first step's tokens, and again
from the same, which are kept in fp16, whenever a later step begins with another head.
"""

from tilewright.golden.harmonia_machine.isa import Instruction, groups_of, tiles_of
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import CACHE_INDEX, LAYER_INDEX, Plan
from tilewright.golden.harmonia_model.writer import Writer, half
from tilewright.golden.params.harmonia_machine import Conversion, Memory, Opcode, Operand
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

__all__ = ["PromptStep", "entering_load"]

_BESIDE_CONVERSION = 4  # stores that take as long as the converter with the results of all heads
_CACHE = (Memory.OPERANDS, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)


def entering_load(number: int) -> int:
    """The instruction of a step's program that loads the embedding of its token ``number``."""
    return 2 * number + 1  # each behind what sets the banks that it writes


class PromptStep:
    """Writes the step of ``count`` tokens; heads of queries meet the cache one by one."""

    def __init__(self, plan: Plan, lines: Lines, first: int, count: int):
        self.plan, self.lines, self.writer = plan, lines, Writer(plan, lines)
        self.first, self.end = first, first + count
        rows = plan.params.rows
        self.tiles = range(first // rows, (self.end - 1) // rows + 1)  # of the whole sequence
        self.config = plan.config
        self.parts: dict[str, int] = {}  # the instructions that parts of a layer begin with

    def lanes(self, tile: int) -> list[int]:
        rows = self.plan.params.rows
        begin, end = max(self.first, tile * rows), min(self.end, (tile + 1) * rows)
        return [token % rows for token in range(begin, end)]

    def projected(self, tile: int) -> list[int]:
        """Banks that projections are computed in."""
        return self.lanes(tile)

    def write(self, layers: int) -> None:
        b, plan = self.writer, self.plan
        self._enter()
        b.bring_part(plan.matrices["qkv"], self.lines.matrices["qkv"], 0, 0)
        before = b.program
        b.program = []
        self._layer()
        body, b.program = b.program, before
        self.parts = {name: len(before) + 1 + number for name, number in self.parts.items()}
        self.parts["end"] = len(before) + 1 + len(body)
        b.emit(
            Opcode.LOOP,
            count=layers,
            body=len(body),
            stride1=self.lines.layer,
            stride2=self.lines.cache,
            stride3=0,
        )
        b.program += body
        for k in range(len(self.tiles)):
            b.keep(Memory.FP16, plan.tokens_row(k), plan.width_words, self.lines.tokens(k))
        b.emit(Opcode.HALT)

    def _enter(self) -> None:
        """Embeddings, each to its token's bank; a host puts the tokens in the place of token 0.

        Banks without a token hold the first of the tile, whose norm exists.
        """
        b, plan = self.writer, self.plan
        rows = plan.params.rows
        line, bank = self.lines.embedding(0)
        for k, tile in enumerate(self.tiles):
            for number, lane in enumerate(self.lanes(tile)):
                b.configured(1 << lane if number else (1 << rows) - 1, 0)
                b.bring(Memory.FP16, plan.tokens_row(k), plan.width_words, line, spread=bank + 1)

    def _layer(self) -> None:
        b = self.writer
        b.configured((1 << self.plan.params.rows) - 1, self.end)
        for name, part in (
            ("projections", self._project),
            ("attention", self._attend),
            ("feed-forward", self._feed),
        ):
            self.parts[name] = len(b.program)  # of the body; the loop's place is added
            part()

    # Queries, keys and values.

    def _project(self) -> None:
        """Norm, products, rotation; the cache comes meanwhile."""
        b, plan, c = self.writer, self.plan, self.config
        gain, normed = plan.scratch_row, plan.scratch_row + plan.width_words
        matrix = plan.matrices["qkv"]
        coming = list(_CACHE)
        b.bring(Memory.FP16, gain, plan.width_words, self.lines.norms[0], LAYER_INDEX)
        places = []
        for k, tile in enumerate(self.tiles):
            b.configure(lanes=self.projected(tile))
            self._bring_cache(coming, 1)
            b.norm(plan.tokens_row(k), gain, normed, c.hidden_size)
            b.activations(normed, c.hidden_size, k * matrix.groups, matrix.copies)
            places.append((k * matrix.groups, plan.projections_row(k), self.projected(tile)))
        self._bring_cache(coming, len(coming))
        b.product("qkv", places, "output")
        if c.query_bias:
            self._add_bias()
        for k, tile in enumerate(self.tiles):
            self._rotate(k, tile)

    def _add_bias(self) -> None:
        """Of queries, keys and values, in the order in which they lie."""
        b, plan = self.writer, self.plan
        matrix = plan.matrices["qkv"]
        words = plan.output_words(matrix)
        b.all_lanes()
        b.bring(Memory.FP16, plan.scratch_row, words, self.lines.bias, LAYER_INDEX)
        for k, tile in enumerate(self.tiles):
            b.configure(lanes=self.projected(tile))
            row = plan.projections_row(k)
            b.work(Operation.ADD, row, row, plan.scratch_row, elements=matrix.outputs)

    def _bring_cache(self, coming: list[Memory], most: int) -> None:
        plan = self.plan
        for memory in coming[:most]:
            rows = plan.cache_rows if memory is Memory.OPERANDS else plan.high_rows
            line = self.lines.caches + self.lines.cached[memory]
            self.writer.bring(memory, 0, rows, line, CACHE_INDEX)
        del coming[:most]

    def _rotate(self, k: int, tile: int) -> None:
        """Queries and keys of a token tile, in place: (a, b) -> (a cos - b sin, b cos + a sin)."""
        b, plan, c, n = self.writer, self.plan, self.config, self.plan.rotated_words
        cosine, sine, *spare = (plan.scratch_row + i * n for i in range(5))
        elements = (c.num_attention_heads + c.num_key_value_heads) * c.head_dim // 2
        line = self.lines.rotation(tile)
        b.configure(lanes=self.projected(tile))
        b.bring(Memory.FP16, cosine, n, line)
        b.bring(Memory.FP16, sine, n, line + self.lines.sines)
        low, high = plan.projections_row(k), plan.projections_row(k) + n
        multiply = Operation.MULTIPLY
        beside = k == 0 and plan.attention_row != plan.scratch_row
        b.work(multiply, spare[0], low, cosine, elements=elements)
        b.work(multiply, spare[1], high, sine, elements=elements)
        if beside:
            self._bring_window()
            b.configure(lanes=self.projected(tile))
        b.work(multiply, spare[2], low, sine, elements=elements)
        b.work(multiply, high, high, cosine, elements=elements)
        if beside:
            self._bring_opened()
            b.configure(lanes=self.projected(tile))
        b.work(Operation.SUBTRACT, low, spare[0], spare[1], elements=elements)
        b.work(Operation.ADD, high, high, spare[2], elements=elements)

    def _halves_rows(self, k: int, head: int) -> tuple[int, int]:
        """Rows of both halves of a head's channels; keys follow the heads of queries."""
        words = self.plan.words(self.config.head_dim // 2)
        low = self.plan.projections_row(k) + head * words
        return low, low + self.plan.rotated_words

    # Attention.

    def _attend(self) -> None:
        plan, heads = self.plan, self.config.num_key_value_heads
        window, opened, key = self._attention_rows()
        if plan.attention_row == plan.scratch_row:
            self._bring_window()
            self._bring_opened()
        for head in range(heads):
            self._append_keys(head, window, key)
            self._append_values(head, opened)
            for query in range(head * plan.sharing, (head + 1) * plan.sharing):
                for k, tile in enumerate(self.tiles):
                    self._attend_head(head, query, k, tile)

    def _bring_window(self) -> None:
        """Keys in fp16 that offsets are learned from."""
        plan, line = self.plan, self.lines.caches + self.lines.window
        self.writer.all_lanes()
        row = self._attention_rows()[0]
        self.writer.bring(Memory.FP16, row, plan.window_words, line, CACHE_INDEX)

    def _bring_opened(self) -> None:
        """Values in fp16 of the group that is not complete."""
        plan, line = self.plan, self.lines.caches + self.lines.open_values
        self.writer.all_lanes()
        row = self._attention_rows()[1]
        self.writer.bring(Memory.FP16, row, plan.open_words, line, CACHE_INDEX)

    def _attention_rows(self) -> tuple[int, int, int]:
        """Of the window's keys, of the unfinished group of values, of one token tile of keys."""
        plan = self.plan
        window = plan.attention_row
        opened = window + plan.window_words
        return window, opened, opened + plan.open_words

    def _append_keys(self, head: int, window: int, key: int) -> None:
        b, plan, c = self.writer, self.plan, self.config
        p, words = plan.params, plan.head_words
        window += head * plan.step_tiles * words
        rows = {}
        for k, tile in enumerate(self.tiles):
            low, high = self._halves_rows(k, c.num_attention_heads + head)
            rows[tile] = window + k * words if self.first == 0 else key
            b.configure(lanes=self.lanes(tile))
            if self.first == 0:
                self._gather(rows[tile], low, high)
        b.all_lanes()
        for k in range(plan.step_tiles):
            b.emit(
                Opcode.LEARN,
                source=window + k * words,
                elements=c.head_dim,
                first=int(k == 0),
                last=int(k + 1 == plan.step_tiles),
            )
        unit = self.first // p.columns
        low_row = plan.low_keys_row(head)
        for k, tile in enumerate(self.tiles):
            b.configure(lanes=self.lanes(tile), tokens=self.end)
            if self.first:
                self._gather(key, *self._halves_rows(k, c.num_attention_heads + head))
            row = plan.keys_row(head) + unit * plan.key_rows
            b.convert(
                Conversion.KEYS,
                source=rows[tile],
                elements=c.head_dim,
                destination=row,
                low_halves=low_row + p.low_slot(Operand.KEYS, unit) * plan.key_rows,
                metadata=row,
                part=tile % p.parts,
            )
            leaving = (tile * p.rows - p.local) // p.columns
            if leaving >= p.initial_slots(Operand.KEYS) and p.has_low(
                Operand.KEYS, leaving, self.end
            ):
                b.emit(
                    Opcode.CLEAR,
                    low_halves=low_row + p.low_slot(Operand.KEYS, leaving) * plan.key_rows,
                    rows=plan.key_rows,
                    part=tile % p.parts,
                )

    def _gather(self, row: int, low: int, high: int) -> None:
        """Both halves of a head's channels, one behind the other."""
        channels = self.config.head_dim // 2
        self.writer.work(Operation.COPY, row, low, elements=channels)
        row += self.plan.words(channels)
        self.writer.work(Operation.COPY, row, high, elements=channels)

    def _append_values(self, head: int, opened: int) -> None:
        b, plan, c = self.writer, self.plan, self.config
        p, words = plan.params, plan.head_words
        opened += head * p.converter.loops * words
        for k, tile in enumerate(self.tiles):
            b.configure(lanes=self.lanes(tile))
            source = plan.projections_row(k) + 2 * plan.rotated_words + head * words
            row = opened + tile % p.converter.loops * words
            b.work(Operation.COPY, row, source, elements=c.head_dim)
        group = self.first // p.group
        row = plan.values_row(head) + group * plan.value_rows
        b.convert(
            Conversion.VALUES,
            source=opened,
            elements=c.head_dim,
            destination=row,
            low_halves=plan.low_values_row(head)
            + p.low_slot(Operand.VALUES, group) * plan.value_rows,
            metadata=row,
            tokens=self.end - group * p.group,
        )

    def _attend_head(self, head: int, query: int, k: int, tile: int) -> None:
        """One head of queries of a token tile; bank r sees the tokens up to its own.

        Scores and the largest of them, powers and their sum, the powers and V, divided by the sum.
        """
        b, plan = self.writer, self.plan
        p, channels = plan.params, self.config.head_dim // 2
        scores = self._attention_rows()[2] + plan.head_words
        result = plan.attended_row(k) + query * plan.head_words
        largest, total = 0, 1  # scalar registers
        limit = tile * p.rows + 1
        b.configure(lanes=self.lanes(tile), tokens=self.end, causal_limit=limit)
        for part, row in enumerate(self._halves_rows(k, query)):
            b.activations(row, channels, part * groups_of(p, channels))
        b.gemm(
            Operand.KEYS,
            source=0,
            operands=plan.keys_row(head),
            low_halves=plan.low_keys_row(head),
            metadata=plan.keys_row(head),
            destination=scores,
            groups=plan.key_rows,
            tiles=tiles_of(p, self.end),
            maxima=largest,
        )
        b.vector(
            Operation.POWERS,
            scores,
            scores,
            scalar=largest,
            elements=self.end,
            causal_limit=limit,
            total=total,
        )
        b.activations(scores, self.end, plan.key_rows)
        b.gemm(
            Operand.VALUES,
            source=plan.key_rows,
            operands=plan.values_row(head),
            low_halves=plan.low_values_row(head),
            metadata=plan.values_row(head),
            destination=result,
            groups=groups_of(p, self.end),
            tiles=plan.value_rows,
        )
        b.normalise(result, self.config.head_dim, total)

    def _changed(self) -> list[Instruction]:
        """Stores of what this step has changed of the cache."""
        b, plan, p = self.writer, self.plan, self.plan.params
        cache, (window, opened, _) = self.lines.caches, self._attention_rows()
        before, b.program = b.program, []
        # What is behind attention uses rows of the fp16 memory anew: these come first.
        line = cache + self.lines.open_values
        b.keep(Memory.FP16, opened, plan.open_words, line, CACHE_INDEX)
        if self.first == 0:
            line = cache + self.lines.window
            b.keep(Memory.FP16, window, plan.window_words, line, CACHE_INDEX)
        for head in range(self.config.num_key_value_heads):
            for row, rows, unit in (
                (plan.keys_row(head), plan.key_rows, self.first // p.columns),
                (plan.values_row(head), plan.value_rows, self.first // p.group),
            ):
                self._keep_rows(Memory.OPERANDS, row + unit * rows, rows)
        self._keep_rows(Memory.OPERANDS, plan.high_rows, plan.cache_rows - plan.high_rows)
        self._keep_rows(Memory.OPERAND_SIGNS, 0, plan.high_rows)
        self._keep_rows(Memory.OPERAND_EXPONENTS, 0, plan.high_rows)
        stores, b.program = b.program, before
        return stores

    def _keep_rows(self, memory: Memory, row: int, rows: int) -> None:
        """Rows of the cache, with those beside them that share their lines."""
        plan, each = self.plan, self.plan.rows_of_a_line(memory)
        begin, end = row // each * each, -(-(row + rows) // each) * each
        line = self.lines.caches + self.lines.cached[memory] + plan.params.lines(memory, begin)
        self.writer.keep(memory, begin, end - begin, line, CACHE_INDEX)

    # The output projection and the feed-forward part.

    def _feed(self) -> None:
        b, plan, c = self.writer, self.plan, self.config
        matrix = plan.matrices["output"]
        width, attended = c.hidden_size, c.num_attention_heads * c.head_dim
        stores = self._changed()
        for k in range(len(self.tiles)):
            for copy in range(matrix.copies):
                at = k * matrix.groups + copy * (matrix.groups // matrix.copies)
                b.activations(plan.attended_row(k), attended, at)
                b.program += stores[:_BESIDE_CONVERSION]
                del stores[:_BESIDE_CONVERSION]
        row, size = plan.feed_row, plan.output_words(matrix)
        places = [
            (k * matrix.groups, row + k * size, self.lanes(tile))
            for k, tile in enumerate(self.tiles)
        ]
        b.product("output", places, "gate", stores)
        gain = row + plan.step_tiles * size
        b.all_lanes()
        b.bring(Memory.FP16, gain, plan.width_words, self.lines.norms[1], LAYER_INDEX)
        for k, tile in enumerate(self.tiles):
            b.configure(lanes=self.lanes(tile))
            tokens = plan.tokens_row(k)
            b.work(Operation.ADD, tokens, tokens, row + k * size, elements=width)
            last = k + 1 == len(self.tiles)
            self._feed_tile(tokens, self.lanes(tile), gain, "" if last else "gate")

    def _feed_tile(self, tokens: int, lanes: list[int], gain: int, then: str) -> None:
        """SiLU(gate) times up, down, and the sum with the tokens."""
        b, plan, c = self.writer, self.plan, self.config
        width, inner = c.hidden_size, c.intermediate_size
        normed = gain + plan.width_words
        gate = normed + plan.width_words
        up = gate + plan.output_words(plan.matrices["gate"])
        spare = up + plan.output_words(plan.matrices["up"])
        b.norm(tokens, gain, normed, width)
        b.activations(normed, width, 0, plan.matrices["gate"].copies)
        b.product("gate", [(0, gate, lanes)], "up")
        b.product("up", [(0, up, lanes)], "down")
        b.work(Operation.MULTIPLY, spare, gate, half(-1.0), elements=inner, kind=Kind.IMMEDIATE)
        b.work(Operation.EXPONENTIAL, spare, spare, elements=inner)
        b.work(Operation.ADD, spare, spare, half(1.0), elements=inner, kind=Kind.IMMEDIATE)
        b.work(Operation.RECIPROCAL, spare, spare, elements=inner)
        b.work(Operation.MULTIPLY, gate, gate, spare, elements=inner)
        b.work(Operation.MULTIPLY, gate, gate, up, elements=inner)
        b.activations(gate, inner, 0, plan.matrices["down"].copies)
        b.product("down", [(0, spare, lanes)], then)
        b.work(Operation.ADD, tokens, tokens, spare, elements=width)
