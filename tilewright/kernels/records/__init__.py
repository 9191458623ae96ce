"""Committed measurements (``tilewright kernels bench``), and what follows from them."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def load_records() -> dict[str, dict[str, Any]]:
    """Every record by its file's name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def layer_summary(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of ``layers`` with their share of the read bandwidth and speed over stock PyTorch.

    Both are of the same race: what reading alone, and stock PyTorch, got in the same rounds.
    """
    races: dict[tuple, dict[str, dict[str, Any]]] = {}
    for row in record["layers"]:
        key = (row["inputs"], row["outputs"], row["batch"])
        races.setdefault(key, {})[row["kernel"]] = row
    result = []
    for (inputs, outputs, batch), race in races.items():
        stock = race.get("stock bf16")
        for name, row in race.items():
            if name == "read":
                continue
            share = row["bytes_per_second"] / race["read"]["bytes_per_second"]
            over = stock["seconds"] / row["seconds"] if stock else None
            label = f"{inputs}x{outputs}"
            about = {"layer": label, "batch": batch, "kernel": name}
            result.append({**row, **about, "share_of_read": share, "over_stock": over})
    return result


def surface_errors(record: dict[str, Any], prediction: str = "predicted") -> list[float]:
    """Measured over predicted tile rate, of every point of the Roof-Surface."""
    return [row["tiles_per_second"] / row[prediction] for row in record["roof_surface"]]


def roof_lines(record: dict[str, Any], axis: str) -> dict[str, list[tuple[float, float]]]:
    """(value of ``axis``, seconds) that the sparse bf16 kernel takes at least.

    For memory the time in which reading alone goes through its weights, measured in the same
    race; for AMX that of its tile multiplications at the measured peak of all threads, so not
    along ``threads``.
    """
    rows = {(row["kernel"], row[axis]): row for row in record[axis]}
    sparse = {value: row for (kernel, value), row in rows.items() if kernel == "sparse bf16"}
    memory = [
        (value, row["bytes"] / rows["read", value]["bytes_per_second"])
        for value, row in sparse.items()
        if ("read", value) in rows
    ]
    lines = {"roof: memory": memory}
    if axis != "threads" and record["roofs"]["matrix"]:
        lines["roof: AMX"] = [
            (value, _tile_multiplications(row) / record["roofs"]["matrix"])
            for value, row in sparse.items()
        ]
    return {name: line for name, line in lines.items() if line}


def _tile_multiplications(row: dict[str, Any]) -> int:
    outputs, inputs, batch = row["outputs"], row["inputs"], row["batch"]
    return -(-outputs // 16) * -(-inputs // 32) * -(-batch // 16)


def int8_gains(record: dict[str, Any], batch: int = 1) -> dict[str, float]:
    """Sparse over dense int8 of every layer."""
    seconds: dict[tuple[str, str], float] = {
        (row["layer"], row["kernel"]): row["seconds"]
        for row in layer_summary(record)
        if row["batch"] == batch
    }
    layers = dict.fromkeys(layer for layer, _ in seconds)
    return {n: seconds[n, "dense int8"] / seconds[n, "sparse int8"] for n in layers}


def layer_table(record: dict[str, Any]) -> str:
    """The layers as a table in Markdown."""
    lines = [
        "| layer | batch | kernel | µs | GB/s | of reading, % | over stock, x |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for row in layer_summary(record):
        over = "" if row["over_stock"] is None else f"{row['over_stock']:.2f}"
        lines.append(
            f"| {row['layer']} | {row['batch']} | {row['kernel']} | {1e6 * row['seconds']:.1f}"
            f" | {row['bytes_per_second'] / 1e9:.1f} | {100 * row['share_of_read']:.0f} | {over} |"
        )
    return "\n".join(lines)


def curve_table(record: dict[str, Any], axis: str) -> str:
    """Microseconds of every kernel along ``sparsity``, ``batch`` or ``threads``, in Markdown.

    The last column is the roof: the time in which reading alone goes through the sparse weights.
    """
    rows = record[axis]
    kernels = [k for k in dict.fromkeys(row["kernel"] for row in rows) if k != "read"]
    lines = [
        f"| {axis} | {' | '.join(kernels)} | roof of sparse bf16 |",
        f"|--:|{'--:|' * (len(kernels) + 1)}",
    ]
    for value in dict.fromkeys(row[axis] for row in rows):
        here = {row["kernel"]: row for row in rows if row[axis] == value}
        cells = [f"{1e6 * here[k]['seconds']:.0f}" if k in here else "" for k in kernels]
        roof = 1e6 * here["sparse bf16"]["bytes"] / here["read"]["bytes_per_second"]
        lines.append(f"| {value:g} | {' | '.join(cells)} | {roof:.0f} |")
    return "\n".join(lines)


def surface_table(record: dict[str, Any]) -> str:
    """Predicted and measured tile rates in Markdown."""
    lines = [
        "| scheme | density | kernel | B/tile | flat, M/s | weighted, M/s | bound | measured |",
        "|---|--:|---|--:|--:|--:|---|--:|",
    ]
    for row in record["roof_surface"]:
        density = "" if row["density"] is None else f"{row['density']:g}"
        lines.append(
            f"| {row['scheme']} | {density} | {row['kernel']} | {row['tile_bytes']:.0f}"
            f" | {row['predicted_flat'] / 1e6:.0f} | {row['predicted'] / 1e6:.0f}"
            f" | {row['bound']} | {row['tiles_per_second'] / 1e6:.0f} |"
        )
    return "\n".join(lines)
