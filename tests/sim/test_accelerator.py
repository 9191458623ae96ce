"""Anda and Harmonia: cycles against golden's formulas, traffic against a count of tiles."""

from math import ceil

import numpy as np
import pytest

from tilewright.golden.anda.cycles import RESULT_LATENCY, dot_cycles, group_cycles, mxu_schedule
from tilewright.golden.anda_machine.cycles import gemm_cycles as instruction_cycles
from tilewright.golden.harmonia.array import cycles as array_cycles
from tilewright.golden.harmonia_machine.cycles import gemm_cycles as harmonia_cycles
from tilewright.golden.harmonia_machine.isa import Settings
from tilewright.golden.params.anda import AndaApuParams, AndaMxuParams
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.harmonia import HarmoniaArrayParams, HarmoniaPeParams, Mode
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Opcode, Operand
from tilewright.sim.accelerator import (
    ACCELERATORS,
    BASELINES,
    WEIGHT_BITS,
    anda,
    baseline,
    energy,
    harmonia,
    run,
)
from tilewright.sim.length_search import MODULES, lengths_of_saving, module_shares, saving
from tilewright.sim.models import resolve_model
from tilewright.sim.pe_units import anda_fj, pe_fj
from tilewright.sim.workload import Gemm, linear, prefill
from tilewright.verify.harmonia_machine.builder import Builder


def product(rows, inner, outer, module="o", name="p"):
    return Gemm(name=name, module=module, rows=rows, inner=inner, outer=outer)


@pytest.mark.parametrize("length", [1, 4, 7, 16])
def test_a_tile_of_anda_takes_the_cycles_of_its_units(length):
    """All units of a tile run in step: the tile's time is that of one dot product."""
    machine = anda(dict.fromkeys(MODULES, length))
    (time,) = run(machine, [product(16, 9 * 64, 16)])
    last = dot_cycles(AndaApuParams(), [length] * 9, [False] * 8 + [True])[-1]
    assert time.compute - machine.start(length) == last - RESULT_LATENCY + 1


def test_whole_tiles_count():
    machine = anda(dict.fromkeys(MODULES, 6))
    (time,) = run(machine, [product(17, 257, 33)])
    assert time.compute == 2 * (3 * 5 * 7 + machine.start(6))
    # Outputs leave row by row: no tile is shorter than sixteen cycles.
    (short,) = run(machine, [product(17, 65, 33)])
    assert short.compute == 2 * (3 * 16 + machine.start(6))


def test_every_repetition_counts():
    one, many = (
        run(anda(), [Gemm(name="p", module="o", rows=16, inner=64, outer=16, count=n)])[0]
        for n in (1, 9)
    )
    assert (many.compute, many.memory_bits) == (9 * one.compute, 9 * one.memory_bits)


def test_the_baseline_has_1024_macs_a_cycle():
    machine = baseline("fp-fp")
    (time,) = run(machine, [product(160, 640, 160)])
    assert time.compute == 160 * 640 * 160 / 1024
    assert machine.mac_rate == 1024


def test_harmonia_peaks_are_those_of_its_pes():
    machine, pe = harmonia(), HarmoniaPeParams()
    assert machine.mac_rate == 8 * 16 * pe.macs_per_cycle(Mode.M8W4) == 4096
    # Up to the two windows everything is at 8 bits; far beyond nearly everything at 4.
    assert machine.attention_rate(96) == 2048
    assert machine.attention_rate(1 << 20) == pytest.approx(4096, rel=1e-3)


