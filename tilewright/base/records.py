"""Records: committed results, as JSON of few lines.

A *table* is one file with many records, each under its name. Values that most of them share are
there once, as ``common``, and the unit and better direction of a metric once, in ``metrics``.
"""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic

WIDTH = 100
Table = dict[str, dict[str, Any]]


def record_text(data: Any) -> str:
    """Return ``data`` as JSON text whose lines have up to 100 columns.

    A list or an object is one line where it fits. Otherwise its numbers and words fill lines, and
    each list or object in an object begins a line.
    """
    return f"{_text(data, 0, 0)}\n"


def _text(value: Any, depth: int, column: int) -> str:
    """Return the text of ``value``, which begins in ``column`` of a line."""
    line = json.dumps(value)
    if column + len(line) < WIDTH or not isinstance(value, dict | list) or not value:
        return line
    indent = " " * (depth + 1)
    named = isinstance(value, dict)
    items = value.items() if isinstance(value, dict) else [("", part) for part in value]
    lines: list[str] = []
    room = 0  # that the last line has
    for key, part in items:
        start = f"{json.dumps(key)}: " if named else ""
        text = start + _text(part, depth + 1, len(indent + start))
        alone = "\n" in text or (named and isinstance(part, dict | list))
        if not alone and len(text) + 2 <= room:
            lines[-1] += f" {text},"
        else:
            lines.append(f"{indent}{text},")
        room = 0 if alone else WIDTH - len(lines[-1])
    lines[-1] = lines[-1].removesuffix(",")
    opening, closing = "{}" if named else "[]"
    return "\n".join([opening, *lines, " " * depth + closing])


def write_record(path: Path, data: Any) -> None:
    """Write :func:`record_text` of ``data`` to ``path``, whole or not at all."""
    write_atomic(path, record_text(data))


def load_table(path: Path) -> Table:
    """Return the records of the table ``path`` by name; none where there is no file."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text())
    table = {name: content["common"] | record for name, record in content["records"].items()}
    if about := content["metrics"]:
        for record in table.values():
            record["metrics"] = {
                name: {"value": value, "unit": about[name][0], "better": about[name][1]}
                for name, value in record["metrics"].items()
            }
    return table


@contextmanager
def updated_table(path: Path) -> Iterator[Table]:
    """Yield the records of a table, and write them back when the block ends well.

    Processes that update tables of one folder wait for each other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        table = load_table(path)
        yield table
        write_atomic(path, table_text(table))
    finally:
        os.close(folder)


def table_text(table: Table) -> str:
    """Return the text of a table, records sorted by name and each by its keys."""
    records = {name: dict(sorted(table[name].items())) for name in sorted(table)}
    about: dict[str, list[str]] = {}
    for name, record in records.items():
        metrics = record.get("metrics", {})
        if not all(isinstance(entry, dict) for entry in metrics.values()):
            continue  # bare numbers, whose units the record says otherwise
        for metric, entry in metrics.items():
            own = [entry["unit"], entry["better"]]
            if about.setdefault(metric, own) != own:
                raise ValueError(f"metric {metric!r} of {name} has another unit or direction")
        if metrics:
            record["metrics"] = {metric: entry["value"] for metric, entry in metrics.items()}
    common = _common(list(records.values()))
    rest = {
        name: {key: value for key, value in record.items() if common.get(key, ...) != value}
        for name, record in records.items()
    }
    return record_text({"common": common, "metrics": about, "records": rest})


def _common(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Values that more than half of the records have, of keys that all have."""
    common = {}
    for key in records[0] if records else ():
        if not all(key in record for record in records):
            continue
        ((text, count),) = Counter(json.dumps(r[key]) for r in records).most_common(1)
        if 2 * count > len(records):
            common[key] = json.loads(text)
    return common
