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
from tilewright.claims.sparamx import measured_kv_gain, measured_model_gain
from tilewright.kernels.records import (
    int8_gains,
    layer_summary,
    load_model_records,
    load_records,
    load_rival_records,
    load_sharing_records,
    long_context_gains,
    surface_errors,
    token_summary,
)
from tilewright.sim.measured import pruned_cache_bound
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, tile_cost

__all__ = ["PAGE", "model_parts", "page_parts", "with_parts"]

PAGE = Path(__file__).parents[2] / "docs" / "sparamx.md"
RECORD = "xeon-amx-16"
COLUMNS = 100
TILE_INPUTS, TILE_OUTPUTS, TILE_ROWS = 32, 16, 16  # of one AMX multiplication of bf16

Record = dict[str, Any]


def with_parts(text: str) -> str:
    """``text`` with every part behind its ``<!-- NAME -->`` made anew."""
    models = load_model_records()[RECORD]
    parts = page_parts(load_records()[RECORD]) | model_parts(models)
    parts |= rival_parts(models, load_rival_records()[RECORD])
    parts |= sharing_parts(load_sharing_records()[RECORD])
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
        "lookups": _lookups(record),
    }
    return {
        **{name: _paragraph(text) for name, text in sentences.items()},
        "layers": _layers(record),
        **{axis: _curve(record, axis) for axis in ("sparsity", "batch", "threads")},
        "surface": _surface(record),
        "deca left": _deca_left(),
        "claims": _claims(),
    }


def model_parts(record: Record) -> dict[str, str]:
    """The parts about whole models, from their own record."""
    sentences = {
        "models about": _models_about(record),
        "model operators": _operator_sentence(),
        "model sparsity": _sparsity_sentence(record),
        "long context about": _long_context_about(record),
        "model rows": _row_sentence(record),
    }
    return {
        **{name: _paragraph(text) for name, text in sentences.items()},
        "models": _models(record),
        "operators": _operators(record),
        "long context": _long_context(record),
        "rows": _rows(record),
    }


def rival_parts(record: Record, rivals: Record) -> dict[str, str]:
    """The parts about other programs, from the record of whole models and from their own."""
    return {"rivals about": _paragraph(_rivals_about(rivals)), "rivals": _rivals(record, rivals)}


def sharing_parts(record: Record) -> dict[str, str]:
    """The parts about processors that are few or shared, from their own record."""
    plan = record["plan"]
    about = (
        f"Where processors are few or shared: {plan['num_hidden_layers']} layers of the same shape,"
        f" batch 1, `{record['command']}` ({record['began']}). Both models decode in turn in the"
        " same processes; of two that run at once the slower one counts."
    )
    rows = [
        (
            row["situation"],
            *(f"{1e3 * row[model]['seconds']:.1f}" for model in ("stock bf16", "sparse bf16")),
            f"{row['stock bf16']['seconds'] / row['sparse bf16']['seconds']:.2f}",
        )
        for row in record["rows"]
    ]
    header = ("situation", "stock, ms/token", "sparse bf16, ms/token", "over stock, x")
    return {"sharing about": _paragraph(about), "sharing": _table(header, "lrrr", rows)}


def _models_about(record: Record) -> str:
    plan, packing = record["plan"], record["packing"][0]
    passive = record.get("stock_passive", {}).get("seconds")
    beside = (
        " Stock in a process of its own with OMP_WAIT_POLICY=PASSIVE took"
        f" {1e3 * passive:.0f} ms at batch 1."
        if passive
        else ""
    )
    return (
        f"Tokens of a model with the shape of Llama 3 8B, {plan['num_hidden_layers']} layers and"
        " head, random weights, on the processor that is described below, in the environment as it"
        f" is: `{record['command']}`, one run ({record['began']}). {plan['context']} tokens are in"
        f" the cache. All models live in one process and take turns, {plan['tokens']} tokens at a"
        f" time, with no pause; times are medians of {plan['rounds']} turns. Sparse means that half"
        f" of the weights are zero.{beside} `sparsify` took {packing['seconds']:.0f} s and"
        f" {packing['peak_bytes'] / packing['model_bytes']:.2f} times the model's memory."
        f"{_anew(record)}"
    )


