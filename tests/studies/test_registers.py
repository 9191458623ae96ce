"""Registers as SystemRDL, and what PeakRDL and a C compiler make of them."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from systemrdl import RDLCompiler
from systemrdl.node import RegNode

from tests.cli.test_cli import run
from tilewright.golden.params import anda_machine, deca, harmonia_machine, machine
from tilewright.golden.params.registers import addresses
from tilewright.golden.params.resolve import resolve
from tilewright.studies.registers import write_registers
from tilewright.verify.simulators.find import find_compiler

MACHINES = {"anda_axi": anda_machine, "harmonia": harmonia_machine}
BLOCKS = ["anda_axi:small", "harmonia_axi:small", "deca_axi:small", "anda:small", "deca"]


@pytest.mark.parametrize("block", BLOCKS)
def test_systemrdl_has_the_addresses_of_the_hardware(block, tmp_path):
    """They are the map's, which the benches of the AXI blocks compare with all answers."""
    rdl, xml, *_ = write_registers(block, tmp_path)
    compiler = RDLCompiler()
    compiler.compile_file(str(rdl))
    found = {}
    for node in compiler.elaborate().top.descendants(unroll=True):
        if isinstance(node, RegNode):
            assert node.size == 8
            fields = {f.inst_name: (f.low, f.width, f.get_property("woclr")) for f in node.fields()}
            access = node.has_sw_readable, node.has_sw_writable
            found[node.absolute_address] = (node.inst_name, *access, fields)
    want = {}
    for address, register in addresses(resolve(block).registers).items():
        fields = {}
        for part in (register.read, register.write):
            at = 0
            for field in part:
                fields[field.name] = (at, field.bits, register.clears)
                at += field.bits
        fields.pop("reserved", None)
        want[address] = (register.name, bool(register.read), bool(register.write), fields)
    assert found == want
    ends = "}register"
    names = [e for e in ElementTree.parse(xml).iter() if e.tag.endswith(ends)]
    assert len(names) == len({name for name, *_ in want.values()})


# A stand-in for the accelerator: registers that lie in memory, done at once.
RUN = """
#include <stdio.h>
#include "driver.h"
static uint64_t registers[1 << 13];
#define AT(name) registers[offsetof(MAP_t, name) / 8]
int main(void)
{
    const uint64_t words[4] = {1, 2, 3, 4};
    NAME_load_program(registers, words, 2);
    AT(STATUS) = UP__STATUS__DONE_bm | (uint64_t)OWN_ERROR_ADDRESS << UP__STATUS__ERROR_bp;
    NAME_start_stream(registers, 5);
    AT(COUNTER_GEMM) = 77;
    printf("%u %u %u %llu %llu %llu\\n", (unsigned)offsetof(MAP_t, INSTRUCTIONS), OWN_OPCODE_GEMM,
           NAME_wait(registers), (unsigned long long)AT(CONTROL),
           (unsigned long long)NAME_counter(registers, OWN_COUNTER_GEMM),
           (unsigned long long)AT(INSTRUCTIONS[3]));
    return 0;
}
"""
DECA = """
#include <stdio.h>
#include "driver.h"
static uint64_t registers[1 << 10];
int main(void)
{
    unsigned status = deca_loader(1, offsetof(deca_axi__LOADER_t, STATUS));
    deca_write(registers, status, DECA_AXI__LOADER__STATUS__DONE_bm);
    deca_enable_interrupts(registers, DECA_AXI__INTERRUPT_ENABLE__ERROR_bm);
    deca_write(registers, offsetof(deca_axi_t, INTERRUPT), 3);
    printf("%u %u %u %u %u %u\\n", DECA_LANES, (unsigned)offsetof(deca_axi_t, LUT),
           deca_wait(registers, 1), (unsigned)deca_read(registers, status),
           (unsigned)deca_acknowledge(registers),
           (unsigned)registers[offsetof(deca_axi_t, INTERRUPT_ENABLE) / 8]);
    return 0;
}
"""
HALVES = "#include <stdint.h>\n#undef UINTPTR_MAX\n#define UINTPTR_MAX 0xffffffffu\n"


def compiled(folder, block, source, language):
    driver = write_registers(block, folder)[-1]
    (folder / "main.txt").write_text(source.replace("driver.h", driver.name))
    standard = {"c": "-std=c11", "c++": "-std=c++11"}[language]
    options = ["-x", language, standard, "-Wall", "-Werror", "main.txt", "-o", "main"]
    subprocess.run([find_compiler(), *options], cwd=folder, check=True)
    return subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("block", "language", "first"), [("anda_axi", "c++", ""), ("harmonia", "c", HALVES)]
)
def test_a_program_runs_through_the_driver(block, language, first, tmp_path):
    """As C and as C++; registers whole, and by halves as a processor of 32 bits has them."""
    name = block.removesuffix("_axi")
    source = first + RUN
    for word, means in {
        "NAME": name,
        "OWN": name.upper(),
        "MAP": block,
        "UP": block.upper(),
    }.items():
        source = source.replace(f"{word}_", f"{means}_")
    found = compiled(tmp_path, f"{block}:small", source, language).split()
    control = sum(
        value << sum(f.bits for f in machine.CONTROL_FIELDS[:k])
        for k, value in ((0, 1), (1, 1), (3, 5))
    )
    assert list(map(int, found)) == [
        machine.INSTRUCTION_BASE,
        MACHINES[block].Opcode.GEMM,
        machine.Error.ADDRESS,
        control,
        77,
        4,
    ]


def test_the_driver_of_deca(tmp_path):
    found = compiled(tmp_path, "deca_axi:small", DECA, "c").split()
    assert list(map(int, found)) == [8, deca.Register.LUT, 0, 2, 3, 2]


def test_the_command_writes_them(capsys, tmp_path):
    words = ("export", "deca_axi:small", "--registers", "--out", str(tmp_path))
    code, text, _ = run(capsys, *words)
    assert code == 0
    assert sorted(text.split()) == sorted(map(str, tmp_path.iterdir()))
    assert len(text.split()) == 4


def test_what_is_missing_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "systemrdl", None)
    code, _, text = run(capsys, "export", "deca", "--registers", "--out", str(tmp_path))
    assert code == 2
    assert "systemrdl is missing: pip install 'tilewright[registers]'" in text
    assert not list(tmp_path.iterdir())
