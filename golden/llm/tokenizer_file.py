"""A tokenizer as JSON data, so that a compiled model carries its own."""

from typing import Any

from tilewright.golden.llm.tokenizer import BytePairs, Pieces, Tokenizer


def tokenizer_data(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    """JSON data for :func:`tokenizer_of`; None for a model without a tokenizer."""
    match tokenizer:
        case BytePairs():
            return {
                "kind": "byte pairs",
                "tokens": list(tokenizer.tokens),
                "merges": [list(pair) for pair in tokenizer.merges],
                "splitting": tokenizer.splitting,
            }
        case Pieces():
            return {
                "kind": "pieces",
                "tokens": list(tokenizer.tokens),
                "scores": dict(tokenizer.scores),
                "space_first": tokenizer.space_first,
                "whole": list(tokenizer.whole),
            }
    return None


def tokenizer_of(data: dict[str, Any] | None) -> Tokenizer | None:
    """Undo :func:`tokenizer_data`."""
    if data is None:
        return None
    if data["kind"] == "byte pairs":
        merges = [(first, second) for first, second in data["merges"]]
        return BytePairs(data["tokens"], merges, data["splitting"])
    return Pieces(
        data["tokens"],
        data["scores"],
        space_first=data["space_first"],
        whole=data.get("whole", ()),  # none in what earlier versions compiled
    )
