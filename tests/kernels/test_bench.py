"""The bench runs to its end, and its predictions follow the model; no speed is measured here."""

import json
from collections import Counter

import numpy as np

from benchmarks.kernels.__main__ import main
from benchmarks.kernels.roofs import INSTRUCTIONS, Roofs, predict
from benchmarks.race import Contestant, race, rounded
from tilewright import cli
from tilewright.golden.deca import resolve_scheme
from tilewright.golden.sparamx.coded import deca_tile_counts
from tilewright.kernels.library import Path as KernelPath
from tilewright.kernels.library import available_paths
from tilewright.kernels.records import layer_summary, load_records, roof_lines

RECORD = load_records()["xeon-amx-16"]


def test_a_quick_run_has_everything(tmp_path):
    path = tmp_path / "r.json"
    main(["layers", "--quick", "-o", str(path)])
    record = json.loads(path.read_text())
    assert set(RECORD) - {"sections"} <= set(record)
    kernels = {row["kernel"] for row in record["layers"]}
    assert kernels >= {"sparse bf16", "dense bf16", "sparse int8", "dense int8", "read"}
    assert len(layer_summary(record)) >= 4
    for name in ("layers", "sparsity", "batch", "threads", "attention", "roof_surface"):
        for row in record[name]:
            assert all(np.isfinite(v) for v in row.values() if isinstance(v, float))
    if KernelPath.AVX512 in available_paths():
        assert set(record["roofs"]["instructions"]) >= set(INSTRUCTIONS)


def test_contestants_take_turns():
    done = []
    entered = {
        "copies": Contestant(
            [lambda: done.append("a"), lambda: done.append("b")], warm=[done.clear]
        ),
        "call": lambda: done.append("c"),
    }
    laps = race(entered, 2)
    assert done == ["a", "b", "c"] and list(laps) == ["copies", "call"]
    assert all(0 < lap.least <= lap.seconds and lap.scatter >= 0 for lap in laps.values())


def test_the_command(capsys):
    assert cli.main(["kernels", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paths"][0] == "portable"
    assert cli.main(["kernels", "info", "--form", "int8"]) == 2
    assert capsys.readouterr().err == "tilewright: info takes no other argument than --json\n"
    assert cli.main(["kernels", "sparsify", "somewhere"]) == 2
    assert capsys.readouterr().err == "tilewright: sparsify takes MODEL and -o DIR\n"
    assert cli.main(["kernels", "explain", "somewhere", "--form", "int8"]) == 2
    assert capsys.readouterr().err == "tilewright: explain takes a packed MODEL, and --threads\n"


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


def test_records_have_five_digits():
    data = {"a": [1.234567, 2], "b": (None, "x", True)}
    assert rounded(data) == {"a": [1.2346, 2], "b": [None, "x", True]}


# --- the committed record, and what follows from it


def test_instructions_of_decas_tiles_are_those_of_the_record():
    rows = [row for row in RECORD["roof_surface"] if row["kernel"] == "DECA tiles"]
    assert {row["scheme"] for row in rows} == {"bf16", "bf8", "mxfp4"}
    for row in rows:
        scheme = resolve_scheme(row["scheme"])
        scheme = scheme if row["density"] is None else scheme.sparsified
        assert deca_tile_counts(scheme.config) == row["instructions"]
    # Four tables of 64 words, three choices between them, on two bits of the code.
    bf8 = {"load": 16, "vpmovzxbw": 16, "vpermi2w": 64, "vptestmw": 32, "vmovdqu16": 48}
    wanted = bf8 | {"store": 16, "tileloadd": 2, "tdpbf16ps": 1}
    assert deca_tile_counts(resolve_scheme("bf8").config) == wanted


def rows_of(inputs, outputs, batch, **seconds):
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
    stock = rows_of(64, 32, 1, sparse_bf16=2.0, sparse_int8=1.0, dense_int8=3.0, stock_bf16=8.0)
    alone = rows_of(64, 32, 4, sparse_bf16=5.0, read=4.0)
    record = {"layers": [*stock, *rows_of(64, 32, 1, read=1.0), *alone]}
    found = {(row.kernel, row.batch): row for row in layer_summary(record)}
    assert ("read", 1) not in found and len(found) == 5
    first = found["sparse bf16", 1]
    assert (first.layer, first.over_stock, first.share_of_read) == ("64x32", 4.0, 0.5)
    second = found["sparse bf16", 4]
    assert (second.over_stock, second.share_of_read) == (None, 0.8)
    assert (first.in_model, first.over_stock_in_model) == (None, None)
    record["in_model"] = rows_of(64, 32, 1, sparse_bf16=2.5, stock_bf16=10.0)
    found = {(row.kernel, row.batch): row for row in layer_summary(record)}
    first, other = found["sparse bf16", 1], found["sparse int8", 1]
    assert (first.in_model, first.over_stock_in_model, first.over_stock) == (2.5, 4.0, 4.0)
    assert (other.in_model, other.over_stock_in_model) == (None, None)


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
