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
