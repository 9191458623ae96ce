"""Committed measurements (``tilewright kernels bench``), and what follows from them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    *("LayerResult", "TokenResult", "int8_gains", "layer_summary", "load_model_records"),
    *("load_records", "roof_lines", "surface_errors", "token_summary"),
]

FOLDER = Path(__file__).parent


def load_records() -> dict[str, dict[str, Any]]:
    """Every record by its file's name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def load_model_records() -> dict[str, dict[str, Any]]:
    """Every record of whole models (``tilewright kernels model``) by its file's name."""
    files = sorted((FOLDER / "models").glob("*.json"))
    return {path.stem: json.loads(path.read_text()) for path in files}


@dataclass(frozen=True)
class TokenResult:
    """One model of a record of whole models, decoding."""

    model: str
    batch: int
    seconds: float  # of a step: one token of each sequence of the batch
    over_stock: float  # times as fast as stock PyTorch, which took turns with it
    rest_share: float  # of a step, outside the linear layers and the head


def token_summary(record: dict[str, Any]) -> list[TokenResult]:
    """Every model at every batch, with its speed over stock and what its layers leave."""
    stock = {
        row["batch"]: row["seconds"] for row in record["decode"] if row["model"] == "stock bf16"
    }
    spent: dict[tuple[str, int], dict[str, float]] = {}
    for row in record["operators"]:
        spent.setdefault((row["model"], row["batch"]), {})[row["operator"]] = row["seconds"]

    def rest_share(parts: dict[str, float]) -> float:
        return 1 - (parts["linear layers"] + parts["head"]) / sum(parts.values())

    return [
        TokenResult(
            row["model"],
            row["batch"],
            row["seconds"],
            stock[row["batch"]] / row["seconds"],
            rest_share(spent[row["model"], row["batch"]]),
        )
        for row in record["decode"]
    ]


@dataclass(frozen=True)
class LayerResult:
    """One kernel on one layer of the bench, beside reading alone and stock PyTorch."""

    layer: str  # inputs x outputs
    batch: int
    kernel: str
    seconds: float
    bytes_per_second: float
    share_of_read: float  # of the bandwidth that reading alone got in the same rounds
    over_stock: float | None  # times as fast as stock PyTorch; None where that did not run


def layer_summary(record: dict[str, Any]) -> list[LayerResult]:
    """Every kernel on every layer, with its share of the read bandwidth and its speed over stock.

    Both refer to the same race: what reading alone, and stock PyTorch, got in the same rounds.
    """
    races: dict[tuple[int, int, int], dict[str, dict[str, Any]]] = {}
    for row in record["layers"]:
        key = (row["inputs"], row["outputs"], row["batch"])
        races.setdefault(key, {})[row["kernel"]] = row
    return [
        LayerResult(
            layer=f"{inputs}x{outputs}",
            batch=batch,
            kernel=kernel,
            seconds=row["seconds"],
            bytes_per_second=row["bytes_per_second"],
            share_of_read=row["bytes_per_second"] / race["read"]["bytes_per_second"],
            over_stock=race["stock bf16"]["seconds"] / row["seconds"]
            if "stock bf16" in race
            else None,
        )
        for (inputs, outputs, batch), race in races.items()
        for kernel, row in race.items()
        if kernel != "read"
    ]


def surface_errors(record: dict[str, Any], prediction: str = "predicted") -> list[float]:
    """Measured over predicted rate of tiles, for every point of the Roof-Surface."""
    return [row["tiles_per_second"] / row[prediction] for row in record["roof_surface"]]


def roof_lines(record: dict[str, Any], axis: str) -> dict[str, list[tuple[float, float]]]:
    """Points (value of ``axis``, seconds) below which the sparse bf16 kernel cannot come.

    For memory it is the time in which reading alone goes through its weights, measured in the same
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
    """How many times as fast as dense int8 sparse int8 is, for every layer."""
    seconds = {
        (row.layer, row.kernel): row.seconds for row in layer_summary(record) if row.batch == batch
    }
    layers = dict.fromkeys(layer for layer, _ in seconds)
    return {n: seconds[n, "dense int8"] / seconds[n, "sparse int8"] for n in layers}
