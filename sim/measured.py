"""What the SparAMX kernels took on a real processor, read from the committed record as data.

``tilewright kernels bench`` makes the record: ``tilewright/kernels/records``.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.sim.inputs import measured
from tilewright.sim.records import NoRecordError

__all__ = [
    *("BLOCK", "attention_seconds", "batch_seconds", "block_seconds", "layer_seconds"),
    *("model_seconds", "record", "sparsity_seconds"),
]

RECORD = Path(__file__).parents[1] / "kernels" / "records" / "xeon-amx-16.json"
# Of whole models; ``tilewright kernels model`` makes it.
MODEL_RECORD = RECORD.parent / "models" / RECORD.name
# Linear layers of a block of Llama 3 8B, inputs x outputs: q, k, v, o, gate, up, down.
BLOCK = (
    *("4096x4096", "4096x1024", "4096x1024", "4096x4096"),
    *("4096x14336", "4096x14336", "14336x4096"),
)


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
    """The layer that was measured along the share of zeros, batch 1, sparse bf16."""
    rows = _record(RECORD)["sparsity"]
    return {row["sparsity"]: row["seconds"] for row in rows if row["kernel"] == "sparse bf16"}


def layer_seconds(layer: str, batch: int, kernel: str) -> float:
    """One multiplication, half of the weights zero; ``layer`` is inputs x outputs."""
    inputs, outputs = (int(part) for part in layer.split("x"))
    return _seconds("layers", inputs=inputs, outputs=outputs, batch=batch, kernel=kernel)


def block_seconds(batch: int, kernel: str) -> float:
    """Return the time of all linear layers of one decoder layer of Llama 3 8B."""
    return sum(layer_seconds(layer, batch, kernel) for layer in BLOCK)


def batch_seconds(batch: int, kernel: str) -> float:
    """The layer that was measured along the batch."""
    return _seconds("batch", batch=batch, kernel=kernel)


def attention_seconds(kernel: str) -> float:
    """The two products of a block's attention for one token at 16K context, pruned or dense."""
    return _seconds("attention", kernel=kernel)
