"""The tables and measured sentences of docs/sparamx.md, from the committed record.

Run by ``python -m tilewright.studies.sparamx``. What stands behind ``<!-- NAME -->`` up to the next
empty line is made here; all other text of the page is written by hand.
"""

import re
from collections.abc import Iterable, Sequence
from math import exp, log
from pathlib import Path
from textwrap import fill
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.kernels.records import (
    int8_gains,
    layer_summary,
    load_model_records,
    load_records,
    surface_errors,
    token_summary,
)
from tilewright.sim.evaluations import EVALUATIONS

__all__ = ["PAGE", "model_parts", "page_parts", "with_parts"]

PAGE = Path(__file__).parents[2] / "docs" / "sparamx.md"
RECORD = "xeon-amx-16"
COLUMNS = 100
TILE_INPUTS, TILE_OUTPUTS, TILE_ROWS = 32, 16, 16  # of one AMX multiplication of bf16

Record = dict[str, Any]


def with_parts(text: str) -> str:
    """``text`` with every part behind its ``<!-- NAME -->`` made anew."""
    parts = page_parts(load_records()[RECORD]) | model_parts(load_model_records()[RECORD])
    for name, part in parts.items():
        pattern = rf"(<!-- {name} -->\n)(?:[^\n]+\n)*"
        # No part has a backslash, which would mean something in what replaces a match.
        text, count = re.subn(pattern, rf"\g<1>{part}\n", text)
        if count != 1:
            raise ValueError(f"no place for the part {name}")
    return text


def page_parts(record: Record) -> dict[str, str]:
    """Every part of the page by its name: tables and paragraphs in Markdown."""
    sentences = {
        "rounds": _rounds(record),
        "batch 1": _batch_1(record),
        "bounds": _bounds(record),
        "attention": _attention(record),
        "roofs": _roofs(record),
        "predictions": _predictions(record),
    }
    return {
        **{name: _paragraph(text) for name, text in sentences.items()},
        "layers": _layers(record),
        **{axis: _curve(record, axis) for axis in ("sparsity", "batch", "threads")},
        "surface": _surface(record),
        "claims": _claims(),
    }


def model_parts(record: Record) -> dict[str, str]:
    """The parts about whole models, from their own record."""
    sentences = {
        "models about": _models_about(record),
        "model operators": _operator_sentence(),
        "model rows": _row_sentence(record),
        "rivals about": _rivals_about(),
    }
    return {
        **{name: _paragraph(text) for name, text in sentences.items()},
        "models": _models(record),
        "operators": _operators(record),
        "rows": _rows(record),
        "rivals": _rivals(record),
    }


def _models_about(record: Record) -> str:
    plan, packing = record["plan"], record["packing"][0]
    passive = record.get("stock_passive")
    beside = (
        f" In another call stock took {1e3 * passive['stock_seconds']:.0f} ms as it is and"
        f" {1e3 * passive['seconds']:.0f} ms with OMP_WAIT_POLICY=PASSIVE."
        if passive
        else ""
    )
    return (
        f"Tokens of a model with the shape of Llama 3 8B, {plan['num_hidden_layers']} layers and"
        " head, random weights, on the processor that is described below, in the environment as it"
        f" is: `tilewright kernels model`. {plan['context']} tokens are in the cache. All models"
        f" live in one process and take turns, {plan['tokens']} tokens at a time, with no pause;"
        f" times are medians of {plan['rounds']} turns. Sparse means that half of the weights are"
        f" zero.{beside} `sparsify` took {packing['seconds']:.0f} s and"
        f" {packing['peak_bytes'] / packing['model_bytes']:.2f} times the model's memory."
    )


def _models(record: Record) -> str:
    weights = {row["model"]: row["bytes"] for row in record["weights"]}
    rows = [
        (
            row.model,
            str(row.batch),
            f"{weights[row.model] / 1e9:.1f}",
            f"{1e3 * row.seconds:.1f}",
            f"{row.over_stock:.2f}",
            f"{100 * row.rest_share:.0f}",
        )
        for row in token_summary(record)
    ]
    header = ("model", "batch", "weights, GB", "ms/token", "over stock, x", "outside layers, %")
    return _table(header, "lrrrrr", rows)


