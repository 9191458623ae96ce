"""Areas and energies of synthesised units, from the committed records.

Times of the SparAMX kernels on a real processor too. ``tilewright.sim.xeon.tile_cost`` takes the
names of ``KERNELS`` as engines, measured at batch 1: ``software-measured`` is the software for
DECA's tiles, ``look-up`` the one that decodes in registers. The record has, for every scheme and
kernel, how many tiles a second the cores' ports allow, and how many can be stored row by row and
loaded again as tiles. Over the rate of additions of vectors, both are cycles of a core.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.records import load_table
from tilewright.sim.calibration import measured
from tilewright.sim.scheme import WeightScheme

RECORDS = Path(__file__).parents[1] / "synth" / "records"
TECHNOLOGY = "asap7"


class NoRecordError(LookupError):
    """A result needs a record that is not there."""


_table = cache(load_table)


def read_record(kind: str, unit: str, goal: str = "") -> dict[str, Any]:
    """Return the ``synthesis``, ``energy``, ``system`` or ``layout`` record of a unit."""
    table = _table(RECORDS / f"{kind}.{TECHNOLOGY}.json")
    record = table.get(f"{unit}.{TECHNOLOGY}{goal and f'.{goal}'}")
    if record is None:
        raise NoRecordError(f"no {kind} record of {unit} in {TECHNOLOGY}{goal and f', {goal}'}")
    return record


def area_um2(unit: str, goal: str = "") -> float:
    """Cells and memories of a unit, in square micrometres; made small, or for another goal."""
    area = float(read_record("synthesis", unit, goal)["metrics"]["area"]["value"])
    return measured(f"{_block(unit)}.area", area)


def placed_hz(unit: str, goal: str = "") -> float:
    """Return the clock that a unit's layout holds after its last step."""
    metrics = read_record("layout", unit, goal)["metrics"]
    steps = ("period_routed", "period_global", "period_cts", "period_placed")
    period = next(metrics[step]["value"] for step in steps if step in metrics)
    return 1e12 / measured(f"{_block(unit)}.period", float(period))


def _block(unit: str) -> str:
    """Name a unit without its parameters: measurements of all sizes are one input."""
    return unit.partition("__")[0]


def system_um2(unit: str) -> float:
    """Logic and memories of a whole accelerator, in square micrometres; nothing is placed."""
    parts = read_record("system", unit)["parts"]
    return sum(float(sizes["logic"] + sizes["memory"]) for sizes in parts.values())


def energy_fj(unit: str, mantissa: float | None = None, mode: str | None = None) -> float:
    """Return the energy of a multiply-add on a real model's data, in one of the unit's modes.

    ``mantissa`` is the length of a unit that takes many; between two measured ones a line.
    """
    runs = read_record("energy", unit)["runs"]
    if mantissa is None:
        name = "real" if mode is None else f"real {mode}"
        if name not in runs:
            raise NoRecordError(f"no energy record of {unit} in {TECHNOLOGY}, {name}")
        return measured(f"{_block(unit)}.energy", float(runs[name]["total"]))
    prefix = "real m"
    known = sorted((int(n.removeprefix(prefix)), n) for n in runs if n.startswith(prefix))
    lengths = [length for length, _ in known]
    between = np.interp(mantissa, lengths, [runs[name]["total"] for _, name in known])
    return measured(f"{_block(unit)}.energy", float(between))


def deca_power_mw(run: str, figure: str = "total", unit: str = "deca") -> float:
    """Return the power of a DECA at full activity; ``run`` is a scheme and its data: ``bf8 real``.

    ``figure``: ``total`` of the netlist with its clock gates, ``least`` with no flip-flop clocked
    but where it changes.
    """
    runs = read_record("energy", unit)["runs"]
    if run not in runs:
        raise NoRecordError(f"no energy record of {unit} in {TECHNOLOGY}, {run}")
    return measured("deca.power", float(runs[run]["power"][figure]))


def deca_runs(unit: str = "deca") -> list[str]:
    """Return the names of the runs of a DECA's energy record, by the slug of its parameters."""
    return list(read_record("energy", unit)["runs"])


RECORD = Path(__file__).parents[1] / "kernels" / "records" / "xeon-amx-16.json"
# The record of whole models; ``python -m benchmarks.kernels model`` makes it.
MODEL_RECORD = RECORD.parent / "models" / RECORD.name


