"""A bench that cannot fail proves nothing: errors planted all over the accelerators are found."""

import pytest

from tests.support.benches import names_of, run_changed_block
from tests.support.mutate import plant_everywhere
from tilewright.hw.anda_machine.top import Anda
from tilewright.hw.deca.axi import DecaAxi
from tilewright.hw.deca.loader import Loader
from tilewright.hw.deca.lut_array import LutArray
from tilewright.hw.deca.pe import DecaPE
from tilewright.hw.deca.prefetcher import Prefetcher
from tilewright.hw.deca.registers import Registers
from tilewright.hw.deca.request_cam import RequestCam
from tilewright.hw.deca.scaler import group_sizes
from tilewright.hw.deca.window import Window
from tilewright.hw.harmonia_machine.buffers import HalvesRegion
from tilewright.hw.harmonia_machine.controller import Controller
from tilewright.hw.harmonia_machine.conversion import ConversionPath
from tilewright.hw.harmonia_machine.dataflow import ResultWriter, SumFeeder
from tilewright.hw.harmonia_machine.group_writer import GroupWriter
from tilewright.hw.harmonia_machine.operands import OperandColumn
from tilewright.hw.harmonia_machine.tiled_gemm import TiledGemmController
from tilewright.hw.harmonia_machine.vector import CausalFeeder, VectorPath
from tilewright.hw.machine.axi import MachineAxi

# Component, its expression, what to put there, the test that must notice.
DECA = {
    "a step too many for a full window": (
        Window,
        "last.eq(clear[-1] >= most_clear)",
        "last.eq(clear[-1] > most_clear)",
        "cycles_equal_the_model",
    ),
    "a pipeline bubble between tiles": (
        DecaPE,
        "with m.If(ends | (~locked & ~pipeline.valid)):",
        "with m.If(~locked & ~pipeline.valid):",
        "cycles_equal_the_model",
    ),
    "a length eight codes too long": (
        Loader,
        "w.final & (after >= 8)",
        "w.final & (after >= 16)",
        "every_error",
    ),
    "an answer to no request": (
        RequestCam,
        "matches[k].eq(taken[k] & (self.key == own))",
        "matches[k].eq(self.key == own)",
        "stray_answers_are_noted",
    ),
    "rows that outlive a squash": (
        DecaPE,
        "tout.clear.eq(kill[k])",
        "tout.clear.eq(0)",
        "squash_at_any_time",
    ),
    "a write under a command that waits": (
        Registers,
        "free = ~(q.write & waiting)",
        "free = Const(1)",
        "tiles_through_registers",
    ),
    "seven bits looked up as six": (
        LutArray,
        "halves[lane % p.lookups(7)]",
        "quarters[lane % p.lookups(7)]",
        "every_configuration",
    ),
    "the scale of the wrong group": (
        group_sizes,
        "group_log2 == level for level in range(levels)",
        "group_log2 == level + 1 for level in range(levels)",
        "every_configuration",
    ),
    "a line prefetched that was asked for": (
        Prefetcher,
        "with m.If((stages[4] & (fresh | _exceeds(end, self.next))) | self.take):",
        "with m.If((stages[4] & fresh) | self.take):",
        "prefetches_are_goldens",
    ),
}

