"""The GEMMs of a model, by phase, batch and context.

A GEMM takes ``rows`` activations of ``inner`` values through a matrix of ``inner`` by ``outer``
values, ``count`` times. For a projection the matrix is a weight matrix, for attention it is the
keys or values of one sequence that one key-value head keeps.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shorten

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape

# A larger number is a typing error.
LARGEST = 1 << 31  # of a dimension of a GEMM
LARGEST_MATRIX = 1 << 42  # values of a matrix; the largest models have some 2^41 in all
LARGEST_GEMM = 1 << 62  # multiply-adds
MOST_SEQUENCES, LONGEST_CONTEXT, MOST_TOKENS = 1 << 16, 1 << 24, 1 << 30
MOST_VERIFIED = 64  # tokens of a sequence that one step verifies; more are a part of a prompt
GROUP = re.compile(r"([0-9]{1,12})x([0-9]{1,12})")
MODULES = ("qkv", "o", "u", "d", "head", "router", "attention", "other")
EXPERT = "expert "  # begins the names of products with experts that a router chose
MODULE_OF = {"o": "o", "gate": "u", "up": "u", "down": "d"}  # by projection; the others are qkv


@dataclass(frozen=True)
class Gemm:
    """``count`` GEMMs of the same shape."""

    name: str
    module: str  # which activation feeds it, in the words of the Anda paper; or one of MODULES
    rows: int
    inner: int
    outer: int
    count: float = 1  # a mean where it depends on which experts tokens choose

    def __post_init__(self) -> None:
        for name in ("rows", "inner", "outer"):
            value = getattr(self, name)
            require(
                1 <= value <= LARGEST, f"{self.name}: {name} must be 1..{LARGEST}, not {value!r}"
            )
        require(
            0 < self.count <= LARGEST,
            f"{self.name}: count must be 1..{LARGEST}, not {self.count!r}",
        )
        require(
            self.inner * self.outer <= LARGEST_MATRIX
            and self.rows * self.inner * self.outer <= LARGEST_GEMM,
            f"{self.name}: {self.rows} x {self.inner} x {self.outer} is larger than any product of"
            " a model",
        )

    @property
    def macs(self) -> float:
        """Multiply-adds of all ``count`` repetitions."""
        return self.count * self.rows * self.inner * self.outer

    @property
    def matrix(self) -> float:
        """Values of the matrices of all ``count`` repetitions."""
        return self.count * self.inner * self.outer


@dataclass(frozen=True)
class Batch:
    """Sequences that are worked on together: pairs of how many, and how many tokens each has."""

    groups: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        require(bool(self.groups), "a batch has at least one sequence")
        for sequences, tokens in self.groups:
            require(
                1 <= sequences <= MOST_SEQUENCES,
                f"batch must be 1..{MOST_SEQUENCES}, not {sequences!r}",
            )
            require(
                1 <= tokens <= LONGEST_CONTEXT,
                f"context must be 1..{LONGEST_CONTEXT} tokens, not {tokens!r}",
            )
        require(
            self.sequences <= MOST_SEQUENCES and self.tokens <= MOST_TOKENS,
            f"a batch of {self.sequences} sequences with {self.tokens} tokens in all is beyond"
            f" {MOST_SEQUENCES} sequences or {MOST_TOKENS} tokens",
        )

    @property
    def sequences(self) -> int:
        return sum(sequences for sequences, _ in self.groups)

    @property
    def tokens(self) -> int:
        return sum(sequences * tokens for sequences, tokens in self.groups)

    @property
    def longest(self) -> int:
        return max(tokens for _, tokens in self.groups)

    @classmethod
    def parse(cls, text: str) -> "Batch":
        """Return the batch that ``SEQUENCESxTOKENS,...`` describes, such as ``8x128,2x4096``."""
        groups = []
        for part in text.split(","):
            found = GROUP.fullmatch(part.strip())
            require(
                found is not None,
                f"contexts are SEQUENCESxTOKENS,..., such as 8x128,2x4096, not {shorten(text)}",
            )
            assert found is not None
            groups.append((int(found[1]), int(found[2])))
        return cls(tuple(groups))

    def longer(self, tokens: int) -> "Batch":
        """Return the batch after as many more tokens of every sequence."""
        return Batch(tuple((sequences, length + tokens) for sequences, length in self.groups))


@dataclass(frozen=True)
class Pass:
    """The work of a step: the last ``new`` tokens of each sequence, or all of its prompt."""

    batch: Batch
    new: int | None = 1  # None: all tokens of each

    def __post_init__(self) -> None:
        require(
            self.new is None or 1 <= self.new <= LONGEST_CONTEXT,
            f"new tokens must be 1..{LONGEST_CONTEXT}, not {self.new!r}",
        )

    @property
    def prompt(self) -> bool:
        """Whether all tokens of each sequence are computed."""
        return self.new is None

    def queries(self, tokens: int) -> int:
        """Return how many tokens of a sequence of ``tokens`` are computed."""
        return tokens if self.new is None else min(self.new, tokens)

    @property
    def rows(self) -> int:
        """Tokens of all sequences that are computed."""
        return sum(sequences * self.queries(tokens) for sequences, tokens in self.batch.groups)

    @property
    def heads(self) -> int:
        """Tokens that the output head sees: the last of a prompt, or each that is verified."""
        return self.batch.sequences if self.new is None or self.new > MOST_VERIFIED else self.rows


def linear(model: LlmShape, rows: int) -> list[Gemm]:
    """The projections of all layers for ``rows`` tokens at once; without the output head.

    Of experts those are read that one of the tokens chose, if each chose at random.
    """

    def of(
        matrices: dict[str, tuple[int, int]], prefix: str, rows: int, count: float
    ) -> Iterator[Gemm]:
        for name, (inner, outer) in matrices.items():
            module = MODULE_OF.get(name, "qkv")
            yield Gemm(prefix + name, module, rows, inner, outer, count)

    found = [*of(model.attention_projections, "", rows, model.attention_layers)]
    if d := model.delta:
        found += of(d.projections(model.hidden_size), "delta ", rows, d.layers)
    if model.dense_layers:
        dense = model.feed_forward(model.intermediate_size)
        found += of(dense, "", rows, model.dense_layers)
    if model.experts is None:
        return found
    e = model.experts
    gates = e.count + e.shared_gate
    found.append(Gemm("router", "router", rows, model.hidden_size, gates, e.layers))
    for count, tokens in _tokens_of_experts(e.expected_distinct(rows), rows * e.per_token):
        found += of(model.feed_forward(e.width), EXPERT, tokens, e.layers * count)
    if e.shared_width:
        found += of(model.feed_forward(e.shared_width), "shared ", rows, e.layers)
    return found


def _tokens_of_experts(distinct: float, uses: int) -> Iterator[tuple[float, int]]:
    """Spread ``uses`` over ``distinct`` experts as evenly as whole tokens allow: (experts, tokens).

    Both sums are kept: every chosen expert's weights are read once, every use is a row.
    """
    fewer = max(1, int(uses / distinct))
    with_more = min(distinct, max(0.0, uses - fewer * distinct))
    for experts, tokens in ((distinct - with_more, fewer), (with_more, fewer + 1)):
        if experts > 1e-9 * distinct:
            yield experts, tokens


def attention(model: LlmShape, sequences: int, tokens: int, keys: int) -> list[Gemm]:
    """Scores and weighted values: ``tokens`` queries of each sequence meet ``keys`` cached tokens.

    The query heads that share a key-value head make up the rows of one GEMM. Every query meets
    every key that its layer's window lets it see: the mask of a causal model is not used to skip
    work, as in the papers. Where the cache has one vector for all heads (MLA), queries of a
    sequence that goes on meet these vectors themselves; a prompt makes the keys and values of
    every head of them.
    """
    heads, sharing = (
        model.num_key_value_heads,
        model.num_attention_heads // model.num_key_value_heads,
    )
    key_width = value_width = model.head_dim
    if model.latent is not None:
        a = model.latent
        if tokens == 1 or tokens < keys:
            heads, sharing = 1, model.num_attention_heads
            key_width, value_width = a.kv_rank + a.rotary_dim, a.kv_rank
        else:
            value_width = a.value_dim
    rows, found = tokens * sharing, []
    for layers, seen in model.visible(keys):
        count = layers * heads * sequences
        for name, inner, outer in (("scores", key_width, seen), ("values", seen, value_width)):
            found.append(Gemm(name, "attention", rows, inner, outer, count))
    if d := model.delta:  # a token's key reads a head's matrix and changes it, its query reads it
        size = (tokens, d.key_dim, d.value_width // d.value_heads)
        found.append(Gemm("state", "attention", *size, 3 * d.layers * d.value_heads * sequences))
    return found


def head(model: LlmShape, rows: int) -> Gemm:
    """The output projection, for the last token of each sequence."""
    inner = model.word_embed_proj_dim or model.hidden_size
    return Gemm("head", "head", rows, inner, model.vocab_size)


def work(model: LlmShape, step: Pass) -> list[Gemm]:
    """Everything that a step computes."""
    found = linear(model, step.rows)
    for sequences, tokens in step.batch.groups:
        found += attention(model, sequences, step.queries(tokens), tokens)
    return [*found, head(model, step.heads)]


def prefill(model: LlmShape, batch: int, context: int) -> list[Gemm]:
    """All of ``context`` tokens of each of ``batch`` sequences at once."""
    return work(model, Pass(Batch(((batch, context),)), None))


def total_macs(products: Sequence[Gemm]) -> float:
    """Return the multiply-adds of all of these GEMMs."""
    return sum(product.macs for product in products)


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes that a model needs, and those that the system has."""

    weights: float
    cache: float
    capacity: float
    fits: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fits", self.weights + self.cache <= self.capacity)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Time, energy and memory of one pass; ``ms_by_part`` has an entry ``head``."""

    scheme: str
    kv_format: str
    seconds: float
    formula_seconds: float | None = None  # of an accelerator: the bound beside ``seconds``
    # On an accelerator ``seconds`` are those of "programs" or of a "formula"; on a server they are
    # "predicted" by a model of its resources with fitted constants.
    kind: str = "predicted"
    pass_batch: int | None = None  # sequences of a pass, where they take turns
    utilisation: dict[str, float]
    bound: str
    ms_by_part: dict[str, float]
    joules_by_part: dict[str, float]
    memory_bytes: MemoryBytes
    remarks: tuple[str, ...]


def add_by_name(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Add what has the same name: products of several shapes, such as those of experts."""
    found: dict[str, float] = {}
    for name, value in parts:
        found[name] = found.get(name, 0.0) + value
    return found
