"""Figures that follow the synthesis records, on records made up so that the answer is known."""

import shutil

import pytest

from tilewright.base.records import updated_table
from tilewright.claims import MEASURED, accuracy, anda, deca, harmonia, papers
from tilewright.claims.scoreboard import answer, function_of, scoreboard_claims
from tilewright.sim import records
from tilewright.sim.calibration import other_choice
from tilewright.sim.pe_units import UNITS as PES
from tilewright.sim.pe_units import pe_rate, pe_unit
from tilewright.sim.records import NoRecordError, area_um2, energy_fj

COMMITTED = records.RECORDS
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
    assert deca.power_w("mxfp4 real") == pytest.approx(2.8)
    with pytest.raises(NoRecordError, match=r"^no energy record of deca in asap7, bf8 real$"):
        deca.power_w("bf8 real")


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
    assert harmonia.harmonia_pe_gain("least", "energy_efficiency") == 4.0
    # Buffers and memory cost at most twice as much in fp16, so the whole saves less than PEs.
    low, high = (harmonia.harmonia_gain(end, "energy", False) for end in ("least", "most"))
    assert 2.0 < low < high < 4.0


@pytest.fixture
def _five_bits(monkeypatch):
    """Every mantissa, so that PEs save what the test says."""
    monkeypatch.setattr(anda, "_lengths", lambda model, loss: (5, 5, 5, 5))


@pytest.mark.usefixtures("_five_bits")
def test_area_efficiency_is_speed_times_area(folder):
    write(folder, FP16_PE, 400.0)
    write(folder, ANDA_PE, 100.0)
    # The fp16 array is four times Anda's 0.41 mm2 and needs no compressor of 0.07 mm2.
    ratio = (2.17 - 0.41 - 0.07 + 4 * 0.41) / 2.17
    speed = anda.anda_speedup("1p0", "fp-fp")
    assert anda.anda_area_efficiency("1p0") == pytest.approx(speed * ratio)


@pytest.mark.usefixtures("_five_bits")
def test_compute_energy_is_that_of_the_pes(folder):
    write(folder, FP16_PE, 1.0, {"real": 80.0})
    write(folder, ANDA_PE, 1.0, {"real m4": 8.0, "real m8": 8.0})
    saved = anda.anda_compute_saved("opt-13b", "1p0")
    assert saved == pytest.approx(-90.0)
    few = anda.anda_model_energy_efficiency("opt-13b", "1p0")
    write(folder, FP16_PE, 1.0, {"real": 160.0})
    records._table.cache_clear()
    assert anda.anda_model_energy_efficiency("opt-13b", "1p0") > few


def test_operands_are_inside_every_pe_or_outside_every_pe():
    for name, (inside, outside) in PES.items():
        assert pe_unit(name) == inside != outside
        with other_choice("outside"):
            assert pe_unit(name) == outside
        assert area_um2(inside) > area_um2(outside), name


def test_mapped_netlists_do_as_many_multiply_adds_as_the_model_says():
    names = ("anda-m4", "anda-m8", *(f"harmonia-{mode}" for mode in ("m8w4", "m8m4", "m8m8")))
    for name in names:
        runs = records.read_record("energy", pe_unit(name))["runs"]
        counted = runs[f"real {name.partition('-')[2]}"]["macs_per_cycle"]
        assert counted == pytest.approx(pe_rate(name), rel=1e-3), name


def test_pes_of_equal_area_run_as_fast_as_they_are_small(folder):
    for unit in UNITS:
        write(folder, unit, 100.0)
    # Harmonia has 32 multiply-adds a cycle, fp16 PEs 4, Anda 64 in M + 1.
    ends = [harmonia.harmonia_pe_gain(end, "area_efficiency") for end in ("least", "most")]
    assert ends == [32 / 12.8, 8.0]
    # Programs of both machines load, store and fill the array, which takes both as long.
    assert 7.9 < harmonia.harmonia_linear_speedup() < 8.0
    low, high = (harmonia.harmonia_gain(end, "speed", True) for end in ("least", "most"))
    # Attention at 8-bit windows costs Harmonia a little, fp16 PEs nothing.
    assert 32 / 9.15 < low < high < 8.0
    # Conversions and appends of attention take both machines as long.
    assert high == pytest.approx(8.0, rel=0.07)


