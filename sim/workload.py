"""The GEMMs of a model, by phase, batch and context; or those of a CSV file.

A GEMM takes ``rows`` activations of ``inner`` values through a matrix of ``inner`` by ``outer``
values, ``count`` times. For a projection the matrix is a weight matrix, for attention it is the
keys or values of one sequence that one key-value head keeps.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape

__all__ = ["Gemm", "decode", "linear", "prefill", "read_csv", "total_macs"]

LARGEST = 1 << 31  # no dimension, batch or context is beyond it: a slip of the keyboard
LONGEST_NUMBER = 20  # characters of a number in a table
MODULES = ("qkv", "o", "u", "d", "head", "attention", "other")


@dataclass(frozen=True, kw_only=True)
class Gemm:
    """``count`` GEMMs of the same shape."""

    name: str
    module: str  # which activation feeds it, in the words of the Anda paper; or attention, head
    rows: int
    inner: int
    outer: int
    count: int = 1

    def __post_init__(self) -> None:
        for field in ("rows", "inner", "outer", "count"):
            value = getattr(self, field)
            require(
                1 <= value <= LARGEST, f"{self.name}: {field} must be 1..{LARGEST}, not {value!r}"
            )

    @property
    def macs(self) -> int:
        """Multiply-adds of all ``count`` repetitions."""
        return self.count * self.rows * self.inner * self.outer

    @property
    def matrix(self) -> int:
        """Values of the matrices of all ``count`` repetitions."""
        return self.count * self.inner * self.outer


def linear(model: LlmShape, rows: int) -> list[Gemm]:
    """The projections of all layers for ``rows`` tokens at once; without the output head."""
    gated = [("gate", "u", model.hidden_size, model.intermediate_size)] if model.gated else []
    shapes = [
        ("q", "qkv", model.hidden_size, model.query_width),
        ("k", "qkv", model.hidden_size, model.kv_width),
        ("v", "qkv", model.hidden_size, model.kv_width),
        ("o", "o", model.query_width, model.hidden_size),
        *gated,
        ("up", "u", model.hidden_size, model.intermediate_size),
        ("down", "d", model.intermediate_size, model.hidden_size),
    ]
    return [
        Gemm(
            name=name,
            module=module,
            rows=rows,
            inner=inner,
            outer=outer,
            count=model.num_hidden_layers,
        )
        for name, module, inner, outer in shapes
    ]


def attention(model: LlmShape, sequences: int, tokens: int, keys: int) -> list[Gemm]:
    """Scores and weighted values: ``tokens`` queries of each sequence meet ``keys`` cached tokens.

    The query heads that share a key-value head make up the rows of one GEMM. Every query meets
    every key: the mask of a causal model is not used to skip work, as in the papers.
    """
    rows = tokens * (model.num_attention_heads // model.num_key_value_heads)
    count = model.num_hidden_layers * model.num_key_value_heads * sequences
    width = model.head_dim
    return [
        Gemm(name="scores", module="attention", rows=rows, inner=width, outer=keys, count=count),
        Gemm(name="values", module="attention", rows=rows, inner=keys, outer=width, count=count),
    ]


def head(model: LlmShape, rows: int) -> Gemm:
    """The output projection, for the last token of each sequence."""
    inner = model.word_embed_proj_dim or model.hidden_size
    return Gemm(name="head", module="head", rows=rows, inner=inner, outer=model.vocab_size)


def decode(model: LlmShape, batch: int, context: int) -> list[Gemm]:
    """One more token for each of ``batch`` sequences that have ``context`` tokens."""
    _check(model, batch, context)
    parts = [*linear(model, batch), *attention(model, batch, 1, context)]
    return [*parts, head(model, batch)]


def prefill(model: LlmShape, batch: int, context: int) -> list[Gemm]:
    """All of ``context`` tokens of each of ``batch`` sequences at once."""
    _check(model, batch, context)
    parts = [*linear(model, batch * context), *attention(model, batch, context, context)]
    return [*parts, head(model, batch)]


def _check(model: LlmShape, batch: int, context: int) -> None:
    require(1 <= batch <= 1 << 16, f"batch must be 1..{1 << 16}, not {batch!r}")
    require(1 <= context <= 1 << 24, f"context must be 1..{1 << 24} tokens, not {context!r}")


def read_csv(path: Path) -> list[Gemm]:
    """Read the GEMMs of a table with the columns name, rows, inner, outer and, at will, count."""
    with path.open(newline="") as file:
        try:
            return list(_rows(path, csv.DictReader(file)))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} is not a CSV table: {error}") from None


def _rows(path: Path, table: "csv.DictReader[str]") -> Iterator[Gemm]:
    wanted = ("name", "rows", "inner", "outer")
    given = table.fieldnames or ()
    missing = [column for column in wanted if column not in given]
    require(bool(given), f"{path} is empty; its first line names columns: {', '.join(wanted)}")
    require(
        not missing,
        f"{path}: no column {', '.join(missing)}; its first line names {', '.join(given)}",
    )
    empty = True
    for row in table:
        empty = False
        numbers = {}
        for column in ("rows", "inner", "outer", "count"):
            text = row.get(column) or ("1" if column == "count" else "")
            require(
                text.strip().isascii() and text.strip().isdigit() and len(text) < LONGEST_NUMBER,
                f"{path}, line {table.line_num}: {column} must be a number, not {text!r}",
            )
            numbers[column] = int(text)
        name = row["name"]
        require(bool(name.strip()), f"{path}, line {table.line_num}: the name is empty")
        yield Gemm(name=name, module="other", **numbers)
    require(not empty, f"{path} has no rows")


def total_macs(products: Sequence[Gemm]) -> int:
    """Return the multiply-adds of all of these GEMMs."""
    return sum(product.macs for product in products)
