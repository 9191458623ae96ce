"""Timing of DRAM: by hand, against the table, and against LiteDRAM's controller."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tilewright.golden.machine.dram import Dram, DramChannel, PseudoChannel, memories
from tilewright.studies import litedram
from tilewright.studies.measured import load_measured

HBM2 = Dram.named("hbm2")
LINE = 128
STEP = 4 * HBM2.ccd_s  # clocks between two lines of a row


def test_rates_of_the_table_are_those_of_the_buses():
    rates = {name: round(8 * Dram.named(name).bytes_per_second / 1e8) for name in memories()}
    assert rates == {"hbm2": 2560, "lpddr5": 1024, "ddr4": 2048}  # 0.1 GB/s, 8 channels


def test_first_line_hit_and_conflict_take_the_times_of_the_data_sheet():
    half = PseudoChannel(HBM2, LINE)
    last = half.transfer(0, 0, False)
    # Four rows are opened 4 clocks apart; the last burst follows the last of them.
    assert last == 3 * HBM2.rrd_s + HBM2.rcd
    assert half.transfer(0, 1, False) == last + STEP
    other_row = half.row_lines * HBM2.banks
    closed = max(last + STEP + HBM2.rtp, 3 * HBM2.rrd_s + HBM2.ras)
    assert half.transfer(0, other_row, False) == closed + HBM2.rp + 3 * HBM2.rrd_s + HBM2.rcd


def test_a_bank_is_opened_while_another_is_read():
    half = PseudoChannel(HBM2, LINE)
    asked = [half.transfer(0, k, False) for k in range(2 * half.row_lines)]
    assert {b - a for a, b in pairwise(asked)} == {STEP}
    alone = PseudoChannel(replace(HBM2, window=1), LINE)
    late = [alone.transfer(0, k, False) for k in range(2 * half.row_lines)]
    assert late[-1] > asked[-1] + STEP


def test_refresh_takes_its_share_and_is_not_felt_when_idle():
    half, lines = PseudoChannel(HBM2, LINE), 20_000
    end = max(half.transfer(0, k, False) for k in range(lines))
    share = lines * STEP / end
    assert share == pytest.approx(1 - (HBM2.rfc + HBM2.rp) / HBM2.refi, abs=0.01)
    idle = PseudoChannel(HBM2, LINE)
    at = 10 * HBM2.refi + HBM2.refi // 2
    assert idle.transfer(at, 0, False) == at + 3 * HBM2.rrd_s + HBM2.rcd


def test_turns_of_the_bus():
    half = PseudoChannel(HBM2, LINE)
    read = half.transfer(0, 0, False)
    written = half.transfer(0, 1, True)
    assert written - 3 * HBM2.ccd_s == read + HBM2.cl + HBM2.ccd_s + 2 - HBM2.cwl
    again = half.transfer(0, 2, False)
    assert again - 3 * HBM2.ccd_s == written + HBM2.cwl + HBM2.ccd_s + HBM2.wtr


def test_writes_are_acknowledged_at_once_until_a_batch_is_full():
    channel = DramChannel(replace(HBM2, halves=1, batch=4), LINE, 10**9)
    got = [channel.write(0, k) for k in range(9)]
    assert got[:4] == [channel.path + k for k in (0, 1, 2, 3)]
    assert got[4] == channel.path + 3 * HBM2.rrd_s + HBM2.rcd + 3 * STEP
    read = channel.read(0, 100)
    assert read > got[4]  # it follows the batches


def test_a_line_is_whole_bursts():
    with pytest.raises(ValueError, match=r"^lines of 16 bytes are no whole bursts of 32$"):
        PseudoChannel(HBM2, 16)
    with pytest.raises(ValueError, match=r"^memory must be flat, hbm2, lpddr5, ddr4, not 'x'$"):
        Dram.named("x")


def test_cycles_are_within_the_tolerance_of_litedrams():
    record = load_measured(litedram.RECORD)
    assert record is not None
    dram, checked = Dram(**record["parameters"]), 0
    for row in record["traces"]:
        cycles = litedram.model_cycles(dram, litedram.unpacked(row["runs"]))
        assert cycles == row["model"]
        if not row["name"].startswith("at random"):
            checked += 1
            assert cycles == pytest.approx(row["cycles"], rel=litedram.TOLERANCE), row["name"]
    assert checked == 1 + len(litedram.PROGRAMS)