@cache
def read_json(path: Path, what: str) -> dict[str, Any]:
    """Return a record that is a file of its own; ``what`` it is, for messages."""
    if not path.exists():
        raise NoRecordError(f"no {what}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def row_of(record: dict[str, Any], section: str, what: str, /, **wanted: Any) -> dict[str, Any]:
    """Return the row of a record's section that has these values."""
    for row in record[section]:
        if all(row[name] == value for name, value in wanted.items()):
            return dict(row)
    raise NoRecordError(f"no {what} of {wanted} among the {section}")


def _of_kernels(path: Path) -> dict[str, Any]:
    return read_json(path, "record of the kernels on a processor")


def record() -> dict[str, Any]:
    return _of_kernels(RECORD)


def _seconds(path: Path, section: str, named: str, /, **wanted: Any) -> float:
    row = row_of(_of_kernels(path), section, "measurement", **wanted)
    return measured(f"silicon.{named.replace(' ', '_')}", float(row["seconds"]))


def model_seconds(model: str, batch: int) -> float:
    """One step of a whole Llama 3 8B that decodes, one token of each sequence of the batch."""
    return _seconds(MODEL_RECORD, "decode", model, model=model, batch=batch)


def sparsity_seconds() -> dict[float, float]:
    """One token of a whole Llama 3 8B along the share of zeros, batch 1, sparse bf16."""
    rows = _of_kernels(MODEL_RECORD)["sparsity"]
    return {row["sparsity"]: row["seconds"] for row in rows if row["model"] == "sparse bf16"}


def long_context_seconds(attention: str) -> float:
    """One token of a whole sparse Llama 3 8B at 16K context, by who attends to its cache."""
    wanted = {"model": "sparse bf16", "attention": attention}
    return _seconds(MODEL_RECORD, "long_context", f"attention_{attention}", **wanted)


def layer_seconds(layer: str, batch: int, kernel: str) -> float:
    """One multiplication as in a model, half of the weights zero; ``layer``: inputs x outputs."""
    inputs, outputs = (int(part) for part in layer.split("x"))
    wanted = {"inputs": inputs, "outputs": outputs, "batch": batch}
    return _seconds(RECORD, "in_model", kernel, **wanted, kernel=kernel)


def layer_rate(kernel: str) -> float:
    """Bytes a second that a kernel draws for one large layer, one row."""
    wanted = {"inputs": 4096, "outputs": 14336, "batch": 1, "kernel": kernel}
    row = row_of(record(), "layers", "measurement", **wanted)
    return float(row["bytes_per_second"])


def small_kernels_us(model: str, layers: int) -> float:
    """Microseconds of a layer, but for its products and attention, one row."""
    rows = (r for r in _of_kernels(MODEL_RECORD)["operators"] if r["model"] == model)
    apart = ("linear layers", "head", "attention")
    seconds = (r["seconds"] for r in rows if r["batch"] == 1 and r["operator"] not in apart)
    return 1e6 * sum(seconds) / layers


def batch_seconds(batch: int, kernel: str) -> float:
    """The layer that was measured along the batch."""
    return _seconds(RECORD, "batch", kernel, batch=batch, kernel=kernel)


# Kernels of the record, for elements of 16 bits and for codes.
KERNELS = {
    "software-measured": ("DECA tiles", "DECA tiles"),
    "look-up": ("SparAMX, vector order", "look-up, vector order"),
}
VECTOR_PORTS = 2


def measured_cycles(engine: str, scheme: WeightScheme) -> tuple[float, float]:
    """Cycles of a core's vector ports for one tile, and of all it does for it, at batch 1."""
    data = record()
    clock = data["roofs"]["instructions"]["vpadd"] / VECTOR_PORTS  # of all cores together
    row = _row(data, engine, scheme)
    vector = clock / row["vector"] if row["vector"] else 0.0
    through = clock / row["reload_rate"] if row["reload_rate"] else 0.0
    return vector, max(vector, through)


def _row(data: dict[str, Any], engine: str, scheme: WeightScheme) -> dict[str, Any]:
    density = float(scheme.density) if scheme.config.sparse else None
    bits = scheme.config.code_bits
    kernel = KERNELS[engine][bits < 16]
    wanted = ({16: "bf16", 8: "bf8", 4: "mxfp4"}.get(bits), kernel)
    rows = [r for r in data["roof_surface"] if (r["scheme"], r["kernel"]) == wanted]
    rows = [r for r in rows if (r["density"] is None) == (density is None)]
    if not rows:
        raise NoRecordError(f"no measurement of {scheme.name} by the kernel {kernel}")
    # Vector instructions do not depend on the density, so the nearest one that was measured counts.
    return min(rows, key=lambda r: abs((r["density"] or 1.0) - (density or 1.0)))
