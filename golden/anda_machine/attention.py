"""Attention of a decoded token, or of the tokens of a prompt, as one program for the vector lanes.

Queries come from external memory and results go there; K and V stream from it. How the lanes share
the work of a token: :mod:`tilewright.golden.anda_machine.attention_writer`; that of a prompt:
:mod:`tilewright.golden.anda_machine.prompt_attention`. Where a line of the memory port holds
several rows, the queries of a prompt are worked on one by one as that of a token is.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.attention_writer import (
    AttentionWriter,
    Cached,
    Constants,
    Query,
    Room,
)
from tilewright.golden.anda_machine.builder import Builder
from tilewright.golden.anda_machine.cycles import program_cycles
from tilewright.golden.anda_machine.isa import Formats, Instruction
from tilewright.golden.anda_machine.layout import fp16_rows, fp16_values, from_bytes, to_bytes
from tilewright.golden.anda_machine.prompt_attention import (
    PromptConstants,
    PromptItem,
    PromptRoom,
    PromptWriter,
    queries_in_banks,
)
from tilewright.golden.anda_machine.token_attention import TokenRoom, TokenWriter
from tilewright.golden.machine.loops import Fetch
from tilewright.golden.machine.machine import Outcome, Step
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Counter, Memory, Opcode
from tilewright.golden.params.block import require
from tilewright.golden.params.machine import Error

__all__ = ["Attention", "attention_program", "cache_rows"]

_QUERIES = 4  # queries of a token have one of so many parts of a region


@dataclass(frozen=True, kw_only=True)
class Attention:
    """``heads`` query heads of ``tokens`` tokens, the last of a context of ``context`` tokens.

    Groups of heads / kv_heads query heads share K and V. A prompt's tokens see those up to
    themselves; ``tokens`` is 1, or the context ends with whole token tiles of queries that begin
    at a tile.
    """

    params: AndaParams
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    tokens: int = 1

    def __post_init__(self) -> None:
        p = self.params
        require(
            self.kv_heads >= 1 and self.heads % self.kv_heads == 0,
            f"heads must be a multiple of kv_heads, not {self.heads!r} of {self.kv_heads!r}",
        )
        require(
            1 <= self.tokens <= self.context,
            f"tokens must be 1..{self.context}, the context, not {self.tokens!r}",
        )
        require(
            self.tokens == 1 or (self.context - self.tokens) % p.rows == 0,
            f"queries of a prompt begin at a tile of {p.rows}: context less tokens is"
            f" {self.context - self.tokens}",
        )
        line = p.line_bits // p.row_bits(Memory.ACTIVATIONS)
        unit = max(1, line) * p.vector.row_lanes
        require(
            self.head_dim % unit == 0,
            f"head_dim must be a multiple of {unit}, whole lines of a token tile,"
            f" not {self.head_dim!r}",
        )
        require(
            self.room.words <= 255, f"head_dim {self.head_dim} is too large: {self.room.words} rows"
        )

    # Rows of the activation buffer: two regions for the stream, queries and results, work space.

    @cached_property
    def _region(self) -> int:
        return self.params.region_rows(Memory.ACTIVATIONS)

    @property
    def _share(self) -> int:
        return self.heads // self.kv_heads

    @property
    def _words(self) -> int:
        return -(-self.head_dim // self.params.vector.row_lanes)

    @property
    def _padded(self) -> int:
        return -(-self.head_dim // self.params.group) * FP16_ROWS

    @cached_property
    def _together(self) -> int:
        """Query heads that are in the buffer at a time, with their results."""
        return self._share if self.tokens == 1 else 1

    @cached_property
    def _query_rows(self) -> int:
        """Of one loaded set of queries; two of them, so that the next can be loaded."""
        return self._together * self._words * (1 if self.tokens == 1 else self.params.rows)

    @cached_property
    def room(self) -> Room:
        """With a region for merges where a token's heads have one."""
        return self._token_room or self._shared_room

    @cached_property
    def _token_room(self) -> TokenRoom | None:
        p = self.params
        if self.tokens > 1 or p.regions < 4:
            return None
        aside, first = 2 * self._region, 3 * self._region
        room = TokenRoom(
            params=p,
            head_dim=self.head_dim,
            stream=(0, self._region),
            aside=aside,
            queries=self._share,
            first=first + self.turn * self._query_rows,
            end=first + self._region,
        )
        return room if room.fits else None

    @cached_property
    def turn(self) -> int:
        """Heads of keys whose queries a token brings at the same time."""
        return max(1, self._region // _QUERIES // self._query_rows)

    @cached_property
    def _shared_room(self) -> Room:
        p = self.params
        first = 2 * self._region
        results = first + 2 * self._query_rows
        free = results + 2 * self._together * self._padded
        return Room(
            params=p,
            head_dim=self.head_dim,
            stream=(0, self._region),
            first=free,
            end=p.activation_rows,
        )

    # Lines of external memory.

    @property
    def _tiles(self) -> int:
        """Token tiles of queries."""
        return -(-self.tokens // self.params.rows)

    @property
    def _key_tiles(self) -> int:
        return -(-self.context // self.params.rows)

    @cached_property
    def _query_lines(self) -> int:
        """Of a head's queries of one tile, or of a single token."""
        memory = Memory.BROADCAST if self.tokens == 1 else Memory.ACTIVATIONS
        return self.params.lines(memory, self._words)

    @cached_property
    def _head_lines(self) -> int:
        """Of K, or of V, of one head."""
        return self.params.lines(Memory.ACTIVATIONS, self._key_tiles * self._words)

    @cached_property
    def _result_lines(self) -> int:
        return self.params.lines(Memory.ACTIVATIONS, self._words)

    def _query_line(self, head: int, tile: int) -> int:
        return (tile * self.heads + head) * self._query_lines

    @cached_property
    def _cache(self) -> int:
        return self.params.beat_line(self._query_line(0, self._tiles))

    def cached(self, head: int) -> Cached:
        """Where K and V of a head begin."""
        keys = self._cache + 2 * head * self._head_lines
        return Cached(keys, keys + self._head_lines)

    @cached_property
    def _constants(self) -> int:
        return self.cached(self.kv_heads).keys

    @cached_property
    def _in_banks(self) -> bool:
        """Whether every bank has a query of its own."""
        return self.tokens > 1 and queries_in_banks(self.params)

    @cached_property
    def _constant_data(self) -> Constants | PromptConstants:
        return PromptConstants(self.params) if self._in_banks else Constants(self.params)

    def _result_line(self, head: int, tile: int) -> int:
        first = self._constants + self._constant_data.lines
        return first + (tile * self.heads + head) * self._result_lines

    @cached_property
    def _scratch(self) -> int:
        return self._result_line(0, self._tiles)

    @cached_property
    def _scratch_queries(self) -> int:
        if self._in_banks:
            return 0
        return self._share if self.tokens == 1 else self.params.rows

    @cached_property
    def lines(self) -> int:
        """Lines of external memory that the program uses."""
        each = self.params.lines(Memory.ACTIVATIONS, self.room.padded + 2)
        return self._scratch + self._scratch_queries * each

    @cached_property
    def multiplications(self) -> int:
        """Multiply-adds of scores and of their values, of tokens that are seen."""
        seen = sum(range(self.context - self.tokens + 1, self.context + 1))
        return 2 * self.heads * self.head_dim * seen

    @cached_property
    def prompt_room(self) -> PromptRoom | None:
        """Where a prompt's tensors are; None where its queries are worked on one by one."""
        if not self._in_banks:
            return None
        return PromptRoom(params=self.params, head_dim=self.head_dim, longest=self._key_tiles)

    def program(self) -> list[Instruction]:
        """The instructions, of any number."""
        b = Builder(self.params)
        scale = self.head_dim**-0.5
        if self.prompt_room is not None:
            heads = ((self.cached(k), self._prompt_items(k)) for k in range(self.kv_heads))
            PromptWriter(b, self.prompt_room, self._constants, scale).write(heads)
            b.emit(Opcode.HALT)
            return b.program
        if self._token_room is not None:
            self._write_token(b, self._token_room, scale)
            b.emit(Opcode.HALT)
            return b.program
        writer = AttentionWriter(b, self.room, self._constants, self._scratch)
        turn = 0
        for tile in range(self._tiles):
            for head in range(0, self.heads, self._together):
                if turn < 2:
                    self._load_queries(b, turn, head, tile)
                cached = self.cached(head // self._share)
                writer.attend(cached, self._queries(turn, tile), scale=scale)
                writer.then(partial(self._finish, b, turn, head, tile))
                turn += 1
        writer.flush()
        b.emit(Opcode.HALT)
        return b.program

    def _write_token(self, b: Builder, room: TokenRoom, scale: float) -> None:
        """Heads of one token; the queries of several heads of keys come together."""
        writer, share = TokenWriter(b, room, self._constants, self._scratch), self._share
        first = 3 * self._region
        for head in range(self.kv_heads):
            if head % self.turn == 0:
                count = min(self.turn, self.kv_heads - head) * share
                writer.first(partial(self._bring_queries, b, first, head * share, count))
            row = first + head % self.turn * self._query_rows
            queries = [
                Query(row + k * self._words, 1, self.context, room.result(k)) for k in range(share)
            ]
            writer.attend(self.cached(head), queries, scale=scale)
            writer.then(partial(self._keep_results, b, room, head * share))
        writer.flush()

    def _bring_queries(self, b: Builder, row: int, head: int, count: int) -> None:
        """Queries of so many heads, one behind the other, into every bank."""
        line = self.params.line_bits // self.params.row_bits(Memory.BROADCAST)
        each = count if self._words % line == 0 else 1
        for k in range(0, count, each):
            b.emit(
                Opcode.LOAD,
                memory=int(Memory.BROADCAST),
                stride=1,
                row=row + k * self._words,
                rows=each * self._words,
                line=self._query_line(head + k, 0),
            )

    def _keep_results(self, b: Builder, room: TokenRoom, head: int) -> None:
        for k in range(self._share):
            self._store(b, room.result(k), self._result_line(head + k, 0))

    def _prompt_items(self, kv_head: int) -> list[PromptItem]:
        """Tiles of queries of the heads that share keys and values, tile by tile."""
        before = (self.context - self.tokens) // self.params.rows
        heads = range(kv_head * self._share, (kv_head + 1) * self._share)
        return [
            PromptItem(self._query_line(h, t), self._result_line(h, t), before + t + 1)
            for t in range(self._tiles)
            for h in heads
        ]

    def cycles(self, latency: int) -> dict[Counter, int]:
        """Counters of the program as it streams, without running it; see ``program_cycles``."""
        program = self.program()
        trace = [Step(x, Formats(), Fetch(k, 0, k)) for k, x in enumerate(program)]
        outcome = Outcome(Error.NONE, len(program) - 1, False, {}, trace, streamed=True)
        return program_cycles(self.params, outcome, latency)

    def utilisation(self, latency: int) -> float:
        """Multiply-adds of every cycle and lane; softmax and all else count as nothing."""
        cycles = self.cycles(latency)[Counter.CYCLES]
        return self.multiplications / (self.params.vector.lanes * cycles)

    def _finish(self, b: Builder, turn: int, head: int, tile: int) -> None:
        """Results go out, and the queries after the next come in."""
        for k in range(self._together):
            self._store(b, self._result_row(turn, k), self._result_line(head + k, tile))
        sets, following = self.heads // self._together, turn + 2
        if following < self._tiles * sets:
            next_tile, number = divmod(following, sets)
            self._load_queries(b, following, number * self._together, next_tile)

    def _queries(self, turn: int, tile: int) -> list[Query]:
        first = 2 * self._region + turn % 2 * self._query_rows
        if self.tokens == 1:
            return [
                Query(first + k * self._words, 1, self.context, self._result_row(turn, k))
                for k in range(self._together)
            ]
        rows = self.params.rows
        before = self.context - self.tokens + tile * rows
        count = min(rows, self.tokens - tile * rows)
        return [
            Query(
                first + bank,
                rows,
                before + bank + 1,
                self._result_row(turn, 0),
                bank,
                clears=bank == 0,
            )
            for bank in range(count)
        ]

    def _result_row(self, turn: int, k: int) -> int:
        first = 2 * self._region + 2 * self._query_rows
        return first + (turn % 2 * self._together + k) * self._padded

    def _load_queries(self, b: Builder, turn: int, head: int, tile: int) -> None:
        """Queries into every bank: a token's, or, of a tile, those of every token one by one."""
        row = 2 * self._region + turn % 2 * self._query_rows
        each = self._query_rows // self._together
        for k in range(self._together):
            b.emit(
                Opcode.LOAD,
                memory=int(Memory.BROADCAST),
                stride=1,
                row=row + k * each,
                rows=each,
                line=self._query_line(head + k, tile),
            )

    def _store(self, b: Builder, row: int, line: int) -> None:
        memory = int(Memory.ACTIVATIONS)
        b.emit(Opcode.STORE, memory=memory, stride=1, row=row, rows=self._words, line=line)

    # Values.

    def memory(self, q: NDArray, k: NDArray, v: NDArray) -> NDArray[np.uint8]:
        """External memory; fp16 patterns (heads, tokens, channels), of K and V kv_heads of them."""
        p = self.params
        shapes = {
            "q": (q, (self.heads, self.tokens, self.head_dim)),
            "k": (k, (self.kv_heads, self.context, self.head_dim)),
            "v": (v, (self.kv_heads, self.context, self.head_dim)),
        }
        for name, (values, shape) in shapes.items():
            require(values.shape == shape, f"{name} must be {shape}, not {values.shape}")
        memory = np.zeros((self.lines, p.line_bytes), np.uint8)

        def put(line: int, data: NDArray[np.uint8]) -> None:
            memory[line : line + len(data) // p.line_bytes] = data.reshape(-1, p.line_bytes)

        for tile in range(self._tiles):
            for head in range(self.heads):
                values = q[head, tile * p.rows : (tile + 1) * p.rows]
                rows = fp16_rows(p, values)[: self._words]
                if self.tokens == 1:
                    data = to_bytes(p, Memory.BROADCAST, rows[:, :1])
                else:
                    data = to_bytes(p, Memory.ACTIVATIONS, rows)
                put(self._query_line(head, tile), data)
        for head in range(self.kv_heads):
            for line, values in zip(self.cached(head), (k[head], v[head]), strict=True):
                put(line, to_bytes(p, Memory.ACTIVATIONS, cache_rows(p, values)))
        put(self._constants, self._constant_data.data())
        return memory.reshape(-1)

    def results(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (heads, tokens, channels) that the program has left."""
        p = self.params
        found = np.zeros((self.heads, self._tiles * p.rows, self.head_dim), np.uint16)
        for tile in range(self._tiles):
            for head in range(self.heads):
                data = memory[self._result_line(head, tile) * p.line_bytes :]
                rows = from_bytes(p, Memory.ACTIVATIONS, data, self._words)
                values = fp16_values(p, rows, self.head_dim)
                found[head, tile * p.rows : (tile + 1) * p.rows] = values
        return found[:, : self.tokens]


def cache_rows(params: AndaParams, values: NDArray) -> NDArray:
    """Rows of K or V (tokens, channels) as the cache holds them: tile after tile of tokens."""
    words = -(-values.shape[1] // params.vector.row_lanes)
    tiles = range(0, len(values), params.rows)
    return np.concatenate(
        [fp16_rows(params, values[first : first + params.rows])[:words] for first in tiles]
    )


def attention_program(
    params: AndaParams,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    context: int,
    tokens: int = 1,
) -> list[Instruction]:
    """The program of :class:`Attention`."""
    return Attention(
        params=params,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=context,
        tokens=tokens,
    ).program()
