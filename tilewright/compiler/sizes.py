"""Sizes that a machine lays out: matrices in parts, tokens of steps, sequences in memory."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape


@dataclass(frozen=True)
class Matrix:
    """Weights (outputs, inputs), multiplied in parts of whole tiles of outputs."""

    name: str
    outputs: int
    inputs: int
    bits: int
    groups: int  # of one output, both halves of 8-bit weights
    part: int  # outputs that are worked on at a time; the last part may have fewer
    chunk: int  # outputs whose weights are loaded at a time
    piece: int = 0  # groups of their inputs that lie together in memory; 0: all

    @property
    def copies(self) -> int:
        """How often activations are laid out: once for each 4 bits of a weight."""
        return self.bits // 4

    @cached_property
    def parts(self) -> list[range]:
        """Outputs of every part."""
        firsts = range(0, self.outputs, self.part)
        return [range(first, min(first + self.part, self.outputs)) for first in firsts]

    @cached_property
    def _chunks(self) -> list[list[range]]:
        firsts = [range(own.start, own.stop, self.chunk) for own in self.parts]
        return [
            [range(first, min(first + self.chunk, own.stop)) for first in loads]
            for own, loads in zip(self.parts, firsts, strict=True)
        ]

    def chunks(self, part: int) -> list[range]:
        """Outputs of every load of a part."""
        return self._chunks[part]

    @property
    def part_chunks(self) -> int:
        return -(-self.part // self.chunk)

    @cached_property
    def pieces(self) -> list[range]:
        """Groups of a chunk, in the order in which their weights lie in memory."""
        size = self.piece or self.groups
        return [range(k, min(k + size, self.groups)) for k in range(0, self.groups, size)]


class Token(NamedTuple):
    """A token of a sequence, by its position there."""

    sequence: int
    position: int


@dataclass(frozen=True)
class Step:
    """Tokens that pass through all layers at once: consecutive ones of one sequence, or one of
    each of several."""

    tokens: tuple[Token, ...]

    @classmethod
    def prompt(cls, first: int, count: int, sequence: int = 0) -> "Step":
        return cls(tuple(Token(sequence, first + k) for k in range(count)))

    @classmethod
    def batch(cls, positions: dict[int, int]) -> "Step":
        """The next token of each sequence, at these positions."""
        return cls(tuple(Token(sequence, place) for sequence, place in positions.items()))

    @property
    def kind(self) -> str:
        if len(self.tokens) == 1:
            return "token"
        return "prompt" if len({token.sequence for token in self.tokens}) == 1 else "batch"

    def __post_init__(self) -> None:
        require(bool(self.tokens), "a step has at least one token")
        sequences = [token.sequence for token in self.tokens]
        if len(set(sequences)) == 1:
            first = self.tokens[0].position
            places = [token.position for token in self.tokens]
            require(places == list(range(first, first + len(places))), "tokens are consecutive")
        else:
            require(len(set(sequences)) == len(sequences), "a sequence has one token in a batch")

    @property
    def seen(self) -> tuple[tuple[int, int], ...]:
        """Sequences, and the tokens that each has after the step."""
        ends = {token.sequence: token.position + 1 for token in self.tokens}
        return tuple(ends.items())


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A model of one shape, with caches for ``sequences`` of up to ``context`` tokens each."""

    shape: LlmShape
    context: int
    sequences: int = 1
