"""Questions of a sceptical reader, as commands: exit code, what is printed, and the causes' sizes.

Answers that other tests hold are not asked again: fields set to their own values, fewer cores and
slower clocks, growing batches, ``run`` against ``llm``.
"""

import json
import re

import pytest

from tests.cli.test_cli import run
from tilewright.claims import deca, find_claim
from tilewright.claims.anda import anda_areas, anda_saved
from tilewright.claims.scoreboard import answer, compare, evaluate
from tilewright.sim import calibration, xeon
from tilewright.sim.calibration import changed, other_choice

# Command | exit code | a pattern of its output, remarks included.
ASKED = r"""
gemm 16 4096 4096 --on harmonia | 0 | 0\.2269 .* gemm +programs\n
gemm 16 4096 4096 --block harmonia | 0 | 0\.2268 .* gemm +programs\n
gemm 16 4096 4096 --on anda --scheme 8 | 0 | 0\.5251 .* gemm +programs\n
gemm 16 4096 4096 --on figna | 0 | compute +formula\n.*formula only: programs are written for anda
gemm 1 70000 128 --on harmonia | 0 | compute +formula\n.*70000 inputs of 16 outputs do not fit
gemm 16 4096 4096 | 0 | memory +predicted\n
claims --paper anda --what-if deca.cycles=+20% | 0 | With deca\.cycles=\+20%: (\d+ of \d+ figures)
claims --paper anda --off | 0 | area_eff\.1p0 .* our design or model +another design of ours
compare pe --tech asap7 | 0 | operand registers are outside PEs, but for Anda buffered
"""


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [tuple(part.strip(" ") for part in row.split(" | ")) for row in ASKED.strip().splitlines()],
)
def test_a_command_answers(capsys, words, code, text):
    found, out, err = run(capsys, *words.split())
    assert found == int(code)
    assert re.search(text, f"{out}\n{err}", re.DOTALL), out + err


def test_baselines_take_the_energy_of_their_arrays(capsys):
    """And rows of programs and of formulas are told apart."""
    _, out, _ = run(capsys, "compare", "llm", "smollm2-135m", "--context", "64", "--json")
    rows = {row["system"]: row for row in json.loads(out) if row["system"] not in xeon.SYSTEMS}
    assert {row["kind"] for row in (rows.pop("anda"), rows["harmonia"])} == {"programs"}
    joules = {name: row["joules_by_part"]["compute"] for name, row in rows.items()}
    assert joules["fp-fp"] > joules["fp-int"] > joules["figna"] > joules["figna-m8"] > 0
    assert {row["kind"] for name, row in rows.items() if name != "harmonia"} == {"formula"}


# Figures that once counted as agreement and could not fail, by the reader's four groups, and those
# that failed and did not count. None may hold; ids that are gone are no claims any more.
SHOW_NOTHING = """
deca.cycles. harmonia.peak. anda.pe.cycles. deca.table2.mxfp4.rl deca.table2.bf8 deca.table2.bf16_
harmonia.table1.kv8 harmonia.table1.anda_m8 harmonia.abs.loss deca.table5.deca5.misses
deca.bord.decompress harmonia.alloc.gain harmonia.acc.vs_naive harmonia.smooth.
anda.search.may anda.acc.may deca.table1.ddr. harmonia.abs.energy_eff.avg harmonia.abs.area_eff.avg
anda.pe.area_vs_fp harmonia.pe.m8m8 deca.table5.order deca.fig14.wider deca.fig3.ddr
"""


def test_what_cannot_fail_does_not_hold():
    rows = {r.id: r for found in evaluate().values() for r in found}
    asked = tuple(SHOW_NOTHING.split())
    holding = [name for name, r in rows.items() if r.verdict == "holds" and name.startswith(asked)]
    assert all(name.endswith(".real") for name in holding)  # measured software, Table 2
    assert rows["harmonia.abs.area_eff.avg"].ours == rows["harmonia.abs.speedup.avg"].ours


def within(name):
    claim = find_claim(name)
    return compare(claim.compare, claim.value, answer(claim), claim.tolerance or 0.0)[1]


def test_causes_are_as_large_as_they_say():
    parts, printed = deca.areas_by_part(), find_claim("deca.area.share").numbers
    area = {name: parts[name] / (448.21 * share) for name, share in printed.items()}
    assert area == pytest.approx({"buffers": 0.45, "lut": 0.41, "rest": 1.36}, abs=0.005)
    power = deca.powers_by_part("mxfp4 real")
    assert (power["buffers"] + power["lut"], power["rest"]) == pytest.approx((18, 50), abs=0.5)
    paper = find_claim("anda.area").numbers
    buffers = ("activation_buffer", "weight_buffer")
    ours = anda_areas()["mxu"], anda_areas()["actbuf"] + anda_areas()["wbuf"]
    theirs = paper["mxu"], sum(paper[name] for name in buffers)
    ratios = [a / b / 1e6 for a, b in zip(ours, theirs, strict=True)]
    assert ratios == pytest.approx([0.23, 0.50], abs=0.005)
    # 16 activation and 4 weight bits, with savings on the activations alone.
    assert anda_saved("llama-13b", "1p0", "buffers") * 20 / 16 == pytest.approx(-54.4, abs=0.1)
    with other_choice("outside"):
        assert answer(find_claim("anda.energy.llama13b.compute")) == pytest.approx(-86.8, abs=0.1)
    gains = []
    for cycles in (1, 4):
        with changed("store_cycles", cycles / calibration.constant("store_cycles")):
            gains.append(deca.ablation_gain("bf8_5%", 4))
    assert gains == pytest.approx([2.3, 2.5], abs=0.05)
    with changed("instructions_per_vector_op", 3.1 / 1.9):
        assert deca.commit_slots() == pytest.approx([40, 95], abs=0.5)
    ddr = [f"deca.table1.ddr.in{n}.n{b}" for n in (32, 128) for b in (1, 4, 16)]
    assert not any(map(within, ddr))
    with changed("layer_us", 147 / calibration.constant("layer_us")):
        assert all(map(within, ddr))
