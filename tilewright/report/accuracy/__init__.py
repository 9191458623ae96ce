"""The sections of the page on accuracy, one module each, and what they share."""

from typing import Any

from tilewright.report.html import Markup, code, note

__all__ = ["PAPER", "WORST", "percent_loss", "record_source", "subject_of"]

WORST = 1.25  # perplexity, relative to full precision, up to which drawings go
PAPER = "4 bits, windows, offsets, factors"  # Harmonia as published


def record_source(name: str, record: dict[str, Any]) -> Markup:
    """Say which record a section shows, how it was made, and what its model can resolve."""
    return note(
        "The table of models of other families has the noise floor of SmolLM2: how far a perplexity"
        " moves by noise alone.",
        "Source:",
        code(f"tilewright/studies/accuracy/records/{name}.json"),
        "made by",
        code(record["command"]),
        f"with {record['engine']}, seed {record['seed']}.",
    )


def subject_of(record: dict[str, Any], part: str) -> str:
    """Say which model and which text an experiment used; ``part`` names the text."""
    subject = record["subject"]
    return (
        f"The model is {subject['model']}; its weights are {subject['weights']}. The {part} text is"
        f" {subject['text']}, {subject[f'{part}_tokens']} tokens in windows of"
        f" {subject['window']}."
    )


def percent_loss(perplexity: float, reference: float) -> float:
    """How much larger ``perplexity`` is than ``reference``, in percent."""
    return 100 * (perplexity / reference - 1)
