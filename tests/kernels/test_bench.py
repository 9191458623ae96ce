"""The bench runs to its end, its predictions follow the model, and the page follows the record.

No speed is measured here: figures are those of the record.
"""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tilewright import cli
from tilewright.kernels import bench
from tilewright.kernels.bench import rounded, run, steps
from tilewright.kernels.library import Path as KernelPath
from tilewright.kernels.library import available_paths
from tilewright.kernels.plan import quick_plan
from tilewright.kernels.records import (
    int8_gains,
    layer_summary,
    load_records,
    roof_lines,
    surface_errors,
)
from tilewright.kernels.roofs import INSTRUCTIONS, Roofs, predict
from tilewright.studies.sparamx import PAGE, page_parts, with_parts

RECORDS = load_records()
RECORD = RECORDS["xeon-amx-16"]


def test_a_quick_run_has_everything():
    doing = []
    record = run(quick_plan(), doing.append)
    assert len(doing) == steps(quick_plan())
    assert record == json.loads(json.dumps(record))
    assert {about["command"] for about in record["sections"].values()} == {bench.COMMAND}
    assert set(RECORD) <= set(record)
    kernels = {row["kernel"] for row in record["layers"]}
    assert kernels >= {"sparse bf16", "dense bf16", "sparse int8", "dense int8", "read"}
    assert len(layer_summary(record)) >= 4
    for name in ("layers", "sparsity", "batch", "threads", "attention", "roof_surface"):
        for row in record[name]:
            assert all(np.isfinite(v) for v in row.values() if isinstance(v, float))
    if KernelPath.AVX512 in available_paths():
        assert set(record["roofs"]["instructions"]) >= set(INSTRUCTIONS)


def test_some_sections_are_measured_anew(tmp_path, capsys, monkeypatch):
    path = tmp_path / "r.json"
    common = ["kernels", "bench", "--quick", "-o", str(path)]
    assert cli.main([*common, "--only", "packing,threads"]) == 0
    first = json.loads(path.read_text())
    assert set(first["sections"]) == {"roofs", "packing", "threads"} and "layers" not in first
    # PyTorch, which the first run may have loaded, counts processors otherwise.
    others = replace(bench.describe_machine(), processors=first["machine"]["processors"] + 1)
    monkeypatch.setattr(bench, "describe_machine", lambda: others)
    assert cli.main([*common, "--only", "attention,threads"]) == 0
    second = json.loads(path.read_text())
    assert set(second["sections"]) == {"roofs", "packing", "threads", "attention"}
    for same in ("packing", "roofs"):
        assert second[same] == first[same] and second["sections"][same] == first["sections"][same]
    anew = f"{bench.COMMAND} --only threads,attention"
    assert {second["sections"][name]["command"] for name in ("threads", "attention")} == {anew}
    other = second | {"plan": {}}
    path.write_text(json.dumps(other))
    capsys.readouterr()
    assert cli.main([*common, "--only", "threads"]) == 2
    error = "tilewright: the record to complete is of another machine or another plan\n"
    assert capsys.readouterr().err == error
    assert cli.main([*common, "--only", "speed"]) == 2
    assert capsys.readouterr().err.startswith("tilewright: no section 'speed': there are packing,")
    assert cli.main(["kernels", "info", "--only", "threads"]) == 2
    assert capsys.readouterr().err == "tilewright: --only goes with bench\n"


def test_the_command(tmp_path, capsys):
    assert cli.main(["kernels", "bench", "--quick", "-o", str(tmp_path / "a" / "r.json")]) == 0
    assert "sparse bf16" in capsys.readouterr().out
    assert json.loads((tmp_path / "a" / "r.json").read_text())["plan"]["rounds"] == 2
    assert cli.main(["kernels", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paths"][0] == "portable"
    assert cli.main(["kernels", "info", "--quick"]) == 2
    assert capsys.readouterr().err == "tilewright: --output and --quick go with bench and model\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["bench", "--form", "int8"], "--form goes with sparsify and model"),
        (["model", "--sparsity", "0.3"], "--sparsity goes with sparsify, and with model --form"),
        (["model", "somewhere"], "MODEL_DIR goes with sparsify"),
        (
            ["model", "--form", "int8", "--batches", "1"],
            "--batches completes a record of all forms: leave --form out",
        ),
    ],
)
def test_options_that_do_not_go_together(words, error, capsys):
    assert cli.main(["kernels", *words]) == 2
    assert capsys.readouterr().err == f"tilewright: {error}\n"


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
    assert weighted.reload == float("inf")
    # 16 expansions take 2^-28 s, beside them 16 stores 2^-27 s and 2 tile loads 2^-29 s.
    assert weighted.vector == 2**27 and weighted.bound == "vector"
    vectors = predict(roofs, 50, Counter({"vpexpandw": 12, "vdpbf16ps": 16}), weighted=True)
    assert vectors.vector == 2**32 / 12 and vectors.matrix == float("inf")  # on another port each


