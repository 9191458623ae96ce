"""What the records of real models and of a GPU say, as rows of tables for pages.

Records of models are made by ``python -m tilewright.cli.model_records``, that of a GPU by
``python -m benchmarks.torch_bench``.
"""

import json
from pathlib import Path
from typing import Any

from tilewright.claims import find_claim
from tilewright.studies.accuracy.records import RECORDS

__all__ = [
    *("CPU_BITS", "GPU_RECORD", "conversion_rows", "gpu_record", "model_name", "model_records"),
    *("floor_text", "noise_rows", "perplexity_rows", "size_rows", "sizes_text", "task_formats"),
    *("task_rows", "time_rows"),
]

GPU_RECORD = Path(__file__).parents[1] / "records" / "torch_gpu.json"
CPU_BITS = GPU_RECORD.with_name("torch_cpu.json")  # the comparison of bits alone
LENGTHS = (8, 6, 4)  # bits of every linear module's mantissas
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
        lengths = {m: change[f"Anda {m}/{m}/{m}/{m}"] for m in LENGTHS}
        caches = (change[f"Harmonia, {form}"] for form in ("4-bit cache", "windows, offsets"))
        size = f"{record['model']['parameters'] / 1e9:.2f} billion"
        rows.append([model_name(name), size, *_lengths(lengths), *map(_percent, caches)])
    anda = find_claim("harmonia.accuracy.anda_loss").numbers
    whole = find_claim("harmonia.accuracy.loss").numbers["kv4"] / 100
    theirs = {m: anda[f"m{m}"] / 100 for m in LENGTHS}
    cells = [*_lengths(theirs), "", _percent(whole)]
    return [*rows, ["papers, mean of five models", "6.7 to 13 billion", *cells]]


def _lengths(losses: dict[int, float]) -> list[str]:
    within = [length for length, loss in losses.items() if loss < KNEE]
    return [*map(_percent, losses.values()), f"{min(within)} bits" if within else "none"]


def floor_text(name: str = "smollm2-135m") -> str:
    """The noise floor of a model in words, which stand beside its tables."""
    record = model_records()[name]["perplexity"]
    parts = [
        f"{100 * row['change']:.2f}% with {row['format'] if row['format'] != 'plain' else 'none'}"
        for row in record["noise_floor"]
    ]
    return (
        "The noise floor, by how much a perplexity of this model moves if its embeddings alone are"
        f" changed by at most 2^-22 of themselves, is, by format, {'; '.join(parts)}"
        f" ({record['tokens']} tokens, weights as in the file)."
    )


def _by_format(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    return {row["format"]: row[key] for row in rows}


def _percent(change: float | None) -> str:
    return "" if change is None else f"{100 * change:+.1f}%"


def sizes_text(records: dict[str, dict[str, Any]]) -> str:
    """How many tokens each model was measured on, in words."""
    parts = [
        f"{model_name(name)} {record['perplexity']['tokens']}" for name, record in records.items()
    ]
    windows = {record["perplexity"]["window"] for record in records.values()}
    return f"{', '.join(parts)} tokens, windows of {' and '.join(map(str, sorted(windows)))}"


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


def gpu_record() -> dict[str, Any] | None:
    """The record of a GPU, if it has been made."""
    return json.loads(GPU_RECORD.read_text()) if GPU_RECORD.exists() else None


def conversion_rows(record: dict[str, Any]) -> list[list[str]]:
    """Conversion, terabytes per second, share of a copy and of what the vendor says."""
    return [
        [
            row["conversion"],
            f"{row['gigabytes_per_second'] / 1000:.2f}",
            f"{row['share_of_copy']:.0%}",
            f"{row['share_of_peak']:.0%}",
        ]
        for row in record["conversions"]
        if "error" not in row
    ]


def time_rows(record: dict[str, Any]) -> list[list[str]]:
    """Shape, windows at a time, format, milliseconds of a window, and times plain."""
    return [
        [
            found["shape"].upper(),
            str(found["batch"]),
            row["format"],
            f"{1000 * row['seconds'] / found['windows']:.1f}",
            f"{row['times_plain']:.2f}",
        ]
        for found in record["perplexities"]
        for row in found["times"]
        if "error" not in row
    ]