def test_attention_makes_baselines_slower_as_it_grows(folder):
    for unit in UNITS:
        write(folder, unit, 100.0)
    sweep = harmonia.harmonia_sweep
    each = [sweep("least", "speed", "llama-3.2-3b", (c,)) for c in (512, 4096)]
    assert each == sorted(each)
    assert sweep("least", "speed", "llama-3.2-3b", (512, 4096)) == each[0]


def test_every_claim_from_records_can_be_answered(folder):
    for kind in ("synthesis", "system"):  # for parts of netlists
        shutil.copy(COMMITTED / f"{kind}.asap7.json", folder)
    lengths = {"real": 9.0, "real m4": 1.0, "real m8": 2.0, "real m16": 4.0}
    modes = {f"real {mode}": 2.0 for mode in ("m8w4", "m8m4", "m8m8")}
    for unit in (*UNITS, "int8_quantiser", "harmonia_converter"):
        write(folder, unit, 100.0, modes if unit in PES["harmonia"] else lengths)
    write_deca_power(folder, {"mxfp4 real": 50.0, "idle": 40.0})
    with updated_table(folder / "layout.asap7.json") as table:
        period = {"value": 500.0, "unit": "ps", "better": "lower"}
        table["deca.asap7.fastest"] = {"metrics": {"period_global": period}}
    claims = [c for paper in papers() for c in scoreboard_claims(paper) if c.is_compared]
    asked = [claim for claim in claims if function_of(claim)[1] in MEASURED]
    assert len(asked) > 90
    for claim in asked:
        assert answer(claim) is not None


def test_changed_perplexities_change_the_trends(monkeypatch):
    trends = (accuracy.down_projection_loses, accuracy.sharp_below_eight_bits)
    assert all(trend() for trend in trends) and accuracy.smaller_groups_lose_less(False)
    real = accuracy._record("sensitivity")
    flat = {
        key: [row | {"perplexity": 1.0} for row in rows] if isinstance(rows, list) else rows
        for key, rows in real.items()
    }
    monkeypatch.setattr(accuracy, "_record", lambda name: flat)
    assert not any(trend() for trend in trends) and not accuracy.smaller_groups_lose_less(False)


def test_what_was_not_measured_is_named():
    for call in (
        lambda: accuracy.length_loss(99, 64),
        lambda: accuracy.module_loss("A_x", 4),
        lambda: accuracy.cache_loss("paper"),
        lambda: accuracy.window_loss(1, 1),
        lambda: accuracy.search_found(50),
        lambda: accuracy.mean_loss("Anda 1/1/1/1"),
        lambda: accuracy.task_loss("Anda 1/1/1/1"),
    ):
        with pytest.raises(NoRecordError, match=r"^no accuracy record of "):
            call()


def test_a_mean_is_over_all_open_models():
    losses = accuracy.model_losses("Harmonia, windows, offsets")
    assert sorted(losses) == ["gemma-3-270m", "qwen2.5-coder-1.5b", "smollm2-135m"]
    mean = accuracy.mean_loss("Harmonia, windows, offsets")
    assert mean == pytest.approx(sum(losses.values()) / 3)
    naive = accuracy.model_losses("Harmonia, 4-bit cache")
    least = min(naive[name] - losses[name] for name in losses)
    names = ("Harmonia, windows, offsets", "Harmonia, 4-bit cache")
    assert accuracy.regained(*names) == pytest.approx(least)


def test_parts_of_a_netlist_are_grouped_as_the_paper_does(monkeypatch):
    parts = {"tout0.row": 2.0, "loader1.mask_queue": 1.0, "pipeline.lut": 3.0, "control": 4.0}
    monkeypatch.setattr(deca, "read_record", lambda *names: {"area_by_part": parts})
    assert deca.areas_by_part() == {"buffers": 3.0, "lut": 3.0, "rest": 4.0}
    assert deca.area_share("rest") == 40
