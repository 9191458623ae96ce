"""The tables of docs/accuracy.md and docs/torch.md from the records.

Run by ``python -m tilewright.studies.accuracy.tables``.
"""

import re
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.claims import find_claim
from tilewright.studies.accuracy.frontier import HARMONIA
from tilewright.studies.accuracy.model_tables import (
    conversion_rows,
    gpu_record,
    model_records,
    noise_rows,
    perplexity_rows,
    size_rows,
    task_rows,
    time_rows,
)
from tilewright.studies.accuracy.records import load_record

__all__ = ["gpu_tables", "with_tables"]

PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"
TORCH_PAGE = PAGE.with_name("torch.md")
SHOWN = (
    *("8 bits", "4 bits", "4 bits, initial window", "4 bits, local window", "4 bits, windows"),
    *("4 bits, windows, offsets", "4 bits, windows, factors", "4 bits, windows, offsets, factors"),
    *(f"{m} bits for old tokens, windows, offsets" for m in (6, 5, 3, 2)),
)


def with_tables(text: str, made: dict[str, list[list[str]]] | None = None) -> str:
    """``text`` with the rows of the tables behind ``<!-- name -->`` made anew."""
    for name, rows in (tables() if made is None else made).items():
        lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        pattern = rf"(<!-- {name} -->\n\|[^\n]*\n\|[-|]*\n)(?:\|[^\n]*\n)*"
        # A table has no backslash, which would mean something in what replaces a match.
        text, count = re.subn(pattern, rf"\g<1>{lines}", text)
        if count != 1:
            raise ValueError(f"no place for the table {name}")
    return text


def tables() -> dict[str, list[list[str]]]:
    """Rows of every table of the page, by the name of the table."""
    search, sensitivity, kv, frontier = (
        _record(name) for name in ("search", "sensitivity", "kv", "frontier")
    )
    return {
        "searches": [
            *(_search_row("INT4", found) for found in search["searches"]),
            _search_row("as in the file", _record("search-file")),
        ],
        "lengths": _length_rows(sensitivity),
        "cache": _cache_rows(kv),
        "weights of the file": _file_rows(_record("kv-file")),
        "frontier": _frontier_rows(frontier),
        "speed": _speed_rows(_record("speed")),
        "models": perplexity_rows(model_records()),
        "sizes": size_rows(model_records()),
        "tasks": task_rows(model_records()),
        "noise of the tasks": noise_rows(model_records()),
    }


def gpu_tables() -> dict[str, list[list[str]]]:
    """Rows of the tables of the page on PyTorch."""
    record = gpu_record()
    if record is None:
        raise ValueError("no record of a GPU")
    return {"conversions": conversion_rows(record), "perplexities": time_rows(record)}


def _record(name: str) -> dict[str, Any]:
    found = load_record(name)
    if found is None:
        raise ValueError(f"no record of {name}")
    return found


def _loss(perplexity: float, reference: float) -> str:
    return f"{100 * (perplexity / reference - 1):+.1f}%"


def _search_row(weights: str, found: dict[str, Any]) -> list[str]:
    best, judged = found["best"], found["validation"]
    nearby = ["", ""]
    if "brute_force" in found:
        optimum = found["brute_force"]["best"]
        nearby = ["/".join(map(str, optimum["lengths"])), f"{optimum['saving']:.2f}"]
    return [
        weights,
        f"{found['tolerance']:.1%}",
        "/".join(map(str, best["lengths"])),
        f"{best['saving']:.2f}",
        _loss(best["perplexity"], found["reference"]),
        _loss(judged["perplexity"], judged["reference"]),
        f"{found['found_after']} of {len(found['trials'])}",
        *nearby,
    ]


def _length_rows(record: dict[str, Any]) -> list[list[str]]:
    paper = find_claim("harmonia.accuracy.anda_loss").numbers
    here = {row["length"]: row["perplexity"] for row in record["by_group"] if row["group"] == 64}
    return [
        [f"{m} bits", _loss(here[m], record["reference"]), f"{paper[f'm{m}']:+.1f}%"]
        for m in (8, 6, 4)
    ]


def _cache_rows(record: dict[str, Any]) -> list[list[str]]:
    rows = {row["name"]: row for row in record["variants"]}
    quiz = {row["name"]: row["first_choice"] for row in record["retrieval"]}
    full = rows["full precision"]
    return [
        [
            name,
            _loss(rows[name]["perplexity"], full["perplexity"]),
            f"{full['cache_bytes'] / rows[name]['cache_bytes']:.2f}",
            f"{quiz[name]:.0%}",
        ]
        for name in ("full precision", *SHOWN)
    ]


def _file_rows(record: dict[str, Any]) -> list[list[str]]:
    found = {row["name"]: row["perplexity"] for row in record["variants"]}
    full = found["full precision"]
    return [[name, _loss(found[name], full)] for name in ("full precision", *SHOWN)]


def _frontier_rows(record: dict[str, Any]) -> list[list[str]]:
    """Harmonia as published, and what was searched for: operations and traffic together."""
    full, reference = record["full"], record["reference"]
    paper = next(p for p in record["fixed"] if p["name"] == "4 bits, windows, offsets, factors")
    found = {"Harmonia, 8 and 4 bits": paper | {"name": "/".join(map(str, HARMONIA))}}
    for search in record["searches"]:
        if search["goal"] == "both" and search["best"] is not None:
            start = ", from Harmonia's" if len(search["starts"]) == 1 else ""
            words = f"{search['space']}{start}, {search['tolerance']:.1%}"
            found[words] = search["best"]
    return [
        [
            words,
            point["name"],
            *(f"{100 * point[price] / full[price]:.1f}%" for price in ("moved", "computed")),
            _loss(point["perplexity"], reference),
            _loss(point["validation"], record["validation_reference"]),
        ]
        for words, point in found.items()
    ]


def _speed_rows(record: dict[str, Any]) -> list[list[str]]:
    """Perplexity of the same tokens by format, and the two commands as they are by default."""
    plain = record["formats"][0]["cpu_seconds"]
    return [
        *(
            [
                f"{record['tokens']} tokens, {row['format']}",
                f"{row['seconds']:.0f} s",
                f"{row['cpu_seconds'] / plain:.2f}",
                f"{row['gigabytes']:.2f} GB",
            ]
            for row in record["formats"]
        ),
        *([f"`{r['command']}`", f"{r['seconds']:.0f} s", "", ""] for r in record["commands"]),
    ]


if __name__ == "__main__":
    write_atomic(PAGE, with_tables(PAGE.read_text()))
    write_atomic(TORCH_PAGE, with_tables(TORCH_PAGE.read_text(), gpu_tables()))