# What a rival's type of weights is compared with, at the same number of bits or fewer.
PEERS = {"bf16": "sparse bf16", "q8_0": "sparse int8", "q4_0": "dense mxfp4"}


def _rivals_about() -> str:
    return (
        "llama.cpp with AMX on files of the same shape (`benchmarks/rivals`), in processes of their"
        " own, in two calls of the same session; the second one was right after the table above, on"
        " a machine that was not quiet. Each is beside the packed model of as many bits a weight or"
        " fewer; how many times as fast ours is refers to the better of the two calls."
    )


def _rivals(record: Record) -> str:
    ours = {(row["model"], row["batch"]): 1e3 * row["seconds"] for row in record["decode"]}
    rows = []
    for rival in record["rivals"]:
        peer, times = PEERS[rival["type"]], [1e3 * seconds for seconds in rival["seconds"]]
        here = ours[peer, rival["batch"]]
        name = f"{rival['program']} {rival['type']}"
        both = " / ".join(f"{time:.1f}" for time in times)
        cells = (both, peer, f"{here:.1f}", f"{min(times) / here:.2f}")
        rows.append((name, str(rival["batch"]), *cells))
    header = ("rival", "batch", "ms/token", "ours", "ms/token", "ours faster, x")
    return _table(header, "lrrlrr", rows)


def _operator_sentence() -> str:
    return (
        "Where a token at batch 1 goes, in ms, by clocks around the parts of the model (they cost"
        " a little themselves). *Positions and cache* is the fused step; *rest* is Python, views,"
        " residual additions and what belongs to nothing else."
    )


def _operators(record: Record) -> str:
    rows = [row for row in record["operators"] if row["batch"] == 1]
    parts = list(dict.fromkeys(row["operator"] for row in rows))
    parts = [part for part in parts if part != "rest"] + ["rest"]
    spent = {(row["model"], row["operator"]): 1e3 * row["seconds"] for row in rows}
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = [
        (model, *(f"{spent[model, p]:.1f}" if (model, p) in spent else "" for p in parts))
        for model in models
    ]
    return _table(("model", *parts), "l" + "r" * len(parts), lines)


def _row_gain(row: Record) -> float:
    return float(row["stock_seconds"] / row["seconds"])


def _row_sentence(record: Record) -> str:
    gains = [_row_gain(row) for row in record["rows"]]
    return (
        "Single layers for larger batches and prompts, in turn with stock PyTorch in one process"
        f" (`benchmarks/rows_bench.py`, a call of its own): {min(gains):.2f} to {max(gains):.2f}"
        " times as fast as stock at every number of rows. Below, sparse bf16 by rows of"
        " activations, half of the weights zero:"
    )


def _rows(record: Record) -> str:
    rows = list(dict.fromkeys(row["rows"] for row in record["rows"]))
    lines: dict[str, list[str]] = {}
    for row in record["rows"]:
        key = f"{row['inputs']}x{row['outputs']}"
        lines.setdefault(key, []).append(f"{_row_gain(row):.2f}")
    return _table(
        ("layer", *map(str, rows)), "l" + "r" * len(rows), [(k, *v) for k, v in lines.items()]
    )


