"""Whole products with their transfers: the model's cycles are those of the simulated Verilog."""

import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.compiler import product as products
from tilewright.compiler.count import ProgramTime, program_time
from tilewright.compiler.machine import machine_of
from tilewright.compiler.product import best_product
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.accelerator import as_built, run
from tilewright.sim.models import resolve_model
from tilewright.sim.programs import cached_count, gemm_time
from tilewright.sim.workload import Gemm, linear
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.streams import LINES, random_program
from tilewright.verify.machine.workload import gemm_of, stream_of_weights
from tilewright.verify.native import NativeMemory, run_as_golden

LENGTH = 5

# Tokens, inputs, outputs: one tile; parts of the weights while others are used; several blocks of
# tokens, ragged everywhere; more instructions than the memory holds; on Anda, more inputs than half
# of the weight buffer holds for a group of results. Buffers are small.
SMALL = {
    "anda:small,activation_rows=128,weight_rows=128,instructions=40": [
        *((1, 16, 2), (2, 40, 70), (9, 20, 37), (13, 40, 33), (3, 70, 20))
    ],
    "harmonia:small,operand_rows=64,activation_rows=32,halves_rows=64,instructions=64": [
        *((1, 8, 4), (2, 40, 70), (9, 100, 37), (33, 20, 101))
    ],
}
# Every run has products for which a simulator is there anyway: to build others takes longer than
# all of them. Some of Anda's are cut.
BUILT = {
    "harmonia:small": [(1, 8, 4), (2, 40, 70), (9, 100, 37)],
    "anda:small": [(1, 16, 2), (9, 20, 37), (13, 40, 33), (33, 100, 70)],
}
SPECS = [
    "harmonia:small",
    *(pytest.param(spec, marks=pytest.mark.full) for spec in ("anda:small", *SMALL)),
]
NARROW = "memory_channels=1,line_bytes=64,dma_lines=8"
WIDE = "memory_channels=1,line_bytes=256,dma_lines=64"
PAPER = [(1, 512, 256), (20, 300, 150)]


@pytest.fixture
def short_bodies(monkeypatch):
    """Products of a few instructions have repetitions."""
    monkeypatch.setattr(products, "ITEMS", 40)


def gemm(shape):
    rows, inner, outer = shape
    return Gemm(name="p", module="o", rows=rows, inner=inner, outer=outer)


def options(params, shape):
    """The options of the bench's product."""
    size = dict(zip(("tokens", "inputs", "outputs"), shape, strict=True))
    return size | ({"mantissa": LENGTH} if params.block == "anda" else {})


def verilog_cycles(spec, shapes, latency):
    """Cycles of every shape."""
    return [verilog_cycles_of(spec, options(resolve(spec), shape), latency) for shape in shapes]


def verilog_cycles_of(spec, asked, latency):
    """Cycles of a product's programs, which do what golden does."""
    rng = np.random.default_rng(1)
    programs, memory = gemm_of(resolve(spec), rng, asked | {"latency": latency})
    ran = run_as_golden(spec, programs, memory, NativeMemory(latency=latency))
    return sum(program.counters["cycles"] for program in ran)


def programs_of(params, shape, latency=10):
    """Those that the bench runs."""
    asked = options(params, shape) | {"latency": latency}
    return gemm_of(params, np.random.default_rng(1), asked)[0]


def model_cycles(spec, shapes, latency):
    machine, found = machine_of(resolve(spec)), []
    for shape in shapes:
        programs = programs_of(machine.params, shape, latency)
        times = [program_time(machine, x, latency, streamed=False) for x in programs]
        found.append(sum(time.cycles for time in times))
    return found


@pytest.mark.parametrize("spec", SMALL)
def test_shapes_ask_for_everything(spec, short_bodies):
    params = resolve(spec)
    asked = [best_product(machine_of(params), *shape, 10) for shape in SMALL[spec]]
    both = {True, False}
    assert {len(product.bodies) > 1 or product.bodies[0].times > 1 for product in asked} == both
    assert {len(product.matrix.parts) > 1 for product in asked} == both
    assert {product.together > 1 for product in asked} == both
    assert {len(product.spans[-1]) < product.together for product in asked} == both
    cuts = [len(programs_of(params, shape)) for shape in SMALL[spec]]
    assert {count > 1 for count in cuts} == both


