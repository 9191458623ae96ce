"""The pages about accelerators that run programs: their assembly assembles."""

from pathlib import Path

import pytest

import tilewright.golden.params.anda_machine
import tilewright.golden.params.harmonia_machine
from tests.support.examples import blocks
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of

ROOT = Path(__file__).parents[2]
DECLARED = {
    "anda": tilewright.golden.params.anda_machine,
    "harmonia": tilewright.golden.params.harmonia_machine,
}
PAGES = {name: (ROOT / "docs" / f"{name}-system.md").read_text() for name in DECLARED}

of_each = pytest.mark.parametrize("name", DECLARED)


@of_each
def test_assembly(name):
    """The program shown is one that halts, an instruction a line."""
    (text,) = blocks(PAGES[name], "asm")
    program = accelerator_of(resolve(name)).assemble(text)
    codes = [line.partition(";")[0].strip() for line in text.splitlines()]
    lines = [code for code in codes if code and code != "end"]
    assert len(program) == len(lines)
    assert program[-1].opcode is DECLARED[name].Opcode.HALT
