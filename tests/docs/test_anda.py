"""The page about the Anda accelerator: operations, registers, bandwidth."""

from pathlib import Path

from tests.golden.test_program_vector import BOUNDS
from tests.support.claims import claim
from tests.support.examples import table
from tilewright.golden.machine.moves import load_cycles
from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.machine import INSTRUCTION_BASE, STATUS_FIELDS, Register
from tilewright.golden.params.vector import Operation
from tilewright.sim.accelerator import Accelerator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "anda-system.md").read_text()


def test_operations_and_their_errors():
    rows = table(PAGE, "operations")
    assert [row[:2] for row in rows] == [[str(int(o)), o.name.lower()] for o in Operation]
    for operation, bound in BOUNDS.items():
        assert f"error below {bound} ulp" in rows[operation][2]


def test_registers():
    rows = {row[1]: row for row in table(PAGE, "registers")}
    assert rows.pop("instructions")[0] == f"{INSTRUCTION_BASE:#06x}"
    assert {name: row[0] for name, row in rows.items()} == {
        register.name: f"{register:#06x}" for register in Register
    }
    assert rows["STATUS"][2] == ", ".join(f"{f.name} {f.bits}" for f in STATUS_FIELDS)


def test_bandwidth_of_the_memory_port():
    params = AndaParams.preset("paper")
    port = params.line_bytes * claim("anda.clock") * 1e6
    page = " ".join(PAGE.split())
    assert f"{port / 1e9:.1f} GB/s at the paper's {claim('anda.clock')} MHz" in page
    assert round(Accelerator.bandwidth / port) == 14 and "a fourteenth of its" in page
    assert f"With {params.dma_lines} outstanding requests" in page

    def interval(latency):
        """Cycles in which a long load brings as many lines as requests are outstanding."""
        lines = [k * params.dma_lines for k in (50, 51)]
        rows = [n * params.line_bits // params.row_bits(Memory.WEIGHTS) for n in lines]
        short, long = (load_cycles(params, Memory.WEIGHTS, n, latency) for n in rows)
        return long - short

    for latency in (1, 6):
        assert interval(latency) == params.dma_lines
    for latency in (7, 40):
        assert interval(latency) == latency + 2
    weights = params.mxu.weight_beats * params.row_bits(Memory.WEIGHTS) / params.line_bits
    lines = weights + params.row_bits(Memory.SCALES) / params.line_bits
    assert (weights, lines) == (8, 8.5)
    for mantissa in (4, 8):
        assert f"{lines / (mantissa + 1):.2f}" in PAGE
