"""Designs of a user: PEs as Verilog, formats as classes; what they give and what is refused."""

import json
import re
import textwrap
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.cli.test_cli import run
from tilewright.base.errors import CommandError
from tilewright.golden.formats import FORMATS, resolve_format
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.studies.pe.compare import compare_in
from tilewright.studies.pe.format_accuracy import compare_formats
from tilewright.studies.pe.own_pe import OwnPE, _synthesised, find_formats, measure_own
from tilewright.synth.activity import Simulator
from tilewright.synth.technology import load_technology

DESIGNS = Path(__file__).parents[2] / "examples" / "own_designs"
ASAP7 = load_technology("asap7")
TINY = """module tiny (input clk, input [15:0] a, input [7:0] b, output reg signed [15:0] y);
  always @(posedge clk)
    y <= y + $signed(a[7:0]) * $signed(b[3:0]) + $signed(a[15:8]) * $signed(b[7:4]);
endmodule
"""


def own(folder, text=TINY, **changes):
    path = folder / "tiny.v"
    path.write_text(text)
    fields = {"path": path, "top": "tiny", "macs": 2, "cycles": 1, "formats": "int8xint4"}
    return OwnPE(**fields | changes)


def outputs(pe, steps):
    """The output ``y`` of the mapped netlist in each cycle, as a signed number."""
    netlist = _synthesised(pe, ASAP7).netlist
    simulator = Simulator(netlist)
    quiet = {name: [0] * len(nets) for name, nets in netlist.inputs.items()}
    simulator.step(quiet | {"rst": [1]}, simulator.counters())
    found = []
    for step in steps:
        values = {
            n: [(step.get(n, 0) >> k) & 1 for k in range(len(bits))] for n, bits in quiet.items()
        }
        bits = simulator.step(values, simulator.counters())["y"]
        word = sum(bit << k for k, bit in enumerate(bits))
        found.append(word - (word >> (len(bits) - 1) << len(bits)))
    return found


def packed(codes, bits):
    return sum(int(code) << (bits * k) for k, code in enumerate(codes))


@pytest.mark.parametrize(
    ("top", "formats"),
    [
        ("lut_pe", "int8xint4"),
        pytest.param("mx_pe", "mxfp8_e4m3xmxfp4", marks=pytest.mark.full),  # twice as large
    ],
)
def test_the_examples_records_are_what_the_flow_gives(top, formats):
    """The PEs from which accelerators take area and energy."""
    (found,) = json.loads((DESIGNS / f"{top}.json").read_text())["comparisons"]
    (row,) = found["pes"]
    pe = OwnPE(path=DESIGNS / f"{top}.v", top=top, macs=32, cycles=4, formats=formats)
    now = compare_in(ASAP7, own=[pe]).pes[-1]
    assert row == vars(now)


def test_the_look_up_pe_computes_dot_products():
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 128, (3, 32)), rng.integers(-8, 8, (3, 32))
    a[0], b[0] = -128, -8
    steps = [
        {"a": packed(x & 255, 8), "b": packed(w & 15, 4), "first": cycle == 0, "start": k == 0}
        for k, (x, w) in enumerate(zip(a, b, strict=True))
        for cycle in range(4)
    ]
    pe = OwnPE(path=DESIGNS / "lut_pe.v", top="lut_pe", macs=32, cycles=4, formats="int8xint4")
    found = outputs(pe, [*steps, {"start": 1, "first": 1}])
    assert found[-1] == (a * b).sum()


@pytest.mark.full
def test_the_microscaling_pe_computes_dot_products():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 3, 64))
    wide, narrow = FORMATS["mxfp8_e4m3"], FORMATS["mxfp4"]
    (x, x_scales), (w, w_scales) = wide.encode(a), narrow.encode(b)
    steps = []
    for dot, at in product(range(3), range(0, 64, 8)):
        block, beat = at // 32, slice(at, at + 8)
        step = {"a": packed(x[dot, beat], 8), "b": packed(w[dot, beat], 4)}
        step |= {"a_scale": int(x_scales[dot, block]), "b_scale": int(w_scales[dot, block])}
        steps.append(step | {"first": at % 32 == 0, "start": block == 0})
    pe = OwnPE(path=DESIGNS / "mx_pe.v", top="mx_pe", macs=32, cycles=4, formats="mxfp8_e4m3xmxfp4")
    found = outputs(pe, [*steps, {"first": 1, "start": 1}, {}])
    # The sum of the last block is added when the next one begins; units are 2^-10, scales 2^-30.
    want = (wide.decode(x, x_scales) * narrow.decode(w, w_scales)).sum(-1) * 2.0**40
    assert found[-1] == want[-1]


