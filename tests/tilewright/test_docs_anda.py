"""The page about the Anda accelerator: its tables are the declarations, its example runs."""

from pathlib import Path

import pytest

from golden.anda_system.assembler import assemble
from golden.params.anda_system import (
    INSTRUCTION_BASE,
    INSTRUCTION_FIELDS,
    STATUS_FIELDS,
    Counter,
    Error,
    Register,
)
from golden.params.anda_vector import Operation
from tests.golden.test_anda_system_vector import BOUNDS
from tests.support.examples import blocks, console_examples, run_examples, table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "anda-system.md").read_text()


def fields(declared):
    return ", ".join(f"{f.name} {f.bits}" for f in declared)


def test_instructions():
    assert table(PAGE, "instructions") == [
        [str(int(opcode)), opcode.name.lower(), fields(declared)]
        for opcode, declared in INSTRUCTION_FIELDS.items()
    ]


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
    assert rows["STATUS"][2] == fields(STATUS_FIELDS)


@pytest.mark.parametrize(("name", "enum"), [("counters", Counter), ("errors", Error)])
def test_codes(name, enum):
    codes = [[str(int(code)), code.name] for code in enum if code is not Error.NONE]
    assert [row[:2] for row in table(PAGE, name)] == codes


def test_assembly_of_the_page():
    (text,) = blocks(PAGE, "asm")
    assert len(assemble(text)) == 12


@pytest.mark.parametrize("examples", console_examples(PAGE), ids=lambda block: block[0][0])
def test_commands(examples, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    run_examples(examples, capsys)