@pytest.mark.parametrize("spec", SPECS)
def test_products_take_the_cycles_of_the_verilog(spec, short_bodies):
    shapes = (SMALL | BUILT)[spec]
    assert verilog_cycles(spec, shapes, 10) == model_cycles(spec, shapes, 10)


def test_products_take_the_cycles_of_golden(short_bodies):
    """An accelerator that no test run builds otherwise."""
    params, latency = resolve("anda:small"), 10
    system, shapes = accelerator_of(params), BUILT["anda:small"]
    for shape, counted in zip(shapes, model_cycles("anda:small", shapes, latency), strict=True):
        asked = options(params, shape) | {"latency": latency}
        programs, memory = gemm_of(params, np.random.default_rng(1), asked)
        machine = system.machine(params, memory)
        times = [system.program_cycles(params, machine.run(x), latency) for x in programs]
        assert sum(time[system.counter["CYCLES"]] for time in times) == counted


@pytest.mark.parametrize("spec", SPECS)
def test_a_product_of_any_length_takes_one_start(spec):
    """One program in external memory; the bench holds its counters against golden's."""
    shape = (SMALL | BUILT)[spec][-1]
    asked = options(resolve(spec), shape)
    loaded = verilog_cycles_of(spec, asked, 10)
    streamed = verilog_cycles_of(spec, asked | {"from_memory": True}, 10)
    # The host's transfers between its programs do not count.
    assert 0.97 * loaded < streamed < 1.03 * loaded


@pytest.mark.parametrize("spec", SPECS)
def test_streams_longer_than_the_instruction_memory(spec):
    """Also one that is no power of two."""
    params, rng = resolve(spec), np.random.default_rng(2)
    system, choose = accelerator_of(params), Random(2)
    memory = rng.integers(0, 256, LINES * params.line_bytes, np.uint8)
    for stall in (0.0, 0.4):
        text = random_program(params, bench_side(params).TENSORS, choose, 3 * params.instructions)
        code = program_lines(params, system.assemble(text))
        answers = NativeMemory(latency=4, stall=stall)
        run_as_golden(spec, [LINES], np.concatenate([memory, code]), answers)


def test_the_longest_projections_of_known_models():
    """28,672 inputs of Llama-2-70B, 36,864 of OPT-66B: near the array's own cycles."""
    params = AndaParams()
    array = 128 // params.columns * 28672 // params.group * (LENGTH + 1)
    time = gemm_time(params, gemm((16, 28672, 128)), length=LENGTH)
    assert array < time.cycles < 1.3 * array
    with pytest.raises(ValueError, match="36864 inputs of 16 outputs do not fit the weights'"):
        gemm_time(HarmoniaParams(), gemm((1, 36864, 128)))


def test_transfers_hide_behind_the_matrix_unit():
    """Nearly all cycles are the matrix unit's; loads and stores are within them."""
    time = gemm_time(AndaParams(), gemm((64, 4096, 4096)))
    assert 0.98 * time.cycles < time.gemm < time.cycles < time.gemm + time.load + time.store
    assert time.load > time.store > time.control > time.vector == time.convert == 0


@pytest.mark.parametrize(
    ("port", "most"),
    [
        ("", 0.05),
        # One token on Harmonia: loads and products take as long.
        (",memory_channels=1,line_bytes=256", 0.08),
        # Blocks of tokens fill more of the memory of activations than half of it.
        (",memory_channels=1,line_bytes=64,dma_lines=8", 0.07),
    ],
)
@pytest.mark.parametrize("block", ["anda", "harmonia"])
def test_the_formula_for_a_port_stays_near_the_programs(block, port, most):
    """All projections of a layer, decoding and prompt; docs/model-accelerators.md has a limit."""
    params = resolve(block + port)
    machine = as_built(params)
    for tokens in (1, 512):
        layer = [replace(p, count=1) for p in linear(resolve_model("llama-2-7b"), tokens)]
        exact = sum(gemm_time(params, p, length=machine.lengths[p.module]).cycles for p in layer)
        assert sum(time.cycles for time in run(machine, layer)) == pytest.approx(exact, rel=most)


def test_the_formula_has_the_ports_rate():
    """Outstanding requests bound it where the memory is far."""
    few = AndaParams(memory_channels=1, line_bytes=64, dma_lines=8)
    near, far = as_built(few, latency=5), as_built(few, latency=29)
    assert near.bandwidth == 64 * near.clock == 4 * far.bandwidth
    wide = as_built(HarmoniaParams())
    assert wide.bandwidth == 8 * 128 * wide.clock
    # Weights of 4 bits, and 16 bits of a scale for a group of 32.
    assert wide.port.weight_bits == 4.5
    # What the port could have moved besides costs no energy.
    (time,) = run(wide, [gemm((1, 4096, 4096))])
    assert time.memory_bits == pytest.approx(4.5 * 4096**2, rel=0.01)


