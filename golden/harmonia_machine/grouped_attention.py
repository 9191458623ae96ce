"""Heads that share K and V (grouped-query attention) as one program.

The tokens of a prompt fill the rows of the array head by head. Of a token that is decoded, all
heads of the group fill them at once: together they take as long as one of them.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia_machine.attention import Head
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory, Opcode

__all__ = ["GroupedAttention", "grouped_attention"]


@dataclass(frozen=True)
class GroupedAttention:
    """A program, what it starts with and where its results are."""

    builder: Builder
    head: Head
    heads: int
    prompt: int
    decoded: int  # tokens behind the prompt
    prompt_results: tuple[int, ...]  # lines, by head
    decoded_results: int  # line

    def attended(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (heads, tokens, channels)."""
        b, channels, rows = self.builder, self.head.channels, self.builder.params.rows
        first = [b.halves_results(memory, n, self.prompt, channels) for n in self.prompt_results]
        if not self.decoded:
            return np.stack(first)
        tiles = b.halves_results(memory, self.decoded_results, self.decoded * rows, channels)
        later = tiles.reshape(self.decoded, rows, channels)[:, : self.heads]
        return np.concatenate([np.stack(first), later.transpose(1, 0, 2)], axis=1)


def grouped_attention(
    params: HarmoniaParams,
    queries: NDArray[np.uint16],
    keys: NDArray[np.uint16],
    values: NDArray[np.uint16],
    *,
    prompt: int,
    checked: bool = True,
) -> GroupedAttention:
    """Q (heads, tokens, channels) and K, V (tokens, channels) are fp16 patterns.

    The first ``prompt`` tokens come at once, then the others one by one. Whether the program's
    result depends on timing is asked where it is ``checked``.
    """
    heads, tokens, channels = queries.shape
    require(keys.shape == values.shape == (tokens, channels), "K and V have other sizes than Q")
    require(1 <= heads <= params.rows, f"heads must be 1..{params.rows}, not {heads!r}")
    require(1 <= prompt <= tokens, f"prompt must be 1..{tokens}, the tokens, not {prompt!r}")
    b, decoded = Builder(params), tokens - prompt
    k, v = b.place_halves(keys), b.place_halves(values)
    prompt_queries = [b.place_halves(queries[h, :prompt]) for h in range(heads)]
    tile_lines = b.halves_lines(channels)
    token_queries = [b.place_halves(queries[:, t]) for t in range(prompt, tokens)]
    head = Head(b, channels, tokens)
    tiles = -(-prompt // params.rows)
    prompt_results = tuple(b.reserve(tiles * tile_lines) for _ in range(heads))
    decoded_results = b.reserve(decoded * tile_lines)

    def keep(first: int, tile: int) -> None:
        b.store(Memory.FP16, head.result_row, head.words, first + tile * tile_lines)

    head.prompt(prompt, k, v)
    for query, result in zip(prompt_queries, prompt_results, strict=True):
        head.attend_prompt(query, partial(keep, result))
    for t, query in enumerate(token_queries):
        head.append(k, v)
        head.attend_heads(heads, query)
        keep(decoded_results, t)
    if checked:
        b.halt()
    else:
        b.emit(Opcode.HALT)
    return GroupedAttention(b, head, heads, prompt, decoded, prompt_results, decoded_results)