def test_traffic_is_that_of_the_cheaper_order():
    machine = anda(dict.fromkeys(MODULES, 7))
    bits = machine.activation_bits(7)
    shape = product(2048, 4096, 4096)
    (time,) = run(machine, [shape])
    rows, columns = (int(4 * (1 << 20) // (4096 * b)) for b in (bits, WEIGHT_BITS))
    activations, weights = 2048 * 4096 * bits, 4096 * 4096 * WEIGHT_BITS
    row_major = ceil(2048 / rows) * weights + activations
    column_major = ceil(4096 / columns) * activations + weights
    assert time.memory_bits == min(row_major, column_major) + 2048 * 4096 * bits


def test_a_single_row_reads_the_weights_once():
    (time,) = run(anda(), [product(1, 4096, 4096)])
    assert time.memory_bits == pytest.approx(4096 * 4096 * WEIGHT_BITS, rel=0.01)


def test_a_product_takes_the_longer_of_compute_and_transfer():
    (decode,) = run(harmonia(), [product(8, 4096, 4096)])
    assert decode.cycles == max(decode.compute, decode.transfer) + decode.first
    assert decode.bound == "compute"


def test_energy_adds_up_by_component():
    machine = anda()
    times = run(machine, linear(resolve_model("opt-125m"), 64))
    parts = energy(machine, times)
    assert set(parts) == {"compute", "compressor", "buffers", "memory"}
    assert parts["memory"] == pytest.approx(sum(t.memory_bits for t in times) * 3.9e-12, rel=1e-12)
    assert set(energy(baseline("figna"), times)) == {"buffers", "memory"}


@pytest.mark.parametrize("size", [{"rows": 8}, {"columns": 8}, {"rows": 8, "columns": 8}])
def test_equal_work_costs_anda_equal_energy(size):
    """The published watts are those of 16 x 16 units; fewer of them take longer at fewer watts."""
    whole, part = anda(), anda(params=AndaParams(**size))
    work = linear(resolve_model("llama-2-7b"), 512)
    (before, after) = (run(machine, work) for machine in (whole, part))
    share = part.rows * part.columns / 256
    assert sum(t.compute for t in after) == pytest.approx(
        sum(t.compute for t in before) / share, rel=0.01
    )
    first, second = energy(whole, before), energy(part, after)
    for name in ("compute", "compressor"):
        assert second[name] == pytest.approx(first[name], rel=0.01)
    assert second["buffers"] > first["buffers"]  # less is used again


@pytest.mark.parametrize("size", [{"rows": 4}, {"columns": 8}, {"rows": 4, "columns": 8}])
def test_equal_work_costs_harmonia_equal_energy(size):
    """In projections and in attention, which is on its array too."""
    whole, part = harmonia(), harmonia(HarmoniaParams(**size))
    work = prefill(resolve_model("llama-2-7b"), 1, 512)
    first, second = (energy(machine, run(machine, work)) for machine in (whole, part))
    assert second["compute"] == pytest.approx(first["compute"], rel=0.01)
    assert part.attention_rate(512) / whole.attention_rate(512) == pytest.approx(
        part.mac_rate / whole.mac_rate
    )


def test_shares_of_the_modules():
    assert module_shares(resolve_model("opt-30b")) == {
        "qkv": 3 / 12,
        "o": 1 / 12,
        "u": 4 / 12,
        "d": 4 / 12,
    }
    assert sum(module_shares(resolve_model("llama-2-70b")).values()) == pytest.approx(1)


def test_lengths_give_back_the_saving_they_came_from():
    model = resolve_model("opt-125m")
    lengths = {"qkv": 7, "o": 7, "u": 6, "d": 5}
    assert saving(model, lengths) == pytest.approx(192 / 72)
    # The tuple of least spread among all with this mean.
    assert lengths_of_saving(model, 192 / 72) == dict.fromkeys(MODULES, 6)


@pytest.mark.parametrize("length", [1, 5, 8, 16])
@pytest.mark.parametrize("shape", [(1024, 16), (2048, 64), (4096, 256), (640, 512)])
def test_an_instruction_of_the_accelerator_takes_the_cycles_of_its_program(length, shape):
    """Those that the accelerator's own tests hold against its RTL."""
    (time,) = run(anda(dict.fromkeys(MODULES, length)), [product(16, *shape)])
    assert time.compute == instruction_cycles(AndaParams(), length, length, *shape).cycles


@pytest.mark.parametrize("length", [1, 5, 8])
@pytest.mark.parametrize("shape", [(16, 64, 16), (40, 512, 33), (1, 4096, 48)])
def test_anda_products_take_the_cycles_of_the_matrix_unit(length, shape):
    """But for what starts an instruction and drains the unit once."""
    machine = anda(dict.fromkeys(MODULES, length))
    (time,) = run(machine, [product(*shape)])
    rows, inner, columns = (
        ceil(size / part) for size, part in zip(shape, (16, 64, 16), strict=True)
    )
    ends = ([False] * (inner - 1) + [True]) * rows * columns
    held = mxu_schedule(AndaMxuParams(), [length] * len(ends), ends)[-1] + 1
    tile = inner * group_cycles(length)
    tiles = time.compute - rows * machine.start(length)
    assert tiles - max(tile, 16) == held - (RESULT_LATENCY + AndaMxuParams().rows) - tile


def test_harmonia_products_take_the_cycles_of_its_array():
    """The first outputs of two tiles are as far apart as the model says, short tiles included."""
    params = HarmoniaArrayParams()
    for groups in (1, 15, 16, 40):
        last = np.array(([0] * (groups - 1) + [1]) * 3)
        first = array_cycles(params, {"last": last})[:: params.columns]
        machine = harmonia()
        (time,) = run(machine, [product(3 * params.rows, groups * 32, params.columns)])
        assert time.compute / 3 - machine.start(8) == first[2] - first[1]


@pytest.mark.parametrize(("groups", "tiles"), [(16, 1), (16, 9), (40, 3), (128, 64)])
def test_an_instruction_of_harmonia_takes_the_cycles_of_its_program(groups, tiles):
    """Those that the accelerator's own tests hold against its RTL."""
    builder = Builder(HarmoniaParams())
    builder.emit(Opcode.GEMM, operand=Operand.WEIGHTS, groups=groups, tiles=tiles, token_tiles=1)
    (time,) = run(harmonia(), [product(8, groups * 32, tiles * 16)])
    assert time.compute == harmonia_cycles(HarmoniaParams(), Settings(), builder.program[0]).cycles


@pytest.mark.parametrize("name", BASELINES)
def test_a_baselines_multiply_add_costs_andas_by_the_ratio_of_the_records(name):
    shape, machine = product(16, 8192, 4096, "qkv"), anda({"qkv": 7})
    ours, theirs = (energy(m, run(m, [shape]))["compute"] for m in (machine, ACCELERATORS[name]()))
    assert theirs / ours == pytest.approx(pe_fj(name) / anda_fj(7), rel=0.01)