def test_a_pe_of_the_users_own_is_a_row_of_the_comparison(tmp_path):
    pe = own(tmp_path)
    record = measure_own(pe, ASAP7)
    assert record["runs"]["real"]["macs_per_cycle"] == 2
    energies = [record["runs"][kind]["total"] for kind in ("zero", "real", "random")]
    assert 0 < energies[0] < energies[1] < 1.5 * energies[2]
    row = compare_in(ASAP7, own=[pe]).pes[-1]
    assert (row.name, row.spec) == ("tiny", "tiny.v:tiny")
    assert (row.area_um2, row.energy_fj_per_mac) == (record["metrics"]["area"], energies[1])
    # And an accelerator of them, from what the comparison printed.
    printed = {"comparisons": [{"pes": [vars(row)]}]}
    (tmp_path / "pes.json").write_text(json.dumps(printed))
    text = """
        kind = "accelerator"
        rows = 32
        columns = 32
        group = 2
        group_cycles = 1
        clock = "285 MHz"
        pe_record = "pes.json"
        pe_mode = "tiny"
    """
    path = tmp_path / "mine.toml"
    path.write_text(textwrap.dedent(text))
    found = answer(resolve_model("opt-125m"), str(path))
    area = found.tokens_per_second / found.tokens_per_second_per_mm2
    assert area == pytest.approx(1024 * row.area_um2 / 1e6)
    assert found.joules_by_part["compute"] > 0
    path.write_text(textwrap.dedent(text).replace('"tiny"', '"other"'))
    with pytest.raises(ValueError, match=r"pes\.json has no PE other; say which with pe_mode$"):
        answer(resolve_model("opt-125m"), str(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"macs": 3}, "macs must divide a dot product of 256, not 3"),
        ({"cycles": 0}, "cycles must be at least 1, not 0"),
        ({"macs": 4, "cycles": 1}, "4 multiply-adds in 1 cycles do not divide into operands of 2"),
        ({"formats": "int8xint8"}, "a and b of tiny have 2 values of 8 bits and 1 of 8; they must"),
        ({"formats": "int8"}, "a PE's formats are ACTIVATIONSxWEIGHTS, such as int8xint4, of fp16"),
        ({"top": "other"}, "tiny.v: Yosys: Module `other' not found"),
        ({"text": "module tiny"}, "tiny.v: Yosys: own.v:1: syntax error"),
        ({"text": TINY.replace(" a,", " act,")}, "tiny has the inputs clk, act, b; a PE takes clk"),
    ],
)
def test_pes_that_are_refused(tmp_path, changes, message):
    if "act" in changes.get("text", ""):
        changes = {"text": TINY.replace("a[", "act[").replace("] a,", "] act,")}
    with pytest.raises(CommandError) as refusal:
        measure_own(own(tmp_path, **changes), ASAP7)
    assert message in str(refusal.value).replace("\\", "")
    assert "\n" not in str(refusal.value)


def test_microscaling_is_that_of_ml_dtypes():
    values = np.random.default_rng(3).normal(size=(4, 64))
    for name, kind in (("mxfp8_e4m3", ml_dtypes.float8_e4m3fn), ("mxfp4", ml_dtypes.float4_e2m1fn)):
        fmt = FORMATS[name]
        codes, scales = fmt.encode(values)
        scale = 2.0 ** (np.repeat(scales, 32, axis=-1) - 127)
        most = float(ml_dtypes.finfo(kind).max)
        theirs = np.clip(values / scale, -most, most).astype(kind).astype(float) * scale
        assert np.array_equal(fmt.decode(codes, scales), theirs)


def test_wider_formats_lose_less_and_ones_own_is_beside_them(capsys):
    found = {row.name: row for row in compare_formats([f"{DESIGNS / 'lut_format.py'}:Levels"])}
    order = ["fp16", "bf16", "int8", "mxfp8_e4m3", "mxfp4"]
    errors = [found[name].dot_error_percent for name in order]
    assert errors == sorted(errors)
    assert found["levels"].bits_per_value == 4.25
    code, out, _ = run(capsys, "compare", "format")
    assert (code, out.split()[:2]) == (0, ["FORMAT", "BITS/VALUE"])


def test_formats_that_are_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class Bare:\n    name = 'bare'\n")
    for name, message in (
        ("int5", "unknown format 'int5'"),
        ("nothing.py:X", "a format of your own is FILE.py:CLASS; there is no file 'nothing.py'"),
        (f"{path}:Other", "mine.py has no class Other"),
        (f"{path}:Bare", "has no bits, encode, decode; a format has bits"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            resolve_format(name)
    assert [fmt.name for fmt in find_formats("mxfp8_e4m3xmxfp4")] == ["mxfp8_e4m3", "mxfp4"]
