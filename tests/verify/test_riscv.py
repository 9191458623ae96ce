"""A RISC-V processor that has an accelerator compute a GEMM; whole runs in the long tests."""

import numpy as np
import pytest

from tests.support.benches import simulate
from tests.support.riscv import cross_compiler_or_skip, processor_or_skip
from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.hw.soc.line_memory import require_sizes
from tilewright.hw.soc.system import FIRMWARE_BYTES
from tilewright.studies.measured import load_measured
from tilewright.studies.riscv import firmware, gemm, system
from tilewright.studies.riscv.record import BLOCKS, RECORD
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.simulators.find import MissingToolError


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_firmware_compiles(block, stream):
    """For both accelerators; operands lie in it as they are."""
    cross_compiler_or_skip()
    params = resolve(block)
    options = {"tokens": 2, "inputs": 32, "outputs": 8, "from_memory": stream}
    programs, memory = gemm_of(params, np.random.default_rng(1), options)
    image = firmware.GemmImage(block, memory, programs, range(4, 8))
    words = firmware.build_firmware(image)
    assert memory.tobytes() in words.tobytes()
    assert len(memory) < words.nbytes < FIRMWARE_BYTES


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--block", "popcount"], "the system takes a block anda or harmonia, not popcount"),
        (["--latency", "1"], "--latency must be at least 2, not 1"),
        (
            ["--outputs", "1024", "--inputs", "256"],
            "bytes and the memory has 65,536; take a smaller GEMM",
        ),
        (["--update-record", "--stream"], "--update-record goes without --block, --stream"),
    ],
)
def test_refusals(words, message, capsys):
    assert main(["simulate", "riscv.gemm", *words]) == 2
    answer = capsys.readouterr().err
    assert message in answer
    assert answer.count("\n") == 1


def test_what_is_missing_is_named(monkeypatch, capsys):
    """Neither compiler nor processor is guessed at: one line says what to type."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("TILEWRIGHT_RISCV_GCC", raising=False)
    assert main(["simulate", "riscv.gemm", "--simulator", "verilator"]) == 2
    answer = capsys.readouterr().err
    assert "no GCC for RISC-V; to get one: apt-get install gcc-riscv64-unknown-elf" in answer
    assert answer.count("\n") == 1
    monkeypatch.setattr(system, "find_spec", lambda name: None)
    message = (
        "^no sources of the processor PicoRV32; to get them: pip install '?pythondata-cpu-pico"
    )
    with pytest.raises(MissingToolError, match=message):
        system.processor_verilog()


def test_a_memory_is_a_power_of_two():
    require_sizes(32, 2)
    with pytest.raises(ValueError, match=r"^lines must be a power of two, not 24$"):
        require_sizes(24, 4)
    with pytest.raises(ValueError, match=r"^latency must be at least 2, not 1$"):
        require_sizes(32, 1)


def test_the_record_says_what_ran():
    """Both accelerators, both kinds of program, exact."""
    record = load_measured(RECORD)
    runs = record["runs"]
    assert [(r["block"], r["stream"]) for r in runs] == [
        (block, stream) for block in BLOCKS for stream in (False, True)
    ]
    for run in runs:
        assert run["equal"] and run["program_cycles"] == run["golden_cycles"]
        assert sum(run["program_cycles"]) < run["driver_cycles"] < run["total_cycles"]


# Long: Verilog of processor, accelerator and memory.


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_gemm_from_c(block, stream, capsys):
    """Memory, result and cycles are golden's, and those of the committed record."""
    processor_or_skip()
    record = load_measured(RECORD)
    words = record["command"].removesuffix(" --update-record").split()[2:]
    words += ["--block", block, *(["--stream"] if stream else [])]
    code, result = simulate(capsys, *words)
    assert code == 0
    (wanted,) = (r for r in record["runs"] if (r["block"], r["stream"]) == (block, stream))
    # Another compiler makes other firmware, and with it other cycles of the processor.
    for own in ("firmware_bytes", "driver_cycles", "total_cycles"):
        del wanted[own], result[own]
    assert result == wanted


@pytest.mark.full
def test_a_wrong_memory_is_found(monkeypatch):
    """What the bench compares with is what golden leaves: one bit more is told."""
    processor_or_skip()
    true_task = gemm._task

    def changed(words, memory):
        memory = memory.copy()
        memory[-1] ^= 1
        return true_task(words, memory)

    monkeypatch.setattr(gemm, "_task", changed)
    with pytest.raises(gemm.CheckError, match="1 bytes differ"):
        gemm.gemm_from_c("anda:small", tokens=2, inputs=32, outputs=8)
