"""Fields of a ``config.json``: read with their types, and none that may matter left unread."""

from collections.abc import Mapping
from reprlib import repr as shorten
from typing import Any

from tilewright.golden.params.llm import LARGEST

__all__ = ["DO_NOT_MATTER", "Fields"]

# Fields that change neither the number of parameters nor the work of a token: bookkeeping;
# activations, dropout and training; positions and scaling of scores; how experts are chosen.
HARMLESS = """
    model_type architectures auto_map transformers_version torch_dtype dtype use_cache
    _name_or_path is_decoder id2label label2id num_labels problem_type output_attentions
    output_hidden_states return_dict return_dict_in_generate chunk_size_feed_forward prefix
    bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id
    bad_words_ids task_specific_params tokenizer_class quantization_config is_llama_config
    _attn_implementation_autoset _num_labels transformers.js_config unsloth_fixed unsloth_version

    activation activation_function hidden_act hidden_activation hidden_dropout dropout
    activation_dropout attention_dropout attn_pdrop embd_pdrop resid_pdrop classifier_dropout
    layerdrop summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps initializer_range
    initializer_factor init_std gradient_checkpointing pretraining_tp ep_size
    attention_probs_dropout_prob hidden_dropout_prob

    rope_theta rope_scaling rope_parameters rope_local_base_freq rope_interleave rope_interleaved
    rotary_pct rotary_emb_base partial_rotary_factor original_max_position_embeddings
    no_rope_layers no_rope_layer_interval initial_context_length attn_temperature_tuning
    attn_scale floor_scale query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping
    cache_implementation scale_attn_by_inverse_layer_idx scale_attn_weights clip_qkv
    reorder_and_upcast_attn use_parallel_residual n_special predict_special_tokens swiglu_limit

    router_aux_loss_coef router_jitter_noise output_router_logits aux_loss_alpha seq_aux
    norm_topk_prob routed_scaling_factor scoring_func topk_method topk_group n_group
    num_nextn_predict_layers
"""
DO_NOT_MATTER = frozenset(HARMLESS.split())


class Fields:
    """The fields of one model; knows which of them have been read."""

    def __init__(self, name: str, content: Mapping[str, Any]):
        self.name = name
        self._given = frozenset(content)
        self._content = {key: value for key, value in content.items() if value is not None}
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def mentions(self, key: str) -> bool:
        """Whether ``key`` is there, be it null."""
        return key in self._given

    def refuse(self, message: str) -> ValueError:
        """Return the refusal of this model with ``message``."""
        return ValueError(f"{self.name}: {message}")

    def number(
        self, *keys: str, default: int | None = None, least: int = 1, most: int = LARGEST
    ) -> int:
        """Return the whole number of the first of ``keys`` that is given, or ``default``."""
        for key in keys:
            self._read.add(key)
        given = [key for key in keys if key in self._content]
        if not given:
            if default is None:
                raise self.refuse(f"it is not a config.json: {keys[0]} is missing")
            return default
        value = self._content[given[0]]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            kind = "a positive number" if least else "a number, 0 or more"
            raise self.refuse(f"{given[0]} must be {kind}, not {shorten(value)}")
        if value > most:
            raise self.refuse(f"{given[0]} must be {least}..{most}, not {shorten(value)}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Return whether ``key`` is true."""
        self._read.add(key)
        value = self._content.get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(f"{key} must be true or false, not {shorten(value)}")
        return value

    def numbers(self, key: str) -> list[int] | None:
        """Return the list of whole numbers ``key``; None where it is not given."""
        return self._items(key, int, "whole numbers")

    def words(self, key: str) -> list[str] | None:
        """Return the list of words ``key``; None where it is not given."""
        return self._items(key, str, "words")

    def _items(self, key: str, kind: type, what: str) -> list[Any] | None:
        self._read.add(key)
        value = self._content.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise self.refuse(f"{key} must be a list of {what}, not {shorten(value)}")
        return value

    def only(self, key: str, *values: Any) -> None:
        """Refuse any other value of ``key`` than these: the model would be another."""
        self._read.add(key)
        value = self._content.get(key, values[0])
        if value not in values:
            raise self.refuse(f"{key} {shorten(value)} is not understood")

    def finish(self, family: str) -> None:
        """Refuse a field that was not read and may matter."""
        for key, value in self._content.items():
            if key not in self._read and key not in DO_NOT_MATTER and value is not False:
                raise self.refuse(
                    f"field {key} is not understood in a model of type {family}; where it changes"
                    " neither sizes nor work, take it out of the file"
                )
