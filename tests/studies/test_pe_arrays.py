"""Arrays of PEs: how tiles are fed, split and extended, and their records."""

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.arrays import ARRAYS, compare_arrays, extended
from tilewright.studies.pe.energy import is_fresh_energy
from tilewright.studies.pe.workload import STREAMS, _tensors, pe_bench, samples
from tilewright.synth.record import find_record
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify.dots import Tensors

POINT = "pe.stages=3,pe.adder=chain,pe.bounded=true"  # of a tile of 2 x 4 on record


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


def test_the_rule_gives_the_area_of_a_larger_tile():
    tiles = [
        resolve(f"pe_array,rows=2,columns={columns},pe=pe_figna,{POINT}") for columns in (2, 4)
    ]
    small, large = (find_record(params, "asap7") for params in tiles)
    split = pe_bench(tiles[0]).by_growth(tiles[0], small["area_by_part"])
    area = sum(extended(split, (2, 2), (2, 4)).values())
    assert area == pytest.approx(large["metrics"]["area"]["value"], rel=0.01)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_records_of_arrays_stand_for_their_tiles(technology):
    """All in ASAP7; elsewhere those that are there."""
    command = f"tilewright compare pe --array --update-records --stale --tech {technology}"
    (found,) = compare_arrays([load_technology(technology)])
    assert technology != "asap7" or found.missing == ()
    for spec in {*ARRAYS.values()} - {*found.missing}:
        assert is_fresh_energy(spec, load_technology(technology)), command


def test_command_compares_arrays(capsys):
    assert main(["compare", "pe", "--array", "--tech", "asap7"]) == 0
    text = capsys.readouterr().out
    assert "Anda m8" in text and "fp16 results" in text.splitlines()[0]
    assert main(["compare", "pe", "--array", "--block", "queue"]) == 2
    assert capsys.readouterr().err.strip().endswith("--block adds PEs; --array has arrays alone")


def test_arrays_have_the_throughput_of_their_elements():
    rows = {row.name: row for row in compare_arrays([load_technology("asap7")])[0].arrays}
    assert rows["FIGNA"].macs_per_cycle == pytest.approx(16 * 16 * 4)
    assert rows["Anda m8"].macs_per_cycle == pytest.approx(16 * 16 * 64 / 9, rel=1e-4)
    assert rows["Harmonia m8w4"].macs_per_cycle == pytest.approx(8 * 16 * 32)
    assert rows["FP-FP"].area_x == rows["FP-FP"].energy_x == 1
    for row in rows.values():
        assert sum(row.parts_um2.values()) == pytest.approx(row.array_um2)
        assert row.element_um2 < row.share_um2 and row.element_fj_per_mac < row.energy_fj_per_mac
