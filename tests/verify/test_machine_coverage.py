"""Programs on Anda and Harmonia meet every combination of instruction, size, memory and stalls."""

import numpy as np
import pytest

from tests.support.benches import simulate
from tilewright.cli import main
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured
from tilewright.studies.runs.machine_coverage import BLOCKS, RECORD
from tilewright.verify.anda_machine.directed import directed_program as of_anda
from tilewright.verify.coverage import Coverage
from tilewright.verify.harmonia_machine.directed import directed_program as of_harmonia
from tilewright.verify.job import DEFAULT_STALLS
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.coverage import (
    error_coverage,
    instruction_coverage,
    latency_name,
    place_of,
    stall_name,
)

DIRECTED = {"anda": of_anda, "harmonia": of_harmonia}


@pytest.mark.parametrize("block", BLOCKS)
def test_one_program_has_every_instruction_in_both_sizes(block):
    """It halts, and its result does not depend on timing."""
    params = resolve(block)
    system = accelerator_of(params)
    found = instruction_coverage(params, (0.0,))
    for seed in range(3):
        program, memory = DIRECTED[params.block](params, seed)
        whole = np.concatenate([memory, program_lines(params, program)])
        outcome = system.machine(params, whole).run_stream(len(memory) // params.line_bytes)
        assert outcome.error is Error.NONE
        assert system.first_hazard(params, program) is None
        for place in filter(None, (place_of(params, x) for x in program)):
            found.hit(**place, memory=latency_name(seed), stall=stall_name(0.0))
    assert found.holes == []


@pytest.mark.parametrize("block", BLOCKS)
def test_record_has_no_hole(block):
    """Nor does it lack an instruction or an error that was added since."""
    entry, params = load_measured(RECORD)["blocks"][block], resolve(block)
    crosses = [Coverage.from_dict(cross) for cross in entry["crosses"]]
    asked = [of(params, DEFAULT_STALLS) for of in (instruction_coverage, error_coverage)]
    assert [cross.axes for cross in crosses] == [cross.axes for cross in asked]
    assert [cross.holes for cross in crosses] == [[], []]


@pytest.mark.full
@pytest.mark.parametrize("block", BLOCKS)
def test_the_record_is_made_again(block, capsys):
    code, found = simulate(capsys, "machine.coverage", "--block", block)
    assert code == 0
    assert found["coverage_by_block"][block] == load_measured(RECORD)["blocks"][block]


def test_other_blocks_have_no_programs(capsys):
    assert main(["simulate", "machine.coverage", "--block", "queue:tiny"]) == 2
    assert "programs run on anda and harmonia, not on queue:tiny" in capsys.readouterr().err
