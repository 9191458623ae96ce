"""Kernels for sparse weights on real processors, from committed measurements."""

from collections.abc import Iterator
from typing import Any

from tilewright.base.table import Column, Table
from tilewright.kernels.records import layer_summary, load_records, roof_lines, token_summary
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, tile_cost
from tilewright.site.html import Markup
from tilewright.site.plots import Series, bars, curves, scatter

GB, MILLION = 1e9, 1e6
MACHINE = "xeon-amx-16"  # whose measurements are shown
# A rival's weights, and those of ours with as many bits or fewer.
PEERS = {"bf16": "sparse bf16", "q8_0": "sparse int8", "q4_0": "sparse mxfp4"}
PEERS |= {"int8": "sparse int8", "int4": "sparse mxfp4"}
OPENVINO_LAYERS = 8  # of decoder layers, whose linear layers it ran
DECA_SCHEMES = ("mxfp4", "bf8", "bf8_50%", "bf8_30%", "bf8_20%", "bf8_10%", "bf8_5%", "bf16_50%")
AXES = {"sparsity": ("sparsity, %", 100.0), "batch": ("batch", 1.0), "threads": ("threads", 1.0)}


def _record(kind: str = "") -> dict[str, Any]:
    """The record of a kind of measurement; the kernels of single layers have no name."""
    return load_records(kind)[MACHINE]


def processor() -> str:
    """The name of the processor that was measured."""
    name: str = _record()["machine"]["processor"]
    return name


def tokens() -> Table:
    """Time of a token of a whole model."""
    columns: dict[str, Column] = {
        "Model": "model",
        "Batch": "batch",
        "Time of a token, ms": lambda row: 1e3 * row.seconds,
        "Faster than stock PyTorch, x": "over_stock",
        "Outside linear layers, %": lambda row: 100 * row.rest_share,
    }
    return Table.of(token_summary(_record("models")), columns)


def operators() -> Markup:
    """The time of a token outside the linear layers and the head, batch 1."""
    rows = [row for row in _record("models")["operators"] if row["batch"] == 1]
    shown = [n for n in ("stock bf16", "sparse bf16") if any(row["model"] == n for row in rows)]
    linear = ("linear layers", "head")
    found = (row["operator"] for row in rows if row["operator"] not in linear)
    parts = list(dict.fromkeys(found))
    spent = {(row["model"], row["operator"]): 1e3 * row["seconds"] for row in rows}
    groups = {model: [spent.get((model, part), 0.0) for part in parts] for model in shown}
    title = "A token of Llama 3 8B's shape outside linear layers and head, batch 1"
    return bars(title, parts, groups, x_label="time, ms")


def sparsities() -> Markup:
    """Time of a token of the whole model by the share of zeros."""
    rows = _record("models")["sparsity"]
    line: Series = [
        (100 * row["sparsity"], 1e3 * row["seconds"]) for row in rows if row["sparsity"] is not None
    ]
    (stock,) = (1e3 * row["seconds"] for row in rows if row["sparsity"] is None)
    lines: dict[str, Series] = {
        "sparse bf16": line,
        "stock bf16": [(share, stock) for share, _ in line],
    }
    title = "A token of Llama 3 8B's shape by the share of zeros, batch 1"
    return curves(
        title,
        lines,
        {"sparse bf16": line},
        x_label="sparsity, %",
        y_label="time, ms",
        logarithmic=True,
    )


def long_context() -> Table:
    """Tokens with a long cache, by the implementation of attention."""
    columns: dict[str, Column] = {
        "Model": "model",
        "Attention": "attention",
        "Time of a token, ms": lambda row: 1e3 * row["seconds"],
    }
    return Table.of(_record("models")["long_context"], columns)