def _anew(record: Record) -> str:
    """Which parts of the record are of a later run."""
    parts = [
        f" Of {name}, a later run: `{about['command']}` ({about['began']})."
        for name, about in record.get("anew", {}).items()
    ]
    return "".join(parts)


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
PEERS = {
    **{"bf16": "sparse bf16", "q8_0": "sparse int8", "q4_0": "sparse mxfp4"},
    **{"int8": "sparse int8", "int4": "sparse mxfp4"},
}
MLP_SHARE = 3 * 14336 / (3 * 14336 + 2 * 4096 + 2 * 1024)  # of a decoder layer's weights


def _rivals_about(rivals: Record) -> str:
    failures = {
        f"{row['program']} {row['type']}": row["failed"]
        for row in rivals["rows"]
        if "failed" in row
    }
    failed = "".join(f" {name} gave no result ({why})." for name, why in failures.items())
    programs = {row["program"] for row in rivals["rows"]}
    parts = ""
    if "OpenVINO" in programs:
        parts += " Of OpenVINO it is the linear layers of 8 decoder layers."
    if "kt-kernel" in programs:
        parts += (
            " Of kt-kernel 0.7 it is an MLP as the only expert, with the same share of what the"
            " linear layers take in our model; the extension for AMX alone was carried there, since"
            " its package has 100 MB of parts for GPUs."
        )
    return (
        "Other programs on the same machine and shape, right after the models above, each in"
        f" processes of its own: `{rivals['command']}`. Each is beside the packed model of as many"
        " bits a weight or fewer. Of llama.cpp whole tokens are compared, with"
        f" {rivals['context']} tokens in the cache and the choice of the next one, as in our"
        " models; its vocabulary head and ours have the type of all other weights; of two processes"
        f" the better one counts.{parts}{failed}{rivals.get('note', '')} oneDNN is in the table of"
        " layers below."
    )


def _rivals(record: Record, rivals: Record) -> str:
    tokens = {(row["model"], row["batch"]): 1e3 * row["seconds"] for row in record["decode"]}
    layers = {
        (row["model"], row["batch"]): 1e3 * row["seconds"] / record["plan"]["num_hidden_layers"]
        for row in record["operators"]
        if row["operator"] == "linear layers"
    }
    rows = []
    for rival in rivals["rows"]:
        key = (PEERS[rival["type"]], rival["batch"])
        here = tokens[key]
        if rival["program"] == "OpenVINO":
            here = 8 * layers[key]
        elif rival["program"] == "kt-kernel":
            here = MLP_SHARE * layers[key]
        name = f"{rival['program']} {rival['type']}, {rival['part']}"
        there = rival.get("milliseconds")
        cells = ("failed", key[0], f"{here:.2f}", "")
        if there is not None:
            cells = (f"{there:.2f}", key[0], f"{here:.2f}", f"{there / here:.2f}")
        rows.append((name, str(rival["batch"]), *cells))
    header = ("rival", "batch", "ms", "ours", "ms", "ours faster, x")
    return _table(header, "lrrlrr", rows)


def _sparsity_sentence(record: Record) -> str:
    rows = record["sparsity"]
    (stock,) = (row["seconds"] for row in rows if row["sparsity"] is None)
    along = ", ".join(
        f"{1e3 * row['seconds']:.1f} ms with {100 * row['sparsity']:.0f}%"
        f" ({stock / row['seconds']:.2f} times as fast as stock)"
        for row in rows
        if row["sparsity"] is not None
    )
    return f"Along the share of zeros, sparse bf16 at batch 1 takes {along}."


def _long_context_about(record: Record) -> str:
    tokens = record["plan"]["long_context"]
    gains = long_context_gains(record)
    return (
        f"With {tokens} tokens in the cache (`SparseCache`, random keys and values), 30% of the"
        " keys and 50% of the values zero, a token is"
        f" {gains['PyTorch']:.2f} times as fast as with PyTorch's attention in the same sparse"
        f" model, and {gains['dense kernel']:.2f} times as fast as with our own kernel on a dense"
        " cache. The paper's 1.14 is over a dense kernel of its own, which is about as fast as"
        " PyTorch's; ours is faster than that already, since AMX takes the queries of a group of"
        " heads at once. More over our own is not to be had: were both caches read at memory's"
        f" own rate, pruning would gain {pruned_cache_bound():.2f}, so small a part of a token is"
        " the cache of one sequence beside the linear layers."
    )


def _long_context(record: Record) -> str:
    rows = [
        (row["model"], row["attention"], f"{1e3 * row['seconds']:.1f}")
        for row in record["long_context"]
    ]
    return _table(("model", "attention", "ms/token"), "llr", rows)


