"""The shape of a language model, which determines its parameters, work and cache.

:class:`LlmShape` is any decoder-only transformer of today; ``tilewright.sim.models`` reads it from
Hugging Face's ``config.json``, whose words the fields have where it has one.
"""

from dataclasses import dataclass, field
from typing import Annotated

from tilewright.golden.params.block import Limit, Limited, require

# Families whose projections and norms have biases and whose feed-forward layer has no gate.
PLAIN_TYPES = ("gpt2", "gpt_neox", "opt", "phi", "starcoder2")
# Families that learn a vector for every position instead of rotating queries and keys.
LEARNED_POSITIONS = ("gpt2", "opt")
MODEL_TYPES = (
    *("cohere", "cohere2", "deepseek_v2", "deepseek_v3", "falcon", "gemma", "gemma2"),
    *("gemma3_text", "glm", "glm4", "gpt2", "gpt_neox", "gpt_oss", "granite", "llama"),
    *("llama4_text", "minicpm", "minicpm3", "mistral", "mixtral", "olmo", "olmo2", "olmo3"),
    *("olmoe", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"),
    *("smollm3", "starcoder2"),
)
LARGEST = 1 << 24  # no size is beyond it: a slip of the keyboard
MOST_LAYERS = 1 << 12
OPT_POSITION_OFFSET = 2  # OPT's table of positions starts two rows late
QUERY_NORMS = ("", "head", "width")


def _size(least: int) -> Limit:
    """A whole number; None is left to fields that may be it."""
    return Limit(
        f"{least}..{LARGEST}",
        lambda value: value is None or (isinstance(value, int) and least <= value <= LARGEST),
    )


Size = Annotated[int, _size(1)]
OptionalSize = Annotated[int | None, _size(1)]


@dataclass(frozen=True, kw_only=True)
class Experts(Limited):
    """Feed-forward layers in which a router chooses a few of many experts for each token."""

    layers: Size  # layers that have experts; the others are dense
    count: Size  # experts of one layer that the router chooses from
    per_token: Size  # experts that it chooses for a token
    width: Size  # inner width of one expert
    shared_width: Annotated[int, _size(0)] = 0  # inner width of those that every token uses
    shared_gate: bool = False  # one more output of the router weighs the shared ones (Qwen)
    router_bias: bool = False  # a value for each expert besides the router's weights
    bias: bool = False  # the experts' projections have biases

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.per_token <= self.count,
            f"a token cannot use {self.per_token} of {self.count} experts",
        )

    def expected_distinct(self, tokens: int) -> float:
        """Return how many experts of a layer ``tokens`` tokens use, if each chooses at random."""
        if tokens == 1:
            return float(self.per_token)  # without rounding
        unused = (1 - self.per_token / self.count) ** tokens
        return self.count * (1 - unused)


@dataclass(frozen=True, kw_only=True)
class LatentAttention(Limited):
    """Multi-head latent attention (MLA): the cache has one short vector for all heads.

    Keys and values of every head follow from ``kv_rank`` values of a token; ``rotary_dim`` more,
    which all heads share, carry its position.
    """

    kv_rank: Size
    query_rank: OptionalSize  # values that queries are projected from; None: the token itself
    plain_dim: Size  # channels of a head's query and key without position
    rotary_dim: Size
    value_dim: Size  # channels of a head's value


@dataclass(frozen=True, kw_only=True)
class DeltaAttention(Limited):
    """Linear attention by the gated delta rule, after a short convolution (Gated DeltaNet).

    Instead of a cache each value head has a matrix, which a token decays, reads and changes.
    """

    layers: Size  # that have it; the others attend to a cache
    key_width: Size  # of the keys of all heads; queries have as many channels
    key_dim: Size  # of a head
    value_width: Size
    value_heads: Size
    taps: Size  # tokens that the convolution over queries, keys and values sees

    @property
    def channels(self) -> int:
        """Queries, keys and values of a token."""
        return 2 * self.key_width + self.value_width

    @property
    def state_bytes(self) -> int:
        """State of all layers of a sequence: matrices in fp32, the convolution's tokens in bf16."""
        return self.layers * (4 * self.key_dim * self.value_width + 2 * self.taps * self.channels)

    def projections(self, hidden: int) -> dict[str, tuple[int, int]]:
        """Return the weight matrices of one layer by name; the first gives the gates too."""
        gates = self.value_width + 2 * self.value_heads
        return {"qkvz": (hidden, self.channels + gates), "o": (self.value_width, hidden)}

    @property
    def others(self) -> int:
        """Parameters of one layer that are not of its projections."""
        heads = self.value_heads  # and a norm of one head's values
        return self.channels * self.taps + 2 * heads + self.value_width // heads


