"""What the records of real models and of a GPU say, as rows of tables for pages.

Records of models are made by ``python -m tilewright.cli.model_records``, that of a GPU by
``python -m benchmarks.torch_bench``.
"""

import json
from pathlib import Path
from typing import Any

from tilewright.studies.accuracy.records import RECORDS

__all__ = [
    *("CPU_BITS", "GPU_RECORD", "conversion_rows", "gpu_record", "model_name", "model_records"),
    *("noise_rows", "perplexity_rows", "sizes_text", "task_formats", "task_rows", "time_rows"),
]

GPU_RECORD = Path(__file__).parents[1] / "records" / "torch_gpu.json"
CPU_BITS = GPU_RECORD.with_name("torch_cpu.json")  # the comparison of bits alone
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
    """A row for each format with its change of perplexity in each model, then the noise floors."""
    columns = [record["perplexity"] for record in records.values()]
    plain = [_by_format(column["perplexities"], "perplexity")["plain"] for column in columns]
    rows = [["plain, perplexity", *(f"{value:.2f}" for value in plain)]]
    changes = [_by_format(column["perplexities"], "change") for column in columns]
    for name in dict.fromkeys(name for column in changes for name in column if name != "plain"):
        rows.append([name, *(_percent(column.get(name)) for column in changes)])
    floors = [_by_format(column["noise_floor"], "change") for column in columns]
    for name in dict.fromkeys(name for column in floors for name in column):
        cells = [f"{100 * column[name]:.2f}%" if name in column else "" for column in floors]
        rows.append([f"noise floor, {name}", *cells])
    return rows


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
