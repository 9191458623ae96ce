"""GGUF files as llama.cpp's converter writes them, by the package gguf."""

from contextlib import contextmanager

import gguf


def neighbours(weight, channels):
    """Rows of a projection with rotary pairs side by side, as llama.cpp's converter writes them."""
    heads = weight.reshape(-1, 2, channels // 2, weight.shape[1])
    return heads.swapaxes(1, 2).reshape(weight.shape)


def halves(weight, channels):
    """The inverse of :func:`neighbours`."""
    heads = weight.reshape(-1, channels // 2, 2, weight.shape[1])
    return heads.swapaxes(1, 2).reshape(weight.shape)


@contextmanager
def gguf_writer(path, config, epsilon, architecture="llama"):
    """A writer that has the shape of a model, and writes the file at the end."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(epsilon)
    yield writer
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