@dataclass(frozen=True, kw_only=True)
class LlmShape(Limited):
    """Sizes of one decoder-only transformer; everything else follows from them.

    GPT-2, GPT-NeoX, OPT, Phi and StarCoder2 have a plain feed-forward layer, layer norm and biases
    everywhere; all others have only those biases that a field names, and a gated feed-forward layer
    unless one says otherwise.
    """

    model_type: str  # one of MODEL_TYPES
    name: str = field(default="", compare=False)
    hidden_size: Size  # of a token between layers
    intermediate_size: Size  # inner width of a dense feed-forward layer
    num_hidden_layers: Size
    num_attention_heads: Size
    num_key_value_heads: Size  # each serves as many query heads
    head_dim: Size
    vocab_size: Size
    max_position_embeddings: Size  # tokens of the longest sequence it was trained for
    tie_word_embeddings: bool = False  # the output projection is the embedding table
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    do_layer_norm_before: bool = True  # else there is no norm after the last layer
    word_embed_proj_dim: OptionalSize = None  # width of the embeddings where not ``hidden_size``
    layer_norms: int = 2  # norms of ``hidden_size`` values in a layer
    norm_weights: bool = True  # else norms have no parameters (OLMo)
    norm_bias: bool = False  # norms have biases too (Falcon)
    plain_feed_forward: bool = False  # without a gate
    head_bias: bool = False  # of the output projection
    query_norm: str = ""  # queries and keys are normalised: by "head", or over their "width"
    query_bias: bool = False  # of queries, keys and values
    query_gate: bool = False  # as many outputs as queries gate what attention gives
    output_bias: bool = False  # of attention's output
    feed_forward_bias: bool = False
    attention_sinks: bool = False  # one learned score for each head besides those of the keys
    sliding_window: OptionalSize = None  # tokens that the queries of some layers look back
    sliding_layers: int = 0  # layers with that window; the others see the whole context
    experts: Experts | None = None
    latent: LatentAttention | None = None
    delta: DeltaAttention | None = None

    def __post_init__(self) -> None:
        require(
            self.model_type in MODEL_TYPES,
            f"model_type must be one of {', '.join(MODEL_TYPES)}, not {self.model_type!r}",
        )
        super().__post_init__()
        require(
            self.num_hidden_layers <= MOST_LAYERS,
            f"num_hidden_layers must be 1..{MOST_LAYERS}, not {self.num_hidden_layers}",
        )
        require(
            self.num_attention_heads % self.num_key_value_heads == 0,
            f"{self.num_attention_heads} heads cannot share"
            f" {self.num_key_value_heads} key-value heads",
        )
        require(
            not self.rotary or self.head_dim % 2 == 0,
            f"head_dim must be even for rotary positions, not {self.head_dim}",
        )
        require(
            self.query_norm in QUERY_NORMS,
            f"query_norm must be one of {QUERY_NORMS}, not {self.query_norm!r}",
        )
        windowed = self.num_hidden_layers if self.sliding_window is not None else 0
        expert_layers = 0 if self.experts is None else self.experts.layers
        delta_layers = 0 if self.delta is None else self.delta.layers
        for what, count, most in (
            ("sliding_layers", self.sliding_layers, windowed),
            ("layers with experts", expert_layers, self.num_hidden_layers),
            ("layers of linear attention", delta_layers, self.num_hidden_layers),
        ):
            require(0 <= count <= most, f"{what} must be 0..{most}, not {count!r}")

    @property
    def gated(self) -> bool:
        """Whether the feed-forward layer has a gate besides its up projection (SwiGLU)."""
        return self.model_type not in PLAIN_TYPES and not self.plain_feed_forward

    @property
    def rotary(self) -> bool:
        """Whether positions are rotations of queries and keys; else they are learned."""
        return self.model_type not in LEARNED_POSITIONS

    @property
    def biased(self) -> bool:
        """Whether all projections and norms have biases."""
        return self.model_type in PLAIN_TYPES

    @property
    def query_width(self) -> int:
        """Queries of one token in one layer."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Keys of one token in one layer; there are as many values."""
        return self.num_key_value_heads * self.head_dim

    @property
    def dense_layers(self) -> int:
        return self.num_hidden_layers - (0 if self.experts is None else self.experts.layers)

    @property
    def attention_layers(self) -> int:
        """Layers whose attention has a cache."""
        return self.num_hidden_layers - (0 if self.delta is None else self.delta.layers)

    @property
    def attention_projections(self) -> dict[str, tuple[int, int]]:
        """The weight matrices of one layer's attention by name: their inputs and outputs."""
        hidden, heads = self.hidden_size, self.num_attention_heads
        if self.latent is None:
            return {
                "q": (hidden, self.query_width * (1 + self.query_gate)),
                "k": (hidden, self.kv_width),
                "v": (hidden, self.kv_width),
                "o": (self.query_width, hidden),
            }
        a = self.latent
        queries = heads * (a.plain_dim + a.rotary_dim)
        down = {} if a.query_rank is None else {"q_down": (hidden, a.query_rank)}
        return down | {
            "q": (a.query_rank or hidden, queries),
            "kv_down": (hidden, a.kv_rank + a.rotary_dim),
            "kv": (a.kv_rank, heads * (a.plain_dim + a.value_dim)),
            "o": (heads * a.value_dim, hidden),
        }

    def feed_forward(self, width: int) -> dict[str, tuple[int, int]]:
        """Return the weight matrices of a feed-forward layer of inner width ``width`` by name."""
        gate = {"gate": (self.hidden_size, width)} if self.gated else {}
        return gate | {"up": (self.hidden_size, width), "down": (width, self.hidden_size)}

    @property
    def linear_weights(self) -> int:
        """Weights of the projections of all layers, which compression schemes apply to."""
        attention = self.attention_layers * _weights(self.attention_projections)
        if self.delta is not None:
            attention += self.delta.layers * _weights(self.delta.projections(self.hidden_size))
        total = attention + self.dense_layers * _weights(self.feed_forward(self.intermediate_size))
        if self.experts is not None:
            e = self.experts
            total += e.layers * _weights(self.feed_forward(e.count * e.width + e.shared_width))
        return total

    @property
    def router_weights(self) -> int:
        """Weights of all layers' routers, which are not compressed."""
        if self.experts is None:
            return 0
        outputs = self.experts.count + self.experts.shared_gate
        return self.experts.layers * self.hidden_size * outputs

    @property
    def head_weights(self) -> int:
        """Weights of the output projection, which are the embeddings where tied."""
        return self.vocab_size * (self.word_embed_proj_dim or self.hidden_size)

    @property
    def parameters(self) -> int:
        """Every number of a checkpoint."""
        total = self.linear_weights + self.router_weights
        total += self.num_hidden_layers * self.norm_weights * self.layer_norms * self._norm_values
        total += self.attention_layers * (self._attention_norms + self._attention_extras)
        if self.delta is not None:
            total += self.delta.layers * self.delta.others
        if self.norm_weights and self.do_layer_norm_before:
            total += self._norm_values
        if self.biased or self.feed_forward_bias:
            total += self.dense_layers * (self.intermediate_size + self.hidden_size)
        if self.experts is not None:
            e = self.experts
            total += e.layers * e.count * (e.router_bias + e.bias * self._expert_biases)
        total += self.head_weights * (1 if self.tie_word_embeddings else 2)
        total += self.vocab_size * self.head_bias
        if self.word_embed_proj_dim:  # to the hidden size and back
            total += 2 * self.word_embed_proj_dim * self.hidden_size
        if not self.rotary:
            offset = OPT_POSITION_OFFSET if self.model_type == "opt" else 0
            total += (self.max_position_embeddings + offset) * self.hidden_size
        return total

    @property
    def active_parameters(self) -> int:
        """Parameters used for one token: without other experts and an untied embedding table."""
        unused = 0
        if self.experts is not None:
            e = self.experts
            each = _weights(self.feed_forward(e.width)) + e.bias * self._expert_biases
            unused = e.layers * (e.count - e.per_token) * each
        return self.parameters - unused - (0 if self.tie_word_embeddings else self.head_weights)

    @property
    def _norm_values(self) -> int:
        return self.hidden_size * (2 if self.biased or self.norm_bias else 1)

    @property
    def _attention_norms(self) -> int:
        """Values of the norms inside one layer's attention."""
        total = 0
        if self.query_norm == "head":
            total += 2 * self.head_dim
        elif self.query_norm == "width":
            total += self.query_width + self.kv_width
        if self.latent is not None:
            total += self.latent.kv_rank + (self.latent.query_rank or 0)
        return total

    @property
    def _attention_extras(self) -> int:
        """Biases and sinks of one layer's attention."""
        queries = self.query_width + 2 * self.kv_width if self.biased or self.query_bias else 0
        output = self.hidden_size if self.biased or self.output_bias else 0
        return queries + output + self.attention_sinks * self.num_attention_heads

    @property
    def _expert_biases(self) -> int:
        """Values of the biases of one expert's gate, up and down projections."""
        return 0 if self.experts is None else 2 * self.experts.width + self.hidden_size

    @property
    def cached_per_token(self) -> int:
        """Values that a token leaves in the cache of one layer."""
        if self.latent is not None:
            return self.latent.kv_rank + self.latent.rotary_dim
        return 2 * self.kv_width

    def visible(self, tokens: int) -> list[tuple[int, int]]:
        """Return how many layers see how many of the last ``tokens`` tokens: (layers, tokens)."""
        if self.sliding_window is None or self.sliding_layers == 0 or tokens <= self.sliding_window:
            return [(self.attention_layers, tokens)]
        whole = self.attention_layers - self.sliding_layers
        windowed = (self.sliding_layers, self.sliding_window)
        return [(whole, tokens), windowed] if whole else [windowed]

    def kv_elements(self, tokens: int) -> int:
        """Return the values that ``tokens`` cached tokens leave in all layers."""
        return self.cached_per_token * sum(n * seen for n, seen in self.visible(tokens))


def _weights(matrices: dict[str, tuple[int, int]]) -> int:
    return sum(inner * outer for inner, outer in matrices.values())