def test_gemm_on_a_block(capsys):
    assert main(["gemm", "16", "512", "256", "--block", "anda", "--scheme", "5", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["cycles"] == gemm_time(AndaParams(), gemm((16, 512, 256)), length=5).cycles
    assert row["milliseconds"] == pytest.approx(1e3 * row["cycles"] / 285e6)
    assert main(["gemm", "16", "512", "256", "--block", "harmonia", "--latency", "1"]) == 0
    assert "load" in capsys.readouterr().out


# A channel of HBM2 brings 32 GB/s: of 128 bytes a cycle, 7 in 8 cycles at 285 MHz, 5 in 6 at 300.
# Its lines come after 150 ns.
CLOCKS = {"anda": 285e6, "harmonia": 300e6}
HBM2 = {"anda": (7, 8), "harmonia": (5, 6)}
HBM2_RATE, HBM2_LATENCY = 256e9, 150e-9


def streamed(spec, latency=None):
    """Bytes a cycle of a load that fills the memory of weights, from HBM2's channels.

    ``latency`` in cycles, HBM2's by default.
    """
    params = resolve(spec)
    latency = latency or round(CLOCKS[params.block] * HBM2_LATENCY)
    program, lines = stream_of_weights(params)
    memory = np.random.default_rng(1).integers(0, 256, lines * params.line_bytes, np.uint8)
    answers = NativeMemory(latency=latency, rate=HBM2[params.block])
    (ran,) = run_as_golden(spec, [program], memory, answers)
    return ran.counters["lines_read"] * params.line_bytes / ran.counters["cycles"]


@pytest.mark.parametrize(
    ("spec", "latency"),
    [
        ("harmonia:small", 4),  # its few outstanding requests suffice where the memory is near
        # Builds of their own.
        pytest.param("anda:small,weight_rows=8192,dma_lines=64", None, marks=pytest.mark.full),
        pytest.param(
            "harmonia:small,converter_width=4,operand_rows=8192,dma_lines=64",
            None,
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_stream_of_weights_has_the_memorys_rate(spec, latency):
    """On the Verilog, at least nine tenths of it."""
    params = resolve(spec)
    count, of = HBM2[params.block]
    assert streamed(spec, latency) >= 0.9 * params.beat_bits / 8 * count / of


@pytest.mark.full
@pytest.mark.parametrize("spec", ["anda", "harmonia"])
def test_a_stream_of_weights_has_hbm2s_rate_at_the_papers_size(spec):
    assert streamed(spec) * CLOCKS[spec] >= 0.9 * HBM2_RATE


@pytest.mark.full
@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize(
    ("latency", "port"), [(1, ""), (30, ""), (1, NARROW), (30, NARROW), (30, WIDE)]
)
def test_products_behind_other_memories(spec, latency, port):
    """Also lines of several rows, and more outstanding requests."""
    asked = f"{spec},{port}" if port else spec
    assert verilog_cycles(asked, SMALL[spec], latency) == model_cycles(asked, SMALL[spec], latency)


@pytest.mark.full
@pytest.mark.parametrize(
    "spec", [f"{block},{port}".rstrip(",") for block in CLOCKS for port in ("", NARROW, WIDE)]
)
def test_products_take_the_cycles_of_the_verilog_of_the_papers_size(spec):
    assert verilog_cycles(spec, PAPER, 30) == model_cycles(spec, PAPER, 30)


def test_times_are_cached_by_all_that_decides_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    @cached_count
    def time(rows, latency):
        made.append(rows)
        if rows > 2:
            raise ValueError("no more than 2")
        return ProgramTime(1, rows, latency, sums=(((8, 1), rows),))

    assert time(1, 30) == ProgramTime(1, 1, 30, sums=(((8, 1), 1),)) == time(1, 30)
    assert time(2, 30).cycles == 2 and time(1, 40).control == 40
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^no more than 2$"):
            time(3, 30)
    assert made == [1, 2, 1, 3]
    # Another process finds them too.
    again = cached_count(time.__wrapped__)
    assert again(2, 30).cycles == 2 and made == [1, 2, 1, 3]
