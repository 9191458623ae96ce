"""Figures that follow the synthesis records, on records made up so that the answer is known."""

import shutil

import pytest

from tilewright.base.records import updated_table
from tilewright.sim import records
from tilewright.sim.claims import papers
from tilewright.sim.evaluations import EVALUATIONS, reads_records
from tilewright.sim.evaluations.elements import UNITS as PES
from tilewright.sim.evaluations.elements import pe_unit, registers_outside
from tilewright.sim.records import NoRecordError, area_um2, energy_fj
from tilewright.sim.scoreboard import scoreboard_claims

COMMITTED = records.RECORDS
SAVING = 3.2  # every mantissa 5 bits
FP16_PE, ANDA_PE, HARMONIA_PE = map(pe_unit, ("fp-fp", "anda", "harmonia"))
UNITS = {"deca", *(unit for both in PES.values() for unit in both)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECORDS", tmp_path)
    records._table.cache_clear()
    yield tmp_path
    records._table.cache_clear()


def write(folder, unit, area, energy=None):
    record = {"metrics": {"area": {"value": area, "unit": "um2", "better": "lower"}}}
    for goal in ("", ".fastest"):
        with updated_table(folder / "synthesis.asap7.json") as table:
            table[f"{unit}.asap7{goal}"] = table.get(f"{unit}.asap7{goal}", {}) | record
    if energy is not None:
        runs = {name: {"total": value, "macs_per_cycle": 4.0} for name, value in energy.items()}
        with updated_table(folder / "energy.asap7.json") as table:
            table[f"{unit}.asap7"] = {"runs": runs}


def write_deca_power(folder, milliwatts):
    powers = {name: {"total": value, "least": value / 2} for name, value in milliwatts.items()}
    with updated_table(folder / "energy.asap7.json") as table:
        parts = {"power_by_part": {"": {"total": 1.0}}}
        table["deca.asap7"] = {"runs": {name: {"power": p} | parts for name, p in powers.items()}}


def test_power_of_deca_is_that_of_every_core(folder):
    write_deca_power(folder, {"mxfp4 real": 50.0})
    assert EVALUATIONS["deca_power_w"](run="mxfp4 real") == pytest.approx(2.8)
    with pytest.raises(NoRecordError, match=r"^no energy record of deca in asap7, bf8 real$"):
        EVALUATIONS["deca_power_w"](run="bf8 real")


def test_a_missing_record_is_named(folder):
    with pytest.raises(NoRecordError, match=r"^no synthesis record of pe_x in asap7$"):
        area_um2("pe_x")
    with pytest.raises(NoRecordError, match=r"^no synthesis record of pe_x in asap7, fastest$"):
        area_um2("pe_x", "fastest")
    with pytest.raises(NoRecordError, match=r"^no energy record of pe_x in asap7$"):
        energy_fj("pe_x")


def test_energy_between_measured_lengths_is_a_line(folder):
    write(folder, "unit", 1.0, {"real": 7.0, "real m4": 10.0, "real m8": 30.0, "zero m8": 1.0})
    assert energy_fj("unit") == 7.0
    assert [energy_fj("unit", m) for m in (4, 5, 8, 11)] == [10.0, 15.0, 30.0, 30.0]


def test_energy_is_that_of_a_mode(folder):
    write(folder, "unit", 1.0, {"real m8w4": 7.0, "real m8m8": 14.0})
    assert energy_fj("unit", mode="m8m8") == 14.0
    with pytest.raises(NoRecordError, match=r"^no energy record of unit in asap7, real m8m4$"):
        energy_fj("unit", mode="m8m4")


def test_energy_of_pes_is_what_a_machine_saves_at_most(folder):
    for unit in UNITS:
        write(folder, unit, 100.0, {"real": 40.0, "real m4": 40.0})
    write(folder, HARMONIA_PE, 100.0, {"real m8w4": 10.0})
    assert EVALUATIONS["harmonia_pe_energy"](end="least") == 4.0
    # Buffers and memory cost at most twice as much in fp16, so the whole saves less than PEs.
    low, high = (EVALUATIONS["harmonia_energy"](end=end, joint=False) for end in ("least", "most"))
    assert 2.0 < low < high < 4.0


def test_area_efficiency_is_speed_times_area(folder):
    write(folder, FP16_PE, 400.0)
    write(folder, ANDA_PE, 100.0)
    # The fp16 array is four times Anda's 0.41 mm2 and needs no compressor of 0.07 mm2.
    ratio = (2.17 - 0.41 - 0.07 + 4 * 0.41) / 2.17
    speed = EVALUATIONS["anda_speedup"](savings=[SAVING] * 9)
    assert EVALUATIONS["anda_area_efficiency"](savings=[SAVING] * 9) == pytest.approx(speed * ratio)


def test_compute_energy_is_that_of_the_pes(folder):
    write(folder, FP16_PE, 1.0, {"real": 80.0})
    write(folder, ANDA_PE, 1.0, {"real m4": 8.0, "real m8": 8.0})
    saved = EVALUATIONS["anda_compute_saved"](model="opt-13b", saving=SAVING)
    assert saved == pytest.approx(-90.0)
    few = EVALUATIONS["anda_model_energy_efficiency"](model="opt-13b", saving=SAVING)
    write(folder, FP16_PE, 1.0, {"real": 160.0})
    records._table.cache_clear()
    assert EVALUATIONS["anda_model_energy_efficiency"](model="opt-13b", saving=SAVING) > few


def test_operands_are_inside_every_pe_or_outside_every_pe():
    for name, (inside, outside) in PES.items():
        assert pe_unit(name) == inside != outside
        with registers_outside():
            assert pe_unit(name) == outside
        assert area_um2(inside) > area_um2(outside), name


def test_pes_of_equal_area_run_as_fast_as_they_are_small(folder):
    for unit in UNITS:
        write(folder, unit, 100.0)
    # Harmonia has 32 multiply-adds a cycle, fp16 PEs 4, Anda 64 in M + 1.
    ends = [EVALUATIONS["harmonia_pe_efficiency"](end=end) for end in ("least", "most")]
    assert ends == [32 / 12.8, 8.0]
    # Programs of both machines load, store and fill the array, which takes both as long.
    assert 7.9 < EVALUATIONS["harmonia_linear_speedup"]() < 8.0
    low, high = (EVALUATIONS["harmonia_speedup"](end=end) for end in ("least", "most"))
    # Attention at 8-bit windows costs Harmonia a little, fp16 PEs nothing.
    assert 32 / 9.15 < low < high < 8.0
    # Conversions and appends of attention take both machines as long.
    assert high == pytest.approx(8.0, rel=0.07)


def test_attention_makes_baselines_slower_as_it_grows(folder):
    for unit in UNITS:
        write(folder, unit, 100.0)
    sweep = EVALUATIONS["harmonia_sweep"]
    each = [sweep(end="least", model="llama-3.2-3b", contexts=[c]) for c in (512, 4096, 32768)]
    assert each == sorted(each)
    assert sweep(end="least", model="llama-3.2-3b", contexts=[512, 4096, 32768]) == each[0]


def test_every_claim_from_records_can_be_answered(folder):
    for kind in ("synthesis", "system"):  # for parts of netlists
        shutil.copy(COMMITTED / f"{kind}.asap7.json", folder)
    lengths = {"real": 9.0, "real m4": 1.0, "real m8": 2.0, "real m16": 4.0}
    modes = {f"real {mode}": 2.0 for mode in ("m8w4", "m8m4", "m8m8")}
    for unit in (*UNITS, "int8_quantiser", "harmonia_converter"):
        write(folder, unit, 100.0, modes if unit in PES["harmonia"] else lengths)
    write_deca_power(folder, {"mxfp4 real": 50.0, "idle": 40.0})
    every = [claim for paper in papers() for claim in scoreboard_claims(paper)]
    asked = [claim for claim in every if reads_records(claim.evaluate)]
    assert asked
    for claim in asked:
        assert EVALUATIONS[claim.evaluate](**claim.arguments) is not None