def rivals() -> Table:
    """Other programs on the same machine, and the packed model of as many bits or fewer."""
    models = _record("models")
    share = OPENVINO_LAYERS / models["plan"]["num_hidden_layers"]
    ours = {
        ("llama.cpp", row["model"], row["batch"]): 1e3 * row["seconds"] for row in models["decode"]
    }
    ours |= {
        ("OpenVINO", row["model"], row["batch"]): 1e3 * row["seconds"] * share
        for row in models["operators"]
        if row["operator"] == "linear layers"
    }

    def here(row: dict[str, Any]) -> float | None:
        return ours.get((row["program"], PEERS.get(row["type"], ""), row["batch"]))

    def gain(row: dict[str, Any]) -> float | None:
        mine, theirs = here(row), row.get("milliseconds")
        return theirs / mine if mine and theirs else None

    columns: dict[str, Column] = {
        "Program": "program",
        "Weights": "type",
        "Batch": "batch",
        "What": "part",
        "Time, ms": lambda row: row.get("milliseconds", "failed"),
        "Ours": lambda row: PEERS.get(row["type"], ""),
        "Our time, ms": here,
        "Ours faster, x": gain,
    }
    return Table.of(_record("rivals")["rows"], columns)


def layer_times() -> Table:
    """Time of single layers, in a model and alone."""
    columns: dict[str, Column] = {
        "Layer": "layer",
        "Batch": "batch",
        "Kernel": "kernel",
        "Time in a model, µs": lambda row: row.in_model and 1e6 * row.in_model,
        "Faster than stock there, x": "over_stock_in_model",
        "Time alone, µs": lambda row: 1e6 * row.seconds,
        "Rate, GB/s": lambda row: row.bytes_per_second / GB,
        "Rate of a plain read, %": lambda row: 100 * row.share_of_read,
        "Faster than stock alone, x": "over_stock",
    }
    return Table.of(layer_summary(_record()), columns)


def layer_curves() -> Iterator[Markup]:
    """Time of a layer by sparsity, batch and threads, under the roofs of the sparse kernel."""
    record = _record()
    for axis, (label, factor) in AXES.items():
        rows = [row for row in record[axis] if row["kernel"] != "read"]
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            lines.setdefault(row["kernel"], []).append((factor * row[axis], 1e6 * row["seconds"]))
        several = {kernel: line for kernel, line in lines.items() if len(line) > 1}
        if not several:
            continue
        roofs = {
            roof: [(factor * value, 1e6 * seconds) for value, seconds in line]
            for roof, line in roof_lines(record, axis).items()
        }
        shape = f"{rows[0]['inputs']} x {rows[0]['outputs']}"
        yield curves(
            f"A layer of {shape} by {label.partition(',')[0]}",
            several | roofs,
            several,
            x_label=label,
            y_label="time, µs",
            logarithmic=True,
        )


def roof_surface() -> Markup:
    """Tiles per second that the Roof-Surface predicts, and those measured."""
    rows = _record()["roof_surface"]
    points: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        density = "" if row["density"] is None else f" {row['density']:.0%}"
        rates = row["predicted"] / MILLION, row["tiles_per_second"] / MILLION
        points.setdefault(row["kernel"], []).append((f"{row['scheme']}{density}", *rates))
    title = "Tiles a second by the Roof-Surface of this machine, predicted and measured"
    return scatter(
        title,
        points,
        x_label="predicted, million tiles/s",
        y_label="measured, million tiles/s",
        diagonal=True,
    )


def attention() -> Table:
    """Attention for one token at a context of 16K."""
    columns: dict[str, Column] = {
        "Attention": "kernel",
        "Time, µs": lambda row: 1e6 * row["seconds"],
        "Rate, GB/s": lambda row: row["bytes_per_second"] / GB,
    }
    return Table.of(_record()["attention"], columns)


def left_of_deca() -> Table:
    """How much faster DECA is, predicted, than the paper's software and than look-ups."""
    machine = SYSTEMS["spr-hbm"]
    rows = []
    for name in DECA_SCHEMES:
        scheme = resolve_weight_scheme(name)
        deca, *others = (
            tile_cost(machine, engine, scheme, 1).cycles
            for engine in ("deca", "software", "look-up")
        )
        rows.append((name, *(cycles / deca for cycles in others)))
    head = ("Scheme", "DECA over the paper's software, x", "DECA over look-ups, x")
    return Table(head, rows)