def _paragraph(text: str) -> str:
    return fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def _table(header: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; ``align`` has ``l`` or ``r`` for each column."""
    rules = "".join({"l": "---|", "r": "--:|"}[way] for way in align)
    lines = (f"| {' | '.join(cells)} |" for cells in (header, *rows))
    first, *others = lines
    return "\n".join([first, f"|{rules}", *others])


def _rounds(record: Record) -> str:
    plan = record["plan"]
    return (
        f"Every contestant goes through at least {plan['working_set'] / 1e6:.0f} MB of weights of"
        f" its own, in turn with the others; times are medians of {plan['rounds']} rounds."
        " *Reading* is the same threads doing nothing else, in the same rounds. *Stock* is"
        " `torch.nn.functional.linear` in bf16. Layers are inputs x outputs, half of the weights"
        " zero."
    )


def _layers(record: Record) -> str:
    header = ("layer", "batch", "kernel", "µs", "GB/s", "of reading, %", "over stock, x")
    rows = [
        (
            row.layer,
            str(row.batch),
            row.kernel,
            f"{1e6 * row.seconds:.1f}",
            f"{row.bytes_per_second / 1e9:.1f}",
            f"{100 * row.share_of_read:.0f}",
            "" if row.over_stock is None else f"{row.over_stock:.2f}",
        )
        for row in layer_summary(record)
    ]
    return _table(header, "lrlrrrr", rows)


def _batch_1(record: Record) -> str:
    rows = [r for r in layer_summary(record) if (r.kernel, r.batch) == ("sparse bf16", 1)]
    over = [row.over_stock for row in rows if row.over_stock is not None]
    share = [100 * row.share_of_read for row in rows]
    gains = int8_gains(record).values()
    packing = {row["element"]: f"{1e3 * row['seconds']:.0f} ms" for row in record["packing"]}
    smallest = min(row["bytes"] for row in record["layers"] if row["kernel"] == "sparse bf16")
    return (
        f"At batch 1 the sparse kernel is {min(over):.2f} to {max(over):.2f} times as fast as stock"
        f" and reads at {min(share):.0f} to {max(share):.0f}% of what reading alone gets. The least"
        f" is the smallest layer's, whose {smallest / 1e6:.1f} MB the start and the end of a call"
        f" weigh on. Sparse int8 is {min(gains):.2f} to {max(gains):.2f} times as fast as dense"
        " int8; the ratio of bytes is 1.6. A 4096 x 14336 layer is packed in"
        f" {packing['bf16']} (bf16, from float32) or {packing['int8']} (int8)."
    )


def _curve(record: Record, axis: str) -> str:
    """Microseconds of every kernel along ``axis``.

    The last column is the roof: the time in which reading alone goes through the sparse weights.
    """
    rows = record[axis]
    kernels = [k for k in dict.fromkeys(row["kernel"] for row in rows) if k != "read"]
    lines = []
    for value in dict.fromkeys(row[axis] for row in rows):
        here = {row["kernel"]: row for row in rows if row[axis] == value}
        cells = [f"{1e6 * here[k]['seconds']:.0f}" if k in here else "" for k in kernels]
        roof = 1e6 * here["sparse bf16"]["bytes"] / here["read"]["bytes_per_second"]
        lines.append((f"{value:g}", *cells, f"{roof:.0f}"))
    return _table((axis, *kernels, "roof of sparse bf16"), "r" * (len(kernels) + 2), lines)


def _bounds(record: Record) -> str:
    roofs = record["roofs"]
    inputs, outputs = record["plan"]["curve_shape"]
    (row,) = (r for r in record["batch"] if (r["batch"], r["kernel"]) == (64, "sparse bf16"))
    products = 64 // TILE_ROWS * (inputs // TILE_INPUTS) * (outputs // TILE_OUTPUTS)
    return (
        "Above 80% zeros the vector unit is the bound, not memory. At batch 64 it is neither memory"
        f" nor the matrix unit, whose peak would allow {1e6 * products / roofs['matrix']:.0f} us,"
        " but what feeds it: the 512 KB of activations come from the second-level cache again for"
        " every strip. Multiplications that each load their tile of activations from there, and do"
        f" nothing else, run at {roofs['matrix_from_l2'] / 1e9:.2f} G/s (`roofs.matrix_from_l2`):"
        f" {1e6 * products / roofs['matrix_from_l2']:.0f} us, of the {1e6 * row['seconds']:.0f} us"
        " that the kernel takes. Two strips by two blocks of 16 rows load half as many tiles of"
        " activations, but expand every weight twice or load it again; in trials that was no"
        " faster."
    )


def _attention(record: Record) -> str:
    micro = {row["kernel"]: 1e6 * row["seconds"] for row in record["attention"]}
    return (
        "Attention for one token at 16K context in a layer of Llama 3 8B (8 heads, 4 queries each),"
        f" both GEMMs without the softmax: {micro['pruned']:.0f} us with 30% of the keys and 50% of"
        f" the values zero, {micro['dense']:.0f} us dense,"
        f" {micro['dense'] / micro['pruned']:.2f} times as fast. With 4 queries VDPBF16PS is the"
        " bound of the GEMM with the keys."
    )


def _roofs(record: Record) -> str:
    roofs = record["roofs"]
    return (
        "Three rates of the machine, all threads: memory (measured again beside each row;"
        f" {roofs['read_bytes'] / 1e9:.0f} GB/s at the start), vector operations"
        f" ({roofs['instructions']['vpadd'] / 1e9:.1f} G additions/s), tile multiplications"
        f" ({roofs['matrix'] / 1e9:.2f} G/s). Tiles per second are at most each of them over what a"
        " tile needs. *Flat* counts every vector instruction as an addition, as the DECA paper"
        " does; *weighted* takes the rate measured for each (`roofs.instructions` of the record)"
        " and lets loads, tile loads and stores run beside them. Batch 1."
    )


def _surface(record: Record) -> str:
    header = ("scheme", "density", "kernel", "B/tile", "flat, M/s", "weighted, M/s", "bound")
    rows = [
        (
            row["scheme"],
            "" if row["density"] is None else f"{row['density']:g}",
            row["kernel"],
            f"{row['tile_bytes']:.0f}",
            f"{row['predicted_flat'] / 1e6:.0f}",
            f"{row['predicted'] / 1e6:.0f}",
            row["bound"],
            f"{row['tiles_per_second'] / 1e6:.0f}",
        )
        for row in record["roof_surface"]
    ]
    return _table((*header, "measured"), "lrlrrrlr", rows)


def _predictions(record: Record) -> str:
    bf8 = [
        abs(row["tiles_per_second"] / row["predicted"] - 1)
        for row in record["roof_surface"]
        if row["scheme"] == "bf8"
    ]
    return (
        f"Flat predictions are off by a factor of {_factor(record, 'predicted_flat'):.2f} on"
        f" average, weighted ones by {_factor(record, 'predicted'):.2f}. Where look-ups dominate"
        f" (bf8) the weighted model is within {100 * max(bf8):.0f}%. It is too high for bf16 tiles"
        " that go through memory on their way to AMX, a way whose time neither model has; and the"
        " DECA kernel loads 1 KB of activations with every tile, of which batch 1 uses a sixteenth."
        " The last rows scatter most (`scatter` of the record): others came to the machine."
    )


def _factor(record: Record, prediction: str) -> float:
    """By how much predictions are wrong, either way, on geometric average."""
    errors = [abs(log(ratio)) for ratio in surface_errors(record, prediction)]
    return exp(sum(errors) / len(errors))


def _claims() -> str:
    def gain(batch: int) -> str:
        return f"{EVALUATIONS['measured_model_gain'](model='sparse bf16', batch=batch):.2f}"

    cache = f"{EVALUATIONS['measured_kv_gain']():.2f}"
    rows = (
        (
            "speed over stock of each module, batch 1 (Table 2)",
            "1.22 to 2.03",
            "faster for every module",
        ),
        (
            "speed over stock, batch 32 (Figure 12)",
            "1.208 for a whole model",
            f"{gain(32)} for a whole model",
        ),
        (
            "speed grows with sparsity (Figure 11)",
            "yes",
            "yes, up to 80% (one layer); then the vector unit is the bound",
        ),
        ("AMX beats AVX at larger batches (Figure 12)", "yes", "yes, from batch 4 on"),
        ("dense int8 wins at larger batches (Figure 13)", "yes", "not up to batch 32"),
        (
            "pruned keys and values, 16K context (Figure 15)",
            "1.14 for a whole model",
            f"{cache} for a decoder layer",
        ),
        ("whole models over stock, batch 1 (abstract)", "1.42", gain(1)),
        ("perplexity and accuracy of pruned models", "...", "not measured: they need the models"),
    )
    return _table(("claim", "paper", "here"), "lll", rows)


if __name__ == "__main__":
    write_atomic(PAGE, with_parts(PAGE.read_text()))
