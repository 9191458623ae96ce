"""SparAMX: kernels for sparse weights on real processors, from committed measurements."""

from collections.abc import Iterable
from typing import Any

from tilewright.claims import load_claims
from tilewright.kernels.records import layer_summary, load_records, roof_lines, token_summary
from tilewright.report.claims import claims_section
from tilewright.report.html import (
    Markup,
    code,
    figure,
    join,
    note,
    paragraph,
    section,
    table,
)
from tilewright.report.measured import missing
from tilewright.report.page import Context, Page
from tilewright.report.plots import Series, bars, curves, scatter
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, tile_cost

TITLE = "SparAMX"
POSITION = 16

COMMAND = "python -m benchmarks.kernels layers -o tilewright/kernels/records/MACHINE.json"
GB, MILLION = 1e9, 1e6
# Weights of a rival, and those of ours with as many bits or fewer.
PEERS = {"bf16": "sparse bf16", "q8_0": "sparse int8", "q4_0": "sparse mxfp4"}
PEERS |= {"int8": "sparse int8", "int4": "sparse mxfp4"}
OPENVINO_LAYERS = 8  # of decoder layers, whose linear layers it ran
DECA_SCHEMES = ("mxfp4", "bf8", "bf8_50%", "bf8_30%", "bf8_20%", "bf8_10%", "bf8_5%", "bf16_50%")


def build(context: Context) -> Page:
    records, models, rivals, sharing = map(load_records, ("", "models", "rivals", "sharing"))
    return Page(
        summary="Sparse kernels on real processors: "
        + (f"measured on {_processors(records)}." if records else "not measured yet."),
        body=join(
            [
                *(_models(name, record) for name, record in models.items()),
                *(_sharing(name, record) for name, record in sharing.items()),
                *(_rivals(name, record, models.get(name)) for name, record in rivals.items()),
                *(_machine(name, record) for name, record in records.items()),
                _left_of_deca() if records else missing("the kernels' speed", COMMAND),
                claims_section(load_claims("sparamx").values()),
            ]
        ),
        data={"records": records, "models": models, "rivals": rivals},
    )


def _models(name: str, record: dict[str, Any]) -> Markup:
    """Tokens of a whole model: how long they take, and where the time goes."""
    plan, machine, packing = record["plan"], record["machine"], record["packing"][0]
    return section(
        "Whole models",
        paragraph(
            f"A model of the shape of Llama 3 8B ({plan['num_hidden_layers']} layers and the head,"
            f" random weights) decodes with {plan['context']} tokens before it. Stock PyTorch and"
            " the packed models are in one process with the environment as it is and take turns,"
            f" {plan['tokens']} tokens at a time; times are medians of {plan['rounds']} turns."
            f" Packing all of it took {packing['seconds']:.0f} s and"
            f" {packing['peak_bytes'] / packing['model_bytes']:.2f} times the model's memory."
        ),
        table(
            (
                *("Model", "Batch", "Time of a token, ms", "Faster than stock PyTorch, x"),
                "Outside linear layers, %",
            ),
            [
                (row.model, row.batch, 1e3 * row.seconds, row.over_stock, 100 * row.rest_share)
                for row in token_summary(record)
            ],
        ),
        _operators(name, record),
        _sparsities(name, record),
        _long_context(record),
        note(
            "Source:",
            code(f"tilewright/kernels/records/models/{name}.json"),
            "made by",
            code(record["command"]),
            f"with torch {machine['torch']} on {machine['processor']}.",
        ),
    )


def _operators(name: str, record: dict[str, Any]) -> Markup:
    """Draw where a token's time goes besides the linear layers, batch 1."""
    rows = [row for row in record["operators"] if row["batch"] == 1]
    shown = [n for n in ("stock bf16", "sparse bf16") if any(row["model"] == n for row in rows)]
    parts = _unique(
        row["operator"] for row in rows if row["operator"] not in ("linear layers", "head")
    )
    spent = {(row["model"], row["operator"]): 1e3 * row["seconds"] for row in rows}
    drawing = bars(
        f"{name}-operators",
        parts,
        {model: [spent.get((model, part), 0.0) for part in parts] for model in shown},
        x_label="time of a token, ms",
    )
    layers = ", ".join(
        f"{spent[model, 'linear layers'] + spent[model, 'head']:.1f} ms of {model}"
        for model in shown
    )
    return figure(
        drawing,
        f"What a token costs besides the linear layers and the head, which take {layers}; batch 1.",
    )


