"""What the SparAMX kernels took on a real processor, read from the committed record as data.

``python -m benchmarks.kernels layers`` makes the record: ``tilewright/kernels/records``.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.sim.perturbation import measured
from tilewright.sim.records import NoRecordError

__all__ = [
    *("batch_seconds", "layer_seconds", "long_context_seconds", "model_seconds"),
    *("record", "sparsity_seconds"),
]

RECORD = Path(__file__).parents[1] / "kernels" / "records" / "xeon-amx-16.json"
# Of whole models; ``python -m benchmarks.kernels model`` makes it.
MODEL_RECORD = RECORD.parent / "models" / RECORD.name


@cache
def _record(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise NoRecordError("no record of the kernels on a processor")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def record() -> dict[str, Any]:
    """The whole record."""
    return _record(RECORD)


def _seconds(section: str, **wanted: Any) -> float:
    for row in _record(RECORD)[section]:
        if all(row[name] == value for name, value in wanted.items()):
            return measured(f"silicon.{wanted['kernel'].replace(' ', '_')}", float(row["seconds"]))
    raise NoRecordError(f"no measurement of {wanted} among the {section} of the kernels' record")


def model_seconds(model: str, batch: int) -> float:
    """One step of a whole Llama 3 8B that decodes, one token of each sequence of the batch."""
    for row in _record(MODEL_RECORD)["decode"]:
        if (row["model"], row["batch"]) == (model, batch):
            return measured(f"silicon.{model.replace(' ', '_')}", float(row["seconds"]))
    raise NoRecordError(f"no measurement of {model} at batch {batch} among the whole models")


def sparsity_seconds() -> dict[float, float]:
    """One token of a whole Llama 3 8B along the share of zeros, batch 1, sparse bf16."""
    rows = _record(MODEL_RECORD)["sparsity"]
    return {row["sparsity"]: row["seconds"] for row in rows if row["model"] == "sparse bf16"}


def long_context_seconds(attention: str) -> float:
    """One token of a whole sparse Llama 3 8B at 16K context, by who attends to its cache."""
    for row in _record(MODEL_RECORD)["long_context"]:
        if (row["model"], row["attention"]) == ("sparse bf16", attention):
            return measured(f"silicon.attention_{attention}", float(row["seconds"]))
    raise NoRecordError(f"no measurement of the attention {attention!r} in a whole model")


def layer_seconds(layer: str, batch: int, kernel: str) -> float:
    """One multiplication as in a model, half of the weights zero; ``layer``: inputs x outputs."""
    inputs, outputs = (int(part) for part in layer.split("x"))
    return _seconds("in_model", inputs=inputs, outputs=outputs, batch=batch, kernel=kernel)


def batch_seconds(batch: int, kernel: str) -> float:
    """The layer that was measured along the batch."""
    return _seconds("batch", batch=batch, kernel=kernel)
