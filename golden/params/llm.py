"""The shape of a language model, in the words of Hugging Face's ``config.json``."""

from dataclasses import dataclass, field

from tilewright.golden.params.block import require

__all__ = ["MODEL_TYPES", "LlmShape"]

MODEL_TYPES = ("opt", "llama", "mistral")
LARGEST = 1 << 24  # no size is beyond it: a slip of the keyboard
OPT_POSITION_OFFSET = 2  # OPT's table of positions starts two rows late


@dataclass(frozen=True, kw_only=True)
class LlmShape:
    """Sizes of one decoder-only transformer; everything else follows from them.

    Two families. OPT has a plain feed-forward layer, layer norm, biases and learned positions;
    LLaMA and Mistral have a gated feed-forward layer, RMS norm, rotary positions and no biases.
    """

    model_type: str  # one of MODEL_TYPES
    name: str = field(default="", compare=False)
    hidden_size: int  # of a token between layers
    intermediate_size: int  # inner width of the feed-forward layer
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int  # each serves as many query heads
    head_dim: int
    vocab_size: int
    max_position_embeddings: int  # tokens of the longest sequence it was trained for
    tie_word_embeddings: bool = False  # the output projection is the embedding table
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    do_layer_norm_before: bool = True  # else there is no norm behind the last layer
    word_embed_proj_dim: int | None = None  # width of the embeddings where not ``hidden_size``

    def __post_init__(self) -> None:
        require(
            self.model_type in MODEL_TYPES,
            f"model_type must be one of {', '.join(MODEL_TYPES)}, not {self.model_type!r}",
        )
        for name in (
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"),
            *(("word_embed_proj_dim",) if self.word_embed_proj_dim is not None else ()),
        ):
            value = getattr(self, name)
            require(
                isinstance(value, int) and 1 <= value <= LARGEST,
                f"{name} must be 1..{LARGEST}, not {value!r}",
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

    @property
    def gated(self) -> bool:
        """Whether the feed-forward layer has a gate beside its up projection (SwiGLU)."""
        return self.model_type != "opt"

    @property
    def rotary(self) -> bool:
        """Whether positions are rotations of queries and keys; else they are learned."""
        return self.model_type != "opt"

    @property
    def biased(self) -> bool:
        """Whether projections and norms have biases."""
        return self.model_type == "opt"

    @property
    def query_width(self) -> int:
        """Queries of one token in one layer."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Keys of one token in one layer; there are as many values."""
        return self.num_key_value_heads * self.head_dim

    @property
    def linear_weights(self) -> int:
        """Weights of the projections of all layers: what a compression scheme acts on."""
        attention = self.hidden_size * (2 * self.query_width + 2 * self.kv_width)
        feed_forward = (3 if self.gated else 2) * self.hidden_size * self.intermediate_size
        return self.num_hidden_layers * (attention + feed_forward)

    @property
    def head_weights(self) -> int:
        """Weights of the output projection, which are the embeddings where tied."""
        return self.vocab_size * (self.word_embed_proj_dim or self.hidden_size)

    @property
    def parameters(self) -> int:
        """Every number of a checkpoint."""
        norms = 2 * self.num_hidden_layers + self.do_layer_norm_before
        total = self.linear_weights + norms * self.hidden_size * (2 if self.biased else 1)
        if self.biased:
            attention = self.query_width + 2 * self.kv_width + self.hidden_size
            feed_forward = self.intermediate_size + self.hidden_size
            total += self.num_hidden_layers * (attention + feed_forward)
        total += self.head_weights * (1 if self.tie_word_embeddings else 2)
        if self.word_embed_proj_dim:  # to the hidden size and back
            total += 2 * self.word_embed_proj_dim * self.hidden_size
        if not self.rotary:
            total += (self.max_position_embeddings + OPT_POSITION_OFFSET) * self.hidden_size
        return total

    def kv_elements(self, tokens: int) -> int:
        """Return the keys and values that ``tokens`` cached tokens leave in all layers."""
        return 2 * self.num_hidden_layers * self.kv_width * tokens
