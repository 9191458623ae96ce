"""Committed measurements (``python -m benchmarks.kernels``), and what follows from them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LayerResult", "TokenResult", "layer_summary", "load_records", "roof_lines"]
__all__ += ["token_summary"]

FOLDER = Path(__file__).parent

Race = dict[str, dict[str, Any]]  # rows of one layer and batch by kernel


def load_records(kind: str = "") -> dict[str, dict[str, Any]]:
    """Every record by its file's name: of layers, or "models" or "rivals"."""
    files = sorted((FOLDER / kind).glob("*.json"))
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
    """One kernel on one layer of the bench, compared with a plain read and stock PyTorch.

    ``in_model`` is its time where a small operator of PyTorch follows each call without a rest,
    as in a model; the other times are of the kernel alone. None where PyTorch did not run.
    """

    layer: str  # inputs x outputs
    batch: int
    kernel: str
    in_model: float | None
    over_stock_in_model: float | None  # times as fast as stock PyTorch there
    seconds: float
    bytes_per_second: float
    share_of_read: float  # of the bandwidth that reading alone got in the same rounds
    over_stock: float | None  # times as fast as stock PyTorch alone


def layer_summary(record: dict[str, Any]) -> list[LayerResult]:
    """Every kernel on every layer, with its share of the read bandwidth and its speed over stock.

    Both refer to the same race: what reading alone, and stock PyTorch, got in the same rounds.
    """
    races, modelled = _races(record["layers"]), _races(record.get("in_model", []))

    def over_stock(race: Race, kernel: str) -> float | None:
        if "stock bf16" not in race or kernel not in race:
            return None
        return float(race["stock bf16"]["seconds"] / race[kernel]["seconds"])

    return [
        LayerResult(
            layer=f"{key[0]}x{key[1]}",
            batch=key[2],
            kernel=kernel,
            in_model=modelled.get(key, {}).get(kernel, {}).get("seconds"),
            over_stock_in_model=over_stock(modelled.get(key, {}), kernel),
            seconds=row["seconds"],
            bytes_per_second=row["bytes_per_second"],
            share_of_read=row["bytes_per_second"] / race["read"]["bytes_per_second"],
            over_stock=over_stock(race, kernel),
        )
        for key, race in races.items()
        for kernel, row in race.items()
        if kernel != "read"
    ]


def _races(rows: list[dict[str, Any]]) -> dict[tuple[int, int, int], Race]:
    found: dict[tuple[int, int, int], Race] = {}
    for row in rows:
        key = (row["inputs"], row["outputs"], row["batch"])
        found.setdefault(key, {})[row["kernel"]] = row
    return found


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
