"""Harmonia's golden models: all-layer block floating point and the compressed KV cache."""
