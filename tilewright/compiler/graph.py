"""The operations of a decoder layer, from the shape of a model and of no machine.

A matrix product leaves its outputs part by part, and what follows element by element works on each
part while the next is multiplied; so such work is named with the product that it follows.
"""

from dataclasses import dataclass

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape


@dataclass(frozen=True)
class Norm:
    """``result`` = RMS norm of ``source`` times a gain."""

    name: str
    source: str
    result: str

    def __str__(self) -> str:
        return f"{self.result} = norm({self.source}, {self.name})"


@dataclass(frozen=True)
class Matmul:
    """``source`` times matrices; ``then`` is done with every part of the outputs."""

    weights: tuple[str, ...]
    source: str
    then: tuple[str, ...]
    result: str = ""  # operand of a later product that the last of ``then`` gives

    @property
    def name(self) -> str:
        return "+".join(self.weights)

    def __str__(self) -> str:
        text = f"matmul({self.source}, {', '.join(self.weights)})"
        for step in self.then:
            text = f"{step}({text})"
        return f"{self.result} = {text}" if self.result else text


@dataclass(frozen=True)
class Attend:
    """Attention of the queries over the cache."""

    name: str = "attention"
    result: str = "attended"

    def __str__(self) -> str:
        return f"{self.result} = attend(queries, cache)"


Operation = Norm | Matmul | Attend


def refusal(shape: LlmShape) -> str:
    """Why no program is written for a model; empty where one is."""
    if shape.model_type not in ("llama", "mistral", "qwen2"):
        return f"a model of type {shape.model_type} is not supported: LLaMA, Mistral and Qwen2 are"
    for name, there in (
        ("experts", bool(shape.experts)),
        ("latent attention", bool(shape.latent)),
        ("a bias of attention's output projection", shape.output_bias),
        ("biases of gate, up and down", shape.feed_forward_bias),
        ("norms of queries and keys", bool(shape.query_norm)),
        ("attention sinks", shape.attention_sinks),
        ("norms after a layer's parts", shape.layer_norms != 2),
    ):
        if there:
            return f"{shape.name}: {name} are not supported"
    return ""


def layer_graph(shape: LlmShape) -> tuple[Operation, ...]:
    """Operations in the order of the data; keys and values first, so that the cache is written
    while queries are multiplied."""
    require(not refusal(shape), refusal(shape))
    bias = ("bias",) if shape.query_bias else ()
    return (
        Norm("attention_norm", "x", "normed"),
        Matmul(("k",), "normed", (*bias, "rotary", "append")),
        Matmul(("v",), "normed", (*bias, "append")),
        Matmul(("q",), "normed", (*bias, "rotary", "queries")),
        Attend(),
        Matmul(("output",), "attended", ("add",)),
        Norm("feed_norm", "x", "normed"),
        Matmul(("gate", "up"), "normed", ("silu",), result="gated"),
        Matmul(("down",), "gated", ("add",)),
    )


def matrix_sizes(shape: LlmShape) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of every matrix, that of the head among them."""
    width, inner = shape.hidden_size, shape.intermediate_size
    return {
        "k": (shape.kv_width, width),
        "v": (shape.kv_width, width),
        "q": (shape.query_width, width),
        "output": (width, shape.query_width),
        "gate": (inner, width),
        "up": (inner, width),
        "down": (width, inner),
        "head": (shape.vocab_size, width),
    }