def _sparsities(name: str, record: dict[str, Any]) -> Markup:
    """Draw the time of a token along the share of zeros, with stock's beside it."""
    rows = record.get("sparsity", [])
    line: Series = [
        (100 * row["sparsity"], 1e3 * row["seconds"]) for row in rows if row["sparsity"] is not None
    ]
    stock = [1e3 * row["seconds"] for row in rows if row["sparsity"] is None]
    if len(line) < 2 or not stock:
        return Markup("")
    lines: dict[str, Series] = {
        "sparse bf16": line,
        "stock bf16": [(share, stock[0]) for share, _ in line],
    }
    drawing = curves(
        f"{name}-model-sparsity",
        lines,
        {"sparse bf16": line},
        x_label="sparsity, %",
        y_label="time of a token, ms",
        logarithmic=True,
    )
    return figure(drawing, "Time of a token of the whole model by the share of zeros; batch 1.")


def _long_context(record: dict[str, Any]) -> Markup:
    """Tokens with a long cache, by who attends to it."""
    rows = record.get("long_context", [])
    if not rows:
        return Markup("")
    return join(
        [
            paragraph(
                f"With {record['plan']['long_context']} tokens in the cache: as Transformers keeps"
                " it, packed dense, and packed with 30% of the keys and 50% of the values zero."
            ),
            table(
                ("Model", "Attention", "Time of a token, ms"),
                [(row["model"], row["attention"], 1e3 * row["seconds"]) for row in rows],
            ),
        ]
    )


def _sharing(name: str, record: dict[str, Any]) -> Markup:
    """Both models where processors are few or shared."""
    return section(
        "Few or shared processors",
        paragraph(
            f"{record['plan']['num_hidden_layers']} layers of the same shape, batch 1. Of two"
            " models or processes that run at once the slower one counts."
        ),
        table(
            ("Situation", "Stock, ms", "Sparse bf16, ms", "Faster than stock PyTorch, x"),
            [
                (row["situation"], 1e3 * stock, 1e3 * sparse, stock / sparse)
                for row in record["rows"]
                for stock, sparse in [[row[f"{n} bf16"]["seconds"] for n in ("stock", "sparse")]]
            ],
        ),
        note(
            "Source:",
            code(f"tilewright/kernels/records/sharing/{name}.json"),
            "made by",
            code(record["command"]),
        ),
    )


def _left_of_deca() -> Markup:
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
    return section(
        "What look-ups leave of DECA's gain",
        paragraph("Predicted for batch 1 with HBM, from the costs of both in cycles of a core."),
        table(("Scheme", "DECA over the paper's software, x", "DECA over look-ups, x"), rows),
    )


def _rivals(name: str, record: dict[str, Any], models: dict[str, Any] | None) -> Markup:
    """Other programs on the same machine, and the packed model of as many bits or fewer."""
    ours = _comparable(models) if models else {}
    rows = []
    for row in record["rows"]:
        peer = PEERS.get(row["type"], "")
        here = ours.get((row["program"], peer, row["batch"]))
        there = row.get("milliseconds")
        gain = there / here if here and there else None
        about = (row["program"], row["type"], row["batch"], row["part"], there or "failed")
        rows.append((*about, peer, here, gain))
    header = ("Program", "Weights", "Batch", "What", "Time, ms")
    return section(
        "Other programs",
        table((*header, "Ours", "Our time, ms", "Ours faster, x"), rows),
        note(
            "Source:",
            code(f"tilewright/kernels/records/rivals/{name}.json"),
            "made by",
            code(record["command"]),
            "right after the whole models, in processes of their own.",
        ),
    )


def _comparable(record: dict[str, Any]) -> dict[tuple[str, str, int], float]:
    """Milliseconds of ours by program, model and batch: of a token, and of some linear layers."""
    share = OPENVINO_LAYERS / record["plan"]["num_hidden_layers"]
    found = {
        ("llama.cpp", row["model"], row["batch"]): 1e3 * row["seconds"] for row in record["decode"]
    }
    return found | {
        ("OpenVINO", row["model"], row["batch"]): 1e3 * row["seconds"] * share
        for row in record["operators"]
        if row["operator"] == "linear layers"
    }


def _processors(records: dict[str, dict[str, Any]]) -> str:
    return ", ".join(record["machine"]["processor"] for record in records.values())


