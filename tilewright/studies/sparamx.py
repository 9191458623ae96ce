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
from tilewright.kernels.records import int8_gains, layer_summary, load_records, surface_errors
from tilewright.sim.evaluations import EVALUATIONS

__all__ = ["PAGE", "page_parts", "with_parts"]

PAGE = Path(__file__).parents[2] / "docs" / "sparamx.md"
RECORD = "xeon-amx-16"
COLUMNS = 100
TILE_INPUTS, TILE_OUTPUTS, TILE_ROWS = 32, 16, 16  # of one AMX multiplication of bf16

Record = dict[str, Any]


def with_parts(text: str) -> str:
    """``text`` with every part behind its ``<!-- NAME -->`` made anew."""
    for name, part in page_parts(load_records()[RECORD]).items():
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
    layer = f"{EVALUATIONS['measured_block_gain'](batch=32):.2f}"
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
            f"{layer} for the linear layers of a decoder layer",
        ),
        (
            "speed grows with sparsity (Figure 11)",
            "yes",
            "yes, up to 80%; then the vector unit is the bound",
        ),
        ("AMX beats AVX at larger batches (Figure 12)", "yes", "yes, from batch 4 on"),
        ("dense int8 wins at larger batches (Figure 13)", "yes", "not up to batch 32"),
        (
            "pruned keys and values, 16K context (Figure 15)",
            "1.14 for a whole model",
            f"{cache} for a decoder layer",
        ),
        (
            "whole models over stock, perplexity, accuracy",
            "1.42, ...",
            "not measured: they need the models",
        ),
    )
    return _table(("claim", "paper", "here"), "lll", rows)


if __name__ == "__main__":
    write_atomic(PAGE, with_parts(PAGE.read_text()))