def _operator_sentence() -> str:
    return (
        "Where a token at batch 1 goes, in ms, by clocks around the parts of the model (they cost"
        " a little themselves). *Rest* is Python, views, and what belongs to nothing else; in stock"
        " also the residual sums."
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


def _row_gains(record: Record) -> dict[tuple[str, int], float]:
    """Sparse bf16 over stock, by layer and rows of activations."""
    times = {(r["inputs"], r["outputs"], r["batch"], r["kernel"]): r for r in record["layers"]}
    return {
        (f"{row['inputs']}x{row['outputs']}", row["batch"]): row["seconds"]
        / times[*key[:3], "sparse bf16"]["seconds"]
        for key, row in times.items()
        if key[3] == "stock bf16"
    }


def _row_sentence(record: Record) -> str:
    gains = _row_gains(record)
    slower = [f"{layer} at {rows} rows" for (layer, rows), gain in gains.items() if gain < 1]
    behind = f"; slower than stock: {' and '.join(slower)}" if slower else ""
    return (
        "Single layers for larger batches and prompts, in turn with stock PyTorch and with a small"
        f" operator after each: {min(gains.values()):.2f} to {max(gains.values()):.2f} times as"
        f" fast as stock{behind}.{record.get('layers_note', '')} Below, sparse bf16 by rows of"
        " activations, half of the weights zero:"
    )


def _rows(record: Record) -> str:
    gains = _row_gains(record)
    rows = list(dict.fromkeys(batch for _, batch in gains))
    lines: dict[str, list[str]] = {}
    for (layer, _), gain in gains.items():
        lines.setdefault(layer, []).append(f"{gain:.2f}")
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
        " *In a model*: a small operator of PyTorch follows each call, whose own time is taken off,"
        " and nobody rests. *Alone*: threads of the others have come to rest before. *Reading* is"
        " the same threads doing nothing else, in the same rounds as alone. *Stock* is"
        " `torch.nn.functional.linear` in bf16, *oneDNN* the same with weights in the order that it"
        " likes best. Layers are inputs x outputs, half of the weights zero."
    )


