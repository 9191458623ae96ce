"""The page about the Harmonia accelerator: its tables are the declarations, its example runs."""

from pathlib import Path

import pytest

from golden.harmonia_system.assembler import assemble
from golden.params.harmonia_system import (
    INSTRUCTION_FIELDS,
    Counter,
    Error,
    HarmoniaParams,
    Memory,
)
from tests.support.examples import blocks, console_examples, run_examples, table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "harmonia-system.md").read_text()


def fields(declared):
    return ", ".join(f"{f.name} {f.bits}" for f in declared)


def test_memories():
    p = HarmoniaParams()
    depths = {name: getattr(p, name) for name in ("activation_rows", "halves_rows", "operand_rows")}
    rows = table(PAGE, "memories")
    assert [row[:2] for row in rows] == [[str(int(m)), m.name.lower()] for m in Memory]
    for row, memory in zip(rows, Memory, strict=True):
        assert int(row[3]) == p.row_bits(memory)
        assert depths[row[4]] == p.depth(memory)


def test_instructions():
    assert table(PAGE, "instructions") == [
        [str(int(opcode)), opcode.name.lower(), fields(declared)]
        for opcode, declared in INSTRUCTION_FIELDS.items()
    ]


@pytest.mark.parametrize(("name", "enum"), [("counters", Counter), ("errors", Error)])
def test_codes(name, enum):
    codes = [[str(int(code)), code.name] for code in enum if code is not Error.NONE]
    assert [row[:2] for row in table(PAGE, name)] == codes


def test_assembly_of_the_page():
    (text,) = blocks(PAGE, "asm")
    assert len(assemble(text)) == 13


@pytest.mark.parametrize("examples", console_examples(PAGE), ids=lambda block: block[0][0])
def test_commands(examples, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    run_examples(examples, capsys)
