"""The driver header: what a C compiler makes of it is what the hardware is built from."""

import subprocess

import pytest

from tests.cli.test_cli import run
from tilewright.golden.params import anda_machine, deca, harmonia_machine, machine
from tilewright.studies.driver_header import driver_header
from tilewright.verify.simulators.find import MissingToolError, find_compiler

MACHINES = {"anda": anda_machine, "harmonia": harmonia_machine}

# A stand-in for the accelerator: registers that lie in memory, done at once.
RUN = """
#include <stdio.h>
#include "driver.h"
static uint64_t registers[1 << 13];
int main(void)
{
    const uint64_t words[4] = {1, 2, 3, 4};
    NAME_load_program(registers, words, 2);
    registers[UP_STATUS / 8] = 1ull << UP_STATUS_DONE_SHIFT
        | (uint64_t)UP_ERROR_ADDRESS << UP_STATUS_ERROR_SHIFT;
    NAME_start_stream(registers, 5);
    registers[UP_COUNTERS / 8 + UP_COUNTER_GEMM] = 77;
    printf("%u %u %u %llu %llu %llu\\n", UP_INSTRUCTION_BASE, UP_OPCODE_GEMM,
           NAME_wait(registers), (unsigned long long)registers[UP_CONTROL / 8],
           (unsigned long long)NAME_counter(registers, UP_COUNTER_GEMM),
           (unsigned long long)registers[UP_INSTRUCTION_BASE / 8 + 3]);
    return 0;
}
"""


HALVES = "#include <stdint.h>\n#undef UINTPTR_MAX\n#define UINTPTR_MAX 0xffffffffu\n"


def compiled(folder, source, header, language="c++"):
    try:
        compiler = find_compiler()
    except MissingToolError as error:
        pytest.skip(str(error))
    (folder / "driver.h").write_text(header)
    (folder / "main.txt").write_text(source)
    standard = {"c": "-std=c99", "c++": "-std=c++11"}[language]
    words = [compiler, "-x", language, standard, "-Wall", "-Werror", "main.txt", "-o", "main"]
    subprocess.run(words, cwd=folder, check=True)
    return subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("name", "language", "first"), [("anda", "c++", ""), ("harmonia", "c", HALVES)]
)
def test_a_program_runs_through_the_header(name, language, first, tmp_path):
    """As C and as C++; registers whole, and by halves as a processor of 32 bits has them."""
    source = first + RUN.replace("NAME", name).replace("UP_", f"{name.upper()}_")
    found = compiled(tmp_path, source, driver_header(f"{name}:small"), language).split()
    control = sum(
        value << sum(f.bits for f in machine.CONTROL_FIELDS[:k])
        for k, value in ((0, 1), (1, 1), (3, 5))
    )
    assert list(map(int, found)) == [
        machine.INSTRUCTION_BASE,
        MACHINES[name].Opcode.GEMM,
        machine.Error.ADDRESS,
        control,
        77,
        4,
    ]


def test_deca_has_its_registers(tmp_path):
    source = """
#include <stdio.h>
#include "driver.h"
static uint64_t registers[1 << 10];
int main(void)
{
    deca_write(registers, deca_loader(1, DECA_LOADER_STATUS), 1ull << DECA_STATUS_DONE_SHIFT);
    printf("%u %u %u %u\\n", DECA_LANES, DECA_LUT, deca_wait(registers, 1),
           deca_loader(1, DECA_LOADER_GO) / 8);
    return 0;
}
"""
    found = compiled(tmp_path, source, driver_header("deca:small")).split()
    go = deca.Register.LOADER + deca.LOADER_STRIDE + deca.LoaderRegister.GO
    assert list(map(int, found)) == [8, deca.Register.LUT, 0, go // 8]


def test_the_command_writes_it(capsys, tmp_path):
    words = ("export", "anda:small", "--header", "--out", str(tmp_path))
    code, text, _ = run(capsys, *words)
    assert code == 0
    (path,) = tmp_path.iterdir()
    assert text.strip() == str(path)
    assert path.read_text() == driver_header("anda:small")