def _layers(record: Record) -> str:
    header = (
        *("layer", "batch", "kernel", "in a model, µs", "over stock, x"),
        *("alone, µs", "GB/s", "of reading, %", "over stock, x"),
    )

    def shown(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    rows = [
        (
            *(row.layer, str(row.batch), row.kernel),
            *(shown(row.in_model and 1e6 * row.in_model, 1), shown(row.over_stock_in_model, 2)),
            *(f"{1e6 * row.seconds:.1f}", f"{row.bytes_per_second / 1e9:.1f}"),
            *(f"{100 * row.share_of_read:.0f}", shown(row.over_stock, 2)),
        )
        for row in layer_summary(record)
    ]
    return _table(header, "lrlrrrrrr", rows)


def _batch_1(record: Record) -> str:
    rows = [r for r in layer_summary(record) if (r.kernel, r.batch) == ("sparse bf16", 1)]
    over = [row.over_stock_in_model for row in rows if row.over_stock_in_model is not None]
    share = [100 * row.share_of_read for row in rows]
    gains = int8_gains(record).values()
    packing = {row["element"]: f"{1e3 * row['seconds']:.0f} ms" for row in record["packing"]}
    smallest = min(row["bytes"] for row in record["layers"] if row["kernel"] == "sparse bf16")
    return (
        f"At batch 1 the sparse kernel is {min(over):.2f} to {max(over):.2f} times as fast as stock"
        f" in a model, and alone reads at {min(share):.0f} to {max(share):.0f}% of what reading"
        " alone gets. The least"
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
        f" scores, softmax and values: {micro['pruned']:.0f} us with 30% of the keys and 50% of the"
        f" values zero, {micro['dense']:.0f} us dense, {micro['stock']:.0f} us by PyTorch's"
        " scaled_dot_product_attention:"
        f" {micro['stock'] / micro['pruned']:.2f} and {micro['stock'] / micro['dense']:.2f} times"
        " as fast."
    )


def _roofs(record: Record) -> str:
    roofs = record["roofs"]
    return (
        "Three rates of the machine, all threads: memory (measured again beside each row;"
        f" {roofs['read_bytes'] / 1e9:.0f} GB/s at the start), vector operations"
        f" ({roofs['instructions']['vpadd'] / 1e9:.1f} G additions/s), tile multiplications"
        f" ({roofs['matrix'] / 1e9:.2f} G/s). Tiles per second are at most each of them over what a"
        " tile needs. *Flat* counts every vector instruction as an addition, as the DECA paper"
        " does; *weighted* takes the rate measured for each (`roofs.instructions` of the record) on"
        " the port that it needs, lets loads and stores run beside them, adds the start and the end"
        f" of a call ({1e6 * roofs['call_seconds']:.0f} us), and has one resource more: a tile that"
        " is stored row by row, loaded again and multiplied"
        f" ({roofs['reload']['one_row'] / 1e6:.0f} M/s with one row of activations,"
        f" {roofs['reload']['from_l2'] / 1e6:.0f} M/s with 16 from the second-level cache)."
        " Batch 1."
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
    rows = record["roof_surface"]
    older = {"roof_surface": [row for row in rows if not row["kernel"].startswith("look-up")]}
    ratios = surface_errors(record)
    worst = min(range(len(rows)), key=lambda k: ratios[k])
    where = rows[worst]
    density = "" if where["density"] is None else f" at {100 * where['density']:.0f}%"
    return (
        f"Flat predictions are off by a factor of {_factor(record, 'predicted_flat'):.2f} on"
        f" average, weighted ones by {_factor(record, 'predicted'):.2f}; by"
        f" {_factor(older, 'predicted'):.2f} over the rows of DECA's tiles and of SparAMX alone,"
        " where earlier versions of the model, without the way through memory, were off by 1.65."
        f" Kernels reach {100 * min(ratios):.0f} to {100 * max(ratios):.0f}% of what is predicted,"
        f" the least {where['scheme']}{density} by {where['kernel']}. What is left is mostly"
        " overlap: the model lets every resource work beside the others without a gap."
    )


def _lookups(record: Record) -> str:
    rates = {
        (row["scheme"], row["density"], row["kernel"]): row["tiles_per_second"] / 1e6
        for row in record["roof_surface"]
    }
    pairs = [("mxfp4", None), ("mxfp4", 0.5), ("bf8", None), ("bf8", 0.5), ("bf8", 0.1)]
    found = "; ".join(
        f"{scheme}{'' if density is None else f' at {100 * density:.0f}%'}"
        f" {rates[scheme, density, 'look-up, vector order']:.0f} and"
        f" {rates[scheme, density, 'DECA tiles']:.0f}"
        for scheme, density in pairs
    )
    return (
        "Million tiles a second at batch 1, look-ups in registers and the software for DECA's own"
        f" tiles in the same rounds: {found}. With a bitmap, codes of 4 bits are slower than"
        " without one, so that `sparsify` stores their zeros as codes."
    )


DECA_SCHEMES = (
    *("mxfp4", "bf8", "bf8_50%", "bf8_30%", "bf8_20%", "bf8_10%", "bf8_5%", "bf16_50%"),
)


def _deca_left() -> str:
    """How much faster DECA is, predicted, than the paper's software and than look-ups."""
    machine = SYSTEMS["spr-hbm"]
    rows = []
    for name in DECA_SCHEMES:
        scheme = resolve_weight_scheme(name)
        cycles = {
            engine: tile_cost(machine, engine, scheme, 1).cycles
            for engine in ("deca", "software", "look-up")
        }
        gains = (cycles[engine] / cycles["deca"] for engine in ("software", "look-up"))
        rows.append((name.replace("_", ", "), *(f"{gain:.2f}" for gain in gains)))
    header = ("scheme", "DECA over the paper's software, HBM", "over look-ups, HBM")
    return _table(header, "lrr", rows)


def _factor(record: Record, prediction: str) -> float:
    """By how much predictions are wrong, either way, on geometric average."""
    errors = [abs(log(ratio)) for ratio in surface_errors(record, prediction)]
    return exp(sum(errors) / len(errors))


def _claims() -> str:
    def gain(batch: int) -> str:
        return f"{measured_model_gain('sparse bf16', batch):.2f}"

    cache = f"{measured_kv_gain():.2f}"
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
            "yes, for a whole model",
        ),
        ("AMX beats AVX at larger batches (Figure 12)", "yes", "yes, from batch 4 on"),
        ("dense int8 wins at larger batches (Figure 13)", "yes", "not up to batch 32"),
        (
            "pruned keys and values, 16K context (Figure 15)",
            "1.14 for a whole model",
            f"{cache} for a whole model, over our dense kernel",
        ),
        ("whole models over stock, batch 1 (abstract)", "1.42", gain(1)),
        ("perplexity and accuracy of pruned models", "...", "not measured: they need the models"),
    )
    return _table(("claim", "paper", "here"), "lll", rows)


if __name__ == "__main__":
    write_atomic(PAGE, with_parts(PAGE.read_text()))