def test_ports_and_the_way_through_memory():
    rates = dict.fromkeys(INSTRUCTIONS, 2.0**34)
    one_port = {"vdpbf16ps": 2.0**32, "vpermw": 2.0**33}
    reload = {"one_row": 3e8}
    roofs = Roofs(4, 100e9, rates | one_port, 1e9, reload=reload)
    # 16 products take 2^-28 s of the first port, 16 permutations half of that of the second one.
    both = Counter({"vdpbf16ps": 16, "vpermw": 16})
    assert predict(roofs, 50, both, weighted=True).vector == 2**28
    # 128 additions take 2^-27 s of both ports together: more than the others leave free.
    crowded = predict(roofs, 50, both + Counter({"vpadd": 128}), weighted=True)
    assert crowded.vector == 1 / (2**-28 * 0.75 + 2**-27)
    tiles = predict(roofs, 50, both, weighted=True, reload="one_row")
    assert tiles.rate == 2**28 and tiles.reload == 3e8
    assert predict(roofs, 50, Counter(), weighted=True, reload="one_row").bound == "reload"
    # 16 expansions and 16 masks are loaded through the same ports.
    more = predict(roofs, 50, Counter(vpexpandw=16), weighted=True, reload="one_row", loads=16)
    assert more.reload == 1 / (1 / 3e8 + 2**-29)


def test_rounded():
    data = {"a": [1.234567, 2], "b": (None, "x", True)}
    assert rounded(data) == {"a": [1.2346, 2], "b": [None, "x", True]}


# --- the committed record, and what follows from it


def race(inputs, outputs, batch, **seconds):
    """Rows of one race: a byte per weight, and the seconds of each kernel."""
    return [
        {
            "kernel": name.replace("_", " "),
            "inputs": inputs,
            "outputs": outputs,
            "batch": batch,
            "seconds": value,
            "bytes_per_second": inputs * outputs / value,
        }
        for name, value in seconds.items()
    ]


def test_layers_are_compared_within_their_race():
    stock = race(64, 32, 1, sparse_bf16=2.0, sparse_int8=1.0, dense_int8=3.0, stock_bf16=8.0)
    alone = race(64, 32, 4, sparse_bf16=5.0, read=4.0)
    record = {"layers": [*stock, *race(64, 32, 1, read=1.0), *alone]}
    found = {(row.kernel, row.batch): row for row in layer_summary(record)}
    assert ("read", 1) not in found and len(found) == 5
    first = found["sparse bf16", 1]
    assert (first.layer, first.over_stock, first.share_of_read) == ("64x32", 4.0, 0.5)
    second = found["sparse bf16", 4]
    assert (second.over_stock, second.share_of_read) == (None, 0.8)
    assert int8_gains(record) == {"64x32": 3.0}
    assert (first.in_model, first.over_stock_in_model) == (None, None)
    record["in_model"] = race(64, 32, 1, sparse_bf16=2.5, stock_bf16=10.0)
    found = {(row.kernel, row.batch): row for row in layer_summary(record)}
    first, other = found["sparse bf16", 1], found["sparse int8", 1]
    assert (first.in_model, first.over_stock_in_model, first.over_stock) == (2.5, 4.0, 4.0)
    assert (other.in_model, other.over_stock_in_model) == (None, None)


def test_errors_of_predictions():
    point = {"tiles_per_second": 6.0, "predicted": 3.0, "predicted_flat": 12.0}
    record = {"roof_surface": [point]}
    assert surface_errors(record) == [2.0]
    assert surface_errors(record, "predicted_flat") == [0.5]


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


def test_the_page_is_made_from_the_record():
    text = PAGE.read_text()
    assert with_parts(text) == text, "run python -m tilewright.studies.sparamx"
    with pytest.raises(ValueError, match=r"^no place for the part rounds$"):
        with_parts("words")


def test_parts_of_the_page_follow_the_record():
    """A record of a machine that is twice as fast changes the sentences that speak of it."""
    before, faster = page_parts(RECORD), json.loads(json.dumps(RECORD))
    for row in faster["layers"]:
        row["seconds"] /= 2 if row["kernel"] == "sparse bf16" else 1
        row["bytes_per_second"] *= 2 if row["kernel"] == "sparse bf16" else 1
    faster["roofs"]["matrix"] *= 2
    after = page_parts(faster)
    changed = {name for name, part in before.items() if after[name] != part}
    assert changed == {"layers", "batch 1", "bounds", "roofs"}
    allowed = 1e6 * 896 * 128 * 4 / faster["roofs"]["matrix"]
    assert f"whose peak would allow {allowed:.0f} us" in " ".join(after["bounds"].split())
