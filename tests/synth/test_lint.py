"""Every preset's Verilog under ``verilator --lint-only -Wall`` with the project's waivers."""

import pytest

from tests.support.benches import unit_verilog
from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.pe import PE_BLOCKS
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.golden.params.stream import STREAM_BLOCKS
from tilewright.golden.params.vector import VectorParams
from tilewright.synth.emit import package, to_verilog
from tilewright.verify.simulators.find import find_verilators, require_simulator
from tilewright.verify.simulators.run import block_verilog
from tilewright.verify.simulators.verilator import lint

VERILATORS = find_verilators()
UNITS = (*STREAM_BLOCKS, *ARITH_BLOCKS, *PE_BLOCKS[:-1], VectorParams)  # all but the array


def test_there_is_a_verilator():
    require_simulator("verilator")


@pytest.mark.full  # `nox -s lint` is of every change, and has these
@pytest.mark.parametrize("spec", [f"{cls.block}:{name}" for cls in UNITS for name in cls.PRESETS])
def test_presets_are_clean(spec, tmp_path):
    verilog = unit_verilog(spec)
    for verilator in VERILATORS:
        assert lint(verilator, resolve(spec).slug, verilog, tmp_path) == "", verilator.title


# A whole accelerator of a paper's size would take gigabytes; its modules are the small one's.
LARGE = [
    f"{cls.block}:{name}"
    for cls in BLOCKS.values()
    if cls not in UNITS
    for name in cls.PRESETS
    if name == "small" or not issubclass(cls, MachineParams)
]
# The paper's memory: a load counts the lines of each of many channels.
LARGE.append("harmonia_axi:small,memory_channels=8")


@pytest.mark.full
@pytest.mark.parametrize("spec", LARGE)
def test_large_preset_is_clean(spec, tmp_path):
    for verilator in VERILATORS:
        found = lint(verilator, resolve(spec).slug, block_verilog(spec), tmp_path)
        assert found == "", verilator.title


@pytest.mark.parametrize("verilator", VERILATORS, ids=lambda verilator: verilator.version)
def test_payloads_are_structs(verilator, tmp_path):
    """Every package is read; the fields of one payload are packed and taken apart."""
    text, first = "", {}
    for cls in BLOCKS.values():
        params = cls.preset()
        if params.inputs or params.outputs:
            text += package(params)
            first[params.block] = params
    params = first["anda_mxu"]
    (port,) = (port for port in params.inputs if port.name == "i0")
    signals = [(field.name, field.total_bits) for field in port.fields]
    ins = "".join(f"  input [{bits - 1}:0] {name},\n" for name, bits in signals)
    outs = ",\n".join(f"  output [{bits - 1}:0] o_{name}" for name, bits in signals)
    parts = ", ".join(f"{name}: {name}" for name, _ in signals)
    word = "{" + ", ".join(name for name, _ in reversed(signals)) + "}"
    taken = "".join(f"  assign o_{name} = payload.{name};\n" for name, _ in signals)
    text += f"""module top import {params.slug}_pkg::*; (
{ins}{outs},
  output [{port.bits - 1}:0] word, output equal
);
  i0_payload_t payload;
  assign payload = '{{{parts}}};
  assign word = payload;
  assign equal = word == {word};
{taken}endmodule
"""
    assert lint(verilator, "top", text, tmp_path, suffix="sv") == ""
    wrong = text.replace(f"payload.{signals[0][0]};", "payload.missing;")
    assert "missing" in lint(verilator, "top", wrong, tmp_path, suffix="sv")


@pytest.mark.parametrize("verilator", VERILATORS, ids=lambda verilator: verilator.version)
def test_a_fault_is_found(verilator, tmp_path):
    """The waivers leave faults visible: a loop is still reported."""
    params = resolve("popcount:odd")
    good = "assign i__ready = o__ready;"
    verilog = to_verilog(params)
    assert good in verilog
    broken = verilog.replace(good, "assign i__ready = o__ready & ~i__ready;")
    assert "UNOPTFLAT" in lint(verilator, params.slug, broken, tmp_path)