HARMONIA = {
    "low halves from the wrong place of the ring": (
        SumFeeder,
        "initial + (unit & (ring - 1))",
        "initial + (unit & (ring // 2 - 1))",
        "steps_of_a_model",
    ),
    "a unit that grows old a token too late": (
        SumFeeder,
        "begins | (end > gemm.tokens)",
        "begins | (end >= gemm.tokens)",
        "steps_of_a_model",
    ),
    "activations that do not pass again": (
        SumFeeder,
        "Mux(tiles.last_token_tile, gemm.source, next_source)",
        "next_source",
        "random_programs",
    ),
    "results of the next token tile after those of this one": (
        ResultWriter,
        "Mux(gemm.row_major, next_row, down)",
        "Mux(gemm.row_major, next_row, next_row)",
        "random_programs",
    ),
    "weights without their sign": (
        OperandColumn,
        "Mux(self.integers, negative, word.signs[lane])",
        "word.signs[lane]",
        "random_programs",
    ),
    "banks that are written though their lane is off": (
        HalvesRegion,
        "self.write.enable & self.write.lanes[k]",
        "self.write.enable",
        "random_programs",
    ),
    "low halves a beat too late": (
        GroupWriter,
        "Mux(taken_again, before, newest)",
        "newest",
        "random_programs",
    ),
    "padding that has an offset": (
        ConversionPath,
        "& ~padding[k // p.rows].replicate(FP16.bits)",
        "",
        "random_programs",
    ),
    "offsets that are used before they are found": (
        ConversionPath,
        "writer.busy | (x.learn & ~offset.i.ready)",
        "writer.busy",
        "random_programs",
    ),
    "a causal mask that shows a token too many": (
        CausalFeeder,
        "element >= self.causal_limit + row",
        "element > self.causal_limit + row",
        "steps_of_a_model",
    ),
    "a largest score of keys that are not there": (
        ResultWriter,
        "column < gemm.tokens",
        "column <= gemm.tokens",
        "steps_of_a_model",
    ),
    "a sum of powers before the last one": (
        VectorPath,
        "(x.operation == Operation.POWERS) & (left == 1)",
        "(x.operation == Operation.POWERS) & (left == 2)",
        "steps_of_a_model",
    ),
    "weights that do not pass again": (
        TiledGemmController,
        "m.d.sync += weights.eq(x.weights)",
        "m.d.sync += weights.eq(weights + lines)",
        "external_memory_accesses",
    ),
    "a range that may be a row too long": (
        Controller,
        "x.end > p.depth(memory)",
        "x.end > p.depth(memory) + 1",
        "every_error",
    ),
    "regions that two units have at a time": (
        Controller,
        "return Cat(*regions, scalars)",
        "return Cat(Mux(opcode == 0, 1, 0), scalars)",
        "random_programs",
    ),
}

ANDA = {
    "a compression that reads a second tensor": (
        Anda,
        "controller.takes_b & ~is_compress",
        "controller.takes_b",
        "last_rows_are_usable",
    ),
    "waits of results counted wrong": (
        Anda,
        "results.valid & ~results.ready",
        "results.valid & results.ready",
        "random_programs",
    ),
}

INTERRUPT_OF_DECA = {
    "an error that is reported of every tile": (
        DecaAxi,
        "Cat(wrong).any()",
        "Cat(ends).any()",
        "tiles_of_many_configurations",
    ),
    "an end of the second loader that is lost": (
        DecaAxi,
        "Cat(ends).any()",
        "ends[0]",
        "tiles_of_many_configurations",
    ),
}
INTERRUPT_OF_ANDA = {
    "an end that is reported again": (
        MachineAxi,
        "ends = status.done & ~was_done",
        "ends = status.done",
        "high_addresses",
    )
}

SYSTEMS = {
    "deca:small": DECA,
    "deca_axi:small": INTERRUPT_OF_DECA,
    "harmonia:small": HARMONIA,
    "anda:small": ANDA,
    "anda_axi:small": INTERRUPT_OF_ANDA,
}
# A random program stands for a hundred cases: with three of them some errors never showed.
JOBS = {
    "deca:small": {"cases": 400},
    "deca_axi:small": {"cases": 8},
    "harmonia:small": {"cases": 1200, "stalls": (0.0,)},
    "anda:small": {"cases": 1200, "stalls": (0.0,)},
    "anda_axi:small": {},
}
ERRORS = {
    f"{block}, {name}": (block, *error)
    for block, errors in SYSTEMS.items()
    for name, error in errors.items()
}


def run(block, tests):
    return run_changed_block(block, only=tests, **JOBS[block])


@pytest.mark.full
@pytest.mark.parametrize(("block", "component", "old", "new", "test"), ERRORS.values(), ids=ERRORS)
def test_planted_error_is_found(block, component, old, new, test, monkeypatch):
    plant_everywhere(monkeypatch, component, old, new)
    result = run(block, test)
    assert names_of(result) == {test}
    assert not result.passed


@pytest.mark.full
@pytest.mark.parametrize("block", SYSTEMS)
def test_without_an_error_nothing_is_found(block):
    result = run(block, "|".join({error[-1] for error in SYSTEMS[block].values()}))
    assert result.passed, result.failure
