"""Arrays of PEs: how tiles are fed, split and extended, and their records."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe import arrays
from tilewright.studies.pe.arrays import ARRAYS, CHECKED, CHECKS, compare_arrays, extended
from tilewright.studies.pe.energy import is_fresh_energy, load_energy
from tilewright.studies.pe.workload import STREAMS, _tensors, pe_bench, samples
from tilewright.synth.record import find_record
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify.dots import Tensors

DOCUMENT = Path(__file__).parents[2] / "docs" / "pe-comparison.md"
DOCUMENTED = {  # a row of the page -> array
    **{"FP-FP": "FP-FP", "FIGNA": "FIGNA", "Anda, 8 bits": "Anda m8"},
    "Harmonia M8W4 (8 x 16)": "Harmonia m8w4",
}


def test_rows_have_successive_tokens_and_columns_other_outputs():
    """Streams 14 and 15 are the last of the first module, whose first is 0."""
    real = samples()
    activation, weight = real["activation"].astype(int), real["weight"].astype(int)
    tensors = Tensors(
        activation, np.repeat(weight[:, None], 3, 1), np.repeat(real["scale"][:, None], 3, 1)
    )
    tile = tensors.tile(4, 3)
    rows = tile.activation.reshape(STREAMS, 4, 3, 3, -1)
    columns = tile.weight.reshape(STREAMS, 4, 3, 3, -1)
    for row, column in np.ndindex(4, 3):
        assert np.array_equal(rows[15, row, column, 0], activation[(15, 15, 15, 0)[row], row % 3])
        assert np.array_equal(
            rows[15, row, column, 2], activation[15 if row < 3 else 0][2 - 3 + row]
        )
        assert np.array_equal(columns[14, row, column, 1], weight[(14, 15, 0)[column]])


def test_parts_multiply_with_the_array():
    """By hand: elements of 10, 3 a row and 2 a column inside elements, converters of 7 a column."""
    rows, columns = 3, 4

    def area(r, c):
        parts = {f"element_{i}_{j}": 6.0 for i in range(r) for j in range(c)}
        parts |= {f"element_{i}_{j}.sum": 4.0 for i in range(r) for j in range(c)}
        for i in range(r):
            parts[f"element_{i}_0"] += 3.0
        for j in range(c):
            parts[f"element_0_{j}"] += 2.0
        return parts | {"activations": 5.0 * r, "results": 1.5 * r * c, "": 7.0 * c}

    bench = pe_bench(resolve("pe_array"))
    params = resolve(f"pe_array,rows={rows},columns={columns}")
    split = bench.by_growth(params, area(rows, columns))
    assert split == dict(pe=120.0, each=18.0, row=24.0, column=36.0, memory=0.0, once=0.0)
    nets = bench.by_growth(params, {}, area(rows, columns))
    assert nets == dict.fromkeys(split, 0.0) | {"pe": 120.0, "each": 78.0}
    larger = extended(split, (rows, columns), (16, 8))
    assert sum(larger.values()) == pytest.approx(sum(area(16, 8).values()))


@pytest.mark.parametrize(
    ("spec", "variant"),
    [("anda_mxu,rows=2,columns=3", "m3"), ("harmonia_array,rows=2,columns=3", "m8m8")],
)
def test_an_array_takes_what_its_elements_do(spec, variant):
    """Golden gives the results of the elements for the operands of the array."""
    params = resolve(spec)
    made = pe_bench(params).dot_products(params, _tensors("real", samples()), variant)

    def of_stream(columns, k):
        return {n: np.concatenate([*x[k]]) for n, x in columns.items()}

    for k in (0, 37):
        given = {port: of_stream(columns, k) for port, columns in made.columns.items()}
        wanted = pe_bench(params).expected(params, given)["o"]
        for name, values in of_stream(made.results, k).items():
            assert np.array_equal(wanted[name], values), name
            assert values.any()


def test_the_rule_is_checked_on_larger_tiles():
    """By hand: twice as many rows and columns are four times the PEs and their energy."""
    technology = load_technology(CHECKED)
    (found,) = compare_arrays([technology])
    checks = {check.name: check for check in found.checks}
    assert {"FP-FP", "FIGNA", "Anda", "Harmonia"} <= checks.keys()
    assert checks["pe_figna:small"].size == "8 x 8"
    for name, run in {"FIGNA": "real", "Anda": "real m8"}.items():
        small, large = (load_energy(spec, technology) for spec in ARRAYS[name])
        area, energy = (
            4 * (of["pe"] + of["each"]) + 2 * (of["row"] + of["column"]) + of["once"]
            for of in (small["parts"], small["runs"][run]["parts"])
        )
        assert (checks[name].smaller, checks[name].size) == ("2 x 2", "4 x 4")
        area_x, energy_x = area / large["metrics"]["area"], energy / 4 / large["runs"][run]["total"]
        assert checks[name].area_x == pytest.approx(area_x, rel=1e-3)
        assert checks[name].energy_x == pytest.approx(energy_x, rel=1e-3)
    for check in found.checks:
        # Harmonia's smaller tile has more places for results for each PE.
        assert check.area_x == pytest.approx(1 + 0.02 * (check.name == "Harmonia"), abs=0.012), (
            check
        )
        # Wires of the larger tile are longer by estimate, for all alike.
        assert check.energy_x == pytest.approx(checks["FP-FP"].energy_x, abs=0.02), check


def test_ratios_are_of_tiles_of_one_size(monkeypatch):
    """Without its larger tile FIGNA's is over FP-FP's smaller one, extended by hand."""
    technology, absent = load_technology(CHECKED), ARRAYS["FIGNA"][1]
    monkeypatch.setattr(
        arrays, "load_energy", lambda spec, *t: None if spec == absent else load_energy(spec, *t)
    )
    rows = {row.name: row for row in compare_arrays([technology])[0].arrays}
    assert (rows["FIGNA"].tile, rows["FP-FP"].tile) == ("2 x 2", "4 x 4")
    of = load_energy(ARRAYS["FP-FP"][0], technology)["parts"]
    first = 64 * (of["pe"] + of["each"]) + 8 * (of["row"] + of["column"]) + of["once"]
    assert rows["FIGNA"].area_x == pytest.approx(rows["FIGNA"].array_um2 / first, rel=1e-4)
    assert rows["FP-FP"].array_um2 != pytest.approx(first, rel=1e-3)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_the_smaller_tiles_are_proved(technology):
    for name, (small, _) in ARRAYS.items():
        record = find_record(resolve(small), technology)
        assert record and record["proof"]["verdict"].startswith("proved"), name


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_records_of_arrays_stand_for_their_tiles(technology):
    command = f"tilewright compare pe --array --update-records --stale --tech {technology}"
    table = load_technology(technology)
    assert compare_arrays([table])[0].missing == ()
    for spec in chain(*(ARRAYS | CHECKS).values()):
        assert load_energy(spec, table) is None or is_fresh_energy(spec, table), command


def test_command_compares_arrays(capsys):
    assert main(["compare", "pe", "--array", "--tech", "asap7"]) == 0
    text = capsys.readouterr().out
    assert "Anda m8" in text and "fp16 results" in text.splitlines()[0]
    assert main(["compare", "pe", "--array", "--block", "queue"]) == 2
    assert capsys.readouterr().err.strip().endswith("--block adds PEs; --array has arrays alone")


def test_the_documented_arrays_are_those_of_the_records():
    asap7, sky130hd = (
        {row.name: row for row in found.arrays}
        for found in compare_arrays([load_technology(name) for name in TECHNOLOGIES])
    )
    for label, name in DOCUMENTED.items():
        row = asap7[name]
        sizes = (row.pe_um2, row.element_um2, row.share_um2)
        shown = [f"{row.macs_per_cycle:.0f}", *(f"{size:.0f}" for size in sizes)]
        shown += [f"{row.um2_per_mac_x:.2f}", f"{row.energy_fj_per_mac:.0f}"]
        shown += [f"{sky130hd[name].um2_per_mac_x:.2f}"]
        line = f"| {label} | {' | '.join(shown)} |"
        assert line in DOCUMENT.read_text().splitlines(), line


def test_arrays_have_the_throughput_of_their_elements():
    rows = {row.name: row for row in compare_arrays([load_technology("asap7")])[0].arrays}
    assert rows["FIGNA"].macs_per_cycle == pytest.approx(16 * 16 * 4)
    assert rows["Anda m8"].macs_per_cycle == pytest.approx(16 * 16 * 64 / 9, rel=1e-4)
    assert rows["Harmonia m8w4"].macs_per_cycle == pytest.approx(8 * 16 * 32)
    assert rows["FP-FP"].area_x == rows["FP-FP"].energy_x == 1
    for row in rows.values():
        assert sum(row.parts_um2.values()) == pytest.approx(row.array_um2)
        assert row.element_um2 < row.share_um2 and row.element_fj_per_mac < row.energy_fj_per_mac
