"""The bench runs to its end, its predictions follow the model, and the committed record holds.

No speed is measured here: figures are those of the record.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright import cli
from tilewright.kernels.bench import quick_plan, rounded, run, steps
from tilewright.kernels.library import Path as KernelPath
from tilewright.kernels.library import available_paths
from tilewright.kernels.records import (
    curve_table,
    int8_gains,
    layer_summary,
    layer_table,
    load_records,
    roof_lines,
    surface_errors,
    surface_table,
)
from tilewright.kernels.roofs import INSTRUCTIONS, Roofs, predict
from tilewright.sim.evaluations import EVALUATIONS

RECORDS = load_records()
RECORD = RECORDS["xeon-amx-16"]
DOCUMENT = (Path(__file__).parents[2] / "docs" / "sparamx.md").read_text()


def test_a_quick_run_has_everything():
    doing = []
    record = run(quick_plan(), doing.append)
    assert len(doing) == steps(quick_plan())
    assert record == json.loads(json.dumps(record))
    assert set(RECORD) == set(record)
    kernels = {row["kernel"] for row in record["layers"]}
    assert kernels >= {"sparse bf16", "dense bf16", "sparse int8", "dense int8", "read"}
    assert len(layer_summary(record)) >= 4
    for name in ("layers", "sparsity", "batch", "threads", "attention", "roof_surface"):
        for row in record[name]:
            assert all(np.isfinite(v) for v in row.values() if isinstance(v, float))
    if KernelPath.AVX512 in available_paths():
        assert set(record["roofs"]["instructions"]) >= set(INSTRUCTIONS)


def test_the_command(tmp_path, capsys):
    assert cli.main(["kernels", "bench", "--quick", "-o", str(tmp_path / "a" / "r.json")]) == 0
    assert "sparse bf16" in capsys.readouterr().out
    assert json.loads((tmp_path / "a" / "r.json").read_text())["plan"]["rounds"] == 2
    assert cli.main(["kernels", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paths"][0] == "portable"
    assert cli.main(["kernels", "info", "--quick"]) == 2
    assert capsys.readouterr().err == "tilewright: --output and --quick go with bench\n"


def test_no_compiler_ends_the_command_in_one_line(monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cli.main(["kernels", "info"]) == 2
    assert capsys.readouterr().err.startswith("tilewright: no C++ compiler found")


def test_prediction_is_the_lowest_roof():
    rates = dict.fromkeys(INSTRUCTIONS, 2.0**34)
    rates |= {"vpexpandw": 2.0**32, "store": 2.0**31, "tileloadd": 2.0**30}
    roofs = Roofs(threads=4, read_bytes=100e9, instructions=rates, matrix=1e9)
    counts = Counter({"vpexpandw": 16, "store": 16, "tileloadd": 2, "tdpbf16ps": 1})
    flat = predict(roofs, 500, counts, weighted=False)
    # Binary numbers: 32 additions of 2^34 a second are 2^29 tiles.
    assert (flat.memory, flat.vector, flat.matrix) == (200e6, 2**29, 1e9)
    assert flat.rate == 200e6 and flat.bound == "memory"
    weighted = predict(roofs, 50, counts, weighted=True)
    # 16 expansions take 2^-28 s, beside them 16 stores 2^-27 s and 2 tile loads 2^-29 s.
    assert weighted.vector == 2**27 and weighted.bound == "vector"
    vectors = predict(roofs, 50, Counter({"vpexpandw": 12, "vdpbf16ps": 16}), weighted=True)
    assert vectors.vector == 2**28 and vectors.matrix == float("inf")


def test_rounded():
    data = {"a": [1.234567, 2], "b": (None, "x", True)}
    assert rounded(data) == {"a": [1.2346, 2], "b": [None, "x", True]}


# --- the committed record


def test_record_is_of_an_amx_machine_and_beyond_its_caches():
    assert "amx" in RECORD["machine"]["paths"] and RECORD["machine"]["torch"]
    for row in RECORD["layers"]:
        assert row["bytes"] * row["copies"] >= 900e6 and row["threads"] == 16


def rows_of(kernel, batch):
    rows = [r for r in layer_summary(RECORD) if (r["kernel"], r["batch"]) == (kernel, batch)]
    assert len(rows) == 4
    return rows


def test_batch_1_beats_stock_and_the_papers_speedups():
    published = claim("sparamx.table2.speedup")
    for row in rows_of("sparse bf16", 1):
        assert row["over_stock"] >= 1.6
        assert row["over_stock"] > max(published[row["layer"]])


def test_batch_1_reads_at_70_percent_of_what_reading_alone_gets():
    assert min(row["share_of_read"] for row in rows_of("sparse bf16", 1)) >= 0.7


def test_a_large_layer_is_packed_in_less_than_a_second():
    for row in RECORD["packing"]:
        assert (row["inputs"], row["outputs"]) == (4096, 14336) and row["seconds"] < 1


def test_larger_batches_are_no_slower_than_stock():
    for batch in (16, 32):
        assert min(row["over_stock"] for row in rows_of("sparse bf16", batch)) >= 1
    assert min(r["over_stock"] for r in rows_of("sparse bf16", 32)) > claim(
        "sparamx.fig12.gain_batch32"
    )


def test_int8_gains_from_sparsity():
    gains = int8_gains(RECORD)
    assert len(gains) == 4 and min(gains.values()) >= 1.3
    assert max(gains.values()) <= 1.05 * claim("sparamx.traffic_gain")["int8_50"]


def test_speed_grows_with_sparsity():
    """Until the vector unit, not memory, is the bound: up to 80%."""
    assert claim("sparamx.fig11.monotone")
    rows = [r for r in RECORD["sparsity"] if r["kernel"] == "sparse bf16" and r["sparsity"] <= 0.8]
    times = [row["seconds"] for row in rows]
    assert len(times) == 9 and times == sorted(times, reverse=True)


def test_nothing_is_faster_than_the_roofs():
    for axis in ("sparsity", "batch", "threads"):
        lines = roof_lines(RECORD, axis)
        assert list(lines) == ["roof: memory"] + ["roof: AMX"] * (axis != "threads")
        rows = [row for row in RECORD[axis] if row["kernel"] == "sparse bf16"]
        for line in lines.values():
            assert [value for value, _ in line] == [row[axis] for row in rows]
            for row, (_, seconds) in zip(rows, line, strict=True):
                assert row["seconds"] > seconds
    (_, seconds), *_ = roof_lines(RECORD, "batch")["roof: AMX"]
    assert seconds == 896 * 128 / RECORD["roofs"]["matrix"]


def test_tiles_beat_vectors_at_larger_batches():
    assert claim("sparamx.fig12.amx_beats_avx")
    for batch in (4, 8, 16, 32, 64):
        row = {r["kernel"]: r["seconds"] for r in RECORD["batch"] if r["batch"] == batch}
        assert row["sparse bf16"] < row["sparse bf16, other order"]


def test_weighted_predictions_are_closer_than_flat_ones():
    def distance(prediction):
        return np.abs(np.log(surface_errors(RECORD, prediction))).mean()

    assert distance("predicted") < distance("predicted_flat")


@pytest.mark.parametrize(
    "table",
    [
        layer_table(RECORD),
        surface_table(RECORD),
        *(curve_table(RECORD, axis) for axis in ("sparsity", "batch", "threads")),
    ],
    ids=("layers", "surface", "sparsity", "batch", "threads"),
)
def test_tables_of_the_document_are_those_of_the_record(table):
    assert table in DOCUMENT


def test_figures_of_the_document_are_those_of_the_record():
    rows = rows_of("sparse bf16", 1)
    over = [row["over_stock"] for row in rows]
    share = sorted(100 * row["share_of_read"] for row in rows)
    gains = int8_gains(RECORD).values()
    roofs = RECORD["roofs"]
    micro = {row["kernel"]: 1e6 * row["seconds"] for row in RECORD["attention"]}
    bf8 = [
        row["tiles_per_second"] / row["predicted"]
        for row in RECORD["roof_surface"]
        if row["scheme"] == "bf8"
    ]
    assert all(abs(ratio - 1) < 0.225 for ratio in bf8)
    tiles = 4096 // 32 * 14336 // 16
    (batch64,) = (
        row["seconds"]
        for row in RECORD["batch"]
        if row["batch"] == 64 and row["kernel"] == "sparse bf16"
    )
    packing = {row["element"]: f"{1e3 * row['seconds']:.0f} ms" for row in RECORD["packing"]}

    def factor(prediction):
        return np.exp(np.abs(np.log(surface_errors(RECORD, prediction))).mean())

    text = " ".join(DOCUMENT.split())
    for figure in (
        f"{min(over):.2f} to {max(over):.2f} times as fast as stock",
        f"reads at {share[0]:.0f} to {share[-1]:.0f}% of what reading alone gets",
        f"Sparse int8 is {min(gains):.2f} to {max(gains):.2f} times as fast",
        f"is packed in {packing['bf16']} (bf16, from float32) or {packing['int8']} (int8)",
        f"peak would allow {1e6 * 4 * tiles / roofs['matrix']:.0f} us",
        f"run at {roofs['matrix_from_l2'] / 1e9:.2f} G/s (`roofs.matrix_from_l2`):"
        f" {1e6 * 4 * tiles / roofs['matrix_from_l2']:.0f} us, of the {1e6 * batch64:.0f} us",
        f"medians of {RECORD['plan']['rounds']} rounds",
        f"{EVALUATIONS['measured_block_gain'](batch=32):.2f} for a block's linear layers",
        f"{EVALUATIONS['measured_kv_gain']():.2f} for a block |",
        f"{micro['pruned']:.0f} us with 30% of the keys and 50% of the values zero,"
        f" {micro['dense']:.0f} us dense, {micro['dense'] / micro['pruned']:.2f} times as fast",
        f"{roofs['read_bytes'] / 1e9:.0f} GB/s at the start",
        f"{roofs['instructions']['vpadd'] / 1e9:.1f} G additions/s",
        f"tile multiplications ({roofs['matrix'] / 1e9:.2f} G/s)",
        f"off by a factor of {factor('predicted_flat'):.2f} on average,"
        f" weighted ones by {factor('predicted'):.2f}",
    ):
        assert figure in text, figure