def _machine(name: str, record: dict[str, Any]) -> Markup:
    machine, roofs = record["machine"], record["roofs"]
    return section(
        machine["processor"],
        paragraph(
            f"{roofs['threads']} threads read memory at {roofs['read_bytes'] / GB:.1f} GB/s. The"
            " kernels of a layer took turns with each other and with a plain read of the same"
            " bytes; times are medians. In a model, a small operator of PyTorch follows each call"
            " and nobody rests; alone, threads of the others have come to rest. All weights"
            f" together have {record['plan']['working_set'] / GB:.2f} GB, so that they come from"
            " memory and not from a cache."
        ),
        _layers(record),
        _curve(name, record, "sparsity", "sparsity, %", 100),
        _curve(name, record, "batch", "batch", 1),
        _curve(name, record, "threads", "threads", 1),
        _surface(name, record),
        paragraph(
            "Attention for one token at a context of 16K, scores, softmax and values, a layer of"
            " Llama 3 8B: 30% of the keys and 50% of the values zero, dense, and PyTorch's."
        ),
        table(
            ("Attention", "Time, µs", "Rate, GB/s"),
            [
                (row["kernel"], 1e6 * row["seconds"], row["bytes_per_second"] / GB)
                for row in record["attention"]
            ],
        ),
        note(
            "Source:",
            code(f"tilewright/kernels/records/{name}.json"),
            "made by",
            code(COMMAND),
            f"with {machine['compiler']}, numpy {machine['numpy']}, torch {machine['torch']}.",
        ),
    )


def _layers(record: dict[str, Any]) -> Markup:
    return table(
        (
            *("Layer", "Batch", "Kernel", "Time in a model, µs", "Faster than stock there, x"),
            *("Time alone, µs", "Rate, GB/s", "Rate of a plain read, %"),
            "Faster than stock alone, x",
        ),
        [
            (
                row.layer,
                row.batch,
                row.kernel,
                None if row.in_model is None else 1e6 * row.in_model,
                row.over_stock_in_model,
                1e6 * row.seconds,
                row.bytes_per_second / GB,
                100 * row.share_of_read,
                row.over_stock,
            )
            for row in layer_summary(record)
        ],
    )


def _curve(name: str, record: dict[str, Any], axis: str, label: str, factor: float) -> Markup:
    """Draw the time of a layer along one axis, with a line per kernel."""
    rows = [row for row in record[axis] if row["kernel"] != "read"]
    lines: dict[str, Series] = {
        kernel: [
            (factor * row[axis], 1e6 * row["seconds"]) for row in rows if row["kernel"] == kernel
        ]
        for kernel in _unique(row["kernel"] for row in rows)
    }
    several = {kernel: line for kernel, line in lines.items() if len(line) > 1}
    if not several:
        return Markup("")
    shape = f"{rows[0]['inputs']} x {rows[0]['outputs']}"
    roofs: dict[str, Series] = {
        roof: [(factor * value, 1e6 * seconds) for value, seconds in line]
        for roof, line in roof_lines(record, axis).items()
    }
    drawing = curves(
        f"{name}-{axis}",
        several | roofs,
        several,
        x_label=label,
        y_label="time, µs",
        logarithmic=True,
    )
    return figure(
        drawing,
        f"Time of a layer of {shape} by {label.partition(',')[0]}. The roofs are those of the"
        " sparse bf16 kernel.",
    )


def _surface(name: str, record: dict[str, Any]) -> Markup:
    """Draw tile rates predicted by the Roof-Surface against those measured."""
    rows = record["roof_surface"]
    if not rows:
        return Markup("")
    points = {
        kernel: [
            (_point(row), row["predicted"] / MILLION, row["tiles_per_second"] / MILLION)
            for row in rows
            if row["kernel"] == kernel
        ]
        for kernel in _unique(row["kernel"] for row in rows)
    }
    drawing = scatter(
        f"{name}-surface",
        points,
        x_label="predicted, million tiles/s",
        y_label="measured, million tiles/s",
        diagonal=True,
    )
    return figure(
        drawing,
        "Tiles per second that the Roof-Surface predicts from the memory, vector and matrix rates"
        " of this machine and the instructions of the kernels, and those measured. On the line the"
        " two are equal.",
    )


def _point(row: dict[str, Any]) -> str:
    return row["scheme"] if row["density"] is None else f"{row['scheme']} {row['density']:.0%}"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
