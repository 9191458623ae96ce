"""The host in C++: what it does with a program is what golden and the cocotb bench do."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.base.errors import CheckError, CommandError
from tilewright.golden.machine.port import memory_timing
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.program import simulate_program
from tilewright.studies.runs.simulation import DEFAULT, NATIVE, Simulation
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.native import NativeMemory, build_native, run_native
from tilewright.verify.native.netlist import Design
from tilewright.verify.native.share import share_modules
from tilewright.verify.simulators import find
from tilewright.verify.simulators.verilator import left_out

# The host knows an accelerator by a header alone; a second one takes a minute to build.
BLOCKS = ["harmonia:small", pytest.param("anda:small", marks=pytest.mark.full)]


def golden_of(block, latency=30, bad_lines=frozenset()):
    """A random program, the memory before and after it, how it ends, its counters."""
    params = resolve(block)
    system = accelerator_of(params)
    builder = bench_side(params).random_program(params, 1)
    program, memory = builder.program, builder.memory
    wanted = memory.copy()
    outcome = system.machine(params, wanted, bad_lines).run(program)
    counters = dict(outcome.counts)
    if outcome.error is Error.NONE:
        counters |= system.program_cycles(params, outcome, latency)
    return program, memory, wanted, outcome, {c.name.lower(): n for c, n in counters.items()}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("latency", [1, 30, "hbm2", "ddr4"])
def test_a_program_as_golden_has_it(block, latency):
    """Memory, events, counters and cycles; in instruction memory, then as a stream, no reset."""
    if isinstance(latency, str):
        latency = memory_timing(latency, None, resolve(block), 300e6)
    program, memory, wanted, outcome, counters = golden_of(block, latency)
    params, got, told = resolve(block), memory.copy(), []
    model, answers = build_native(block), NativeMemory(latency=latency)
    run = run_native(model, [program], got, answers, tell=told.append)
    (ending,) = run.endings
    assert (ending.error, ending.instruction) == (Error.NONE, outcome.instruction)
    assert ending.saturated == outcome.saturated
    assert ending.counters == counters
    assert np.array_equal(got, wanted)
    assert told == sorted(told)
    line = len(memory) // params.line_bytes
    both = np.concatenate([memory, program_lines(params, program)])
    machine = accelerator_of(params).machine(params, both.copy())
    times = [machine.run_stream(line) for _ in range(2)]
    cycles = [accelerator_of(params).program_cycles(params, o, latency) for o in times]
    run = run_native(model, [line, line], both, answers)
    assert [e.counters["cycles"] for e in run.endings] == [
        c[accelerator_of(params).counter["CYCLES"]] for c in cycles
    ]
    assert np.array_equal(both[: len(memory)], machine.external.reshape(-1)[: len(memory)])


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("memory_name", ["flat", "lpddr5"])
def test_a_program_as_the_cocotb_bench_has_it(block, memory_name):
    """The same numbers, cycles of the host among them."""
    program, memory, *_ = golden_of(block)
    timing = memory_timing(memory_name, None, resolve(block), 300e6)
    ours, theirs = (
        simulate_program(block, program, memory, timing, simulation)
        for simulation in (NATIVE, DEFAULT)
    )
    assert np.array_equal(ours[0], theirs[0])
    for name in ("status", "saturated", "counters", "cycles"):
        assert ours[1][name] == theirs[1][name], name


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("seed", [1, 2])
def test_late_answers_in_any_order(block, seed):
    """Counts other than time are golden's, and no program is faster; a seed decides the order."""
    program, memory, wanted, _, counters = golden_of(block)
    model, answers = build_native(block), NativeMemory(latency=30, stall=0.3, seed=seed)
    runs = []
    for _ in range(2):
        got = memory.copy()
        run = run_native(model, [program], got, answers)
        (ending,) = run.endings
        assert ending.error is Error.NONE
        assert np.array_equal(got, wanted)
        runs.append((run.cycles, ending))
    assert runs[0] == runs[1]
    for name in ("instructions", "lines_read", "lines_written", "matrix_busy"):
        assert ending.counters[name] == counters[name]
    assert ending.counters["cycles"] > counters["cycles"]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_line_that_answers_with_an_error(block):
    bad = frozenset({2})
    program, memory, _, outcome, _ = golden_of(block, bad_lines=bad)
    assert outcome.error is Error.BUS
    model, got = build_native(block), memory.copy()
    run = run_native(model, [program], got, NativeMemory(latency=4, bad_lines=bad))
    assert (run.endings[0].error, run.endings[0].instruction) == (Error.BUS, outcome.instruction)


@pytest.mark.parametrize("block", BLOCKS)
def test_what_does_not_end(block):
    """A loop without an end, a line that is never answered: one line that says so."""
    params, memory = resolve(block), np.zeros(64 * resolve(block).line_bytes, np.uint8)
    system, model = accelerator_of(params), build_native(block)
    lines = ["loop count=1000000", *("loop count=16000000",) * 2, "add s0, s0, #1"]
    endless = system.assemble("\n".join([*lines, "end", "end", "end", "halt"]))
    with pytest.raises(CheckError, match=r"^still busy after 5000 cycles, at instruction \d+$"):
        run_native(model, [endless], memory, limit=5000)
    load = system.assemble(f"load {bench_side(params).TENSORS}, row=0, rows=1, line=3\nwait\nhalt")
    lost = NativeMemory(lost_lines=frozenset({3}))
    with pytest.raises(CheckError, match=r"^nothing moved for 3000 cycles, at instruction 1$"):
        run_native(model, [load], memory, lost, patience=3000, watchdog=0)
    (ending,) = run_native(model, [load], memory, lost, watchdog=1000).endings
    assert ending.error is Error.WATCHDOG


def test_a_channel_that_pauses():
    """Lines in half of the cycles: the program waits for them and does the same."""
    program, memory, wanted, _, counters = golden_of("harmonia:small")
    got, answers = memory.copy(), NativeMemory(latency=30, rate=(1, 2))
    (ending,) = run_native(build_native("harmonia:small"), [program], got, answers).endings
    assert np.array_equal(got, wanted)
    assert ending.counters["cycles"] > counters["cycles"]


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"^latency must be at least 1, not 0$"):
        NativeMemory(latency=0)
    with pytest.raises(ValueError, match=r"^stall must be 0\.\.0\.95, not 1$"):
        NativeMemory(stall=1)
    timing = memory_timing("hbm2", None, resolve("harmonia:small"), 300e6)
    with pytest.raises(ValueError, match=r"^DRAM has a rate of its own and does not stall$"):
        NativeMemory(latency=timing, stall=0.1)
    with pytest.raises(ValueError, match=r"^host must be one of cocotb, native, not 'none'$"):
        Simulation(host="none")
    with pytest.raises(CommandError, match=r"^the native host runs with Verilator, not icarus$"):
        Simulation("icarus", host="native")
    with pytest.raises(
        CommandError, match=r"^the native host writes no waves; take --host cocotb$"
    ):
        Simulation(waves="a.vcd", host="native")


VERILOG = """module top(clk, a, y);
  input clk;
  wire clk;
  input [3:0] a;
  wire [3:0] a;
  output [3:0] y;
  wire [3:0] y;
  part p0 (
    .clk(clk)
  );
endmodule

module part(clk, a, ready, early, q);
  input clk;
  wire clk;
  input [3:0] a;
  wire [3:0] a;
  output ready;
  wire ready;
  output early;
  wire early;
  output [3:0] q;
  reg [3:0] q;
  initial q = 4'd5;
  wire \\$1 ;
  reg hidden;
  assign \\$1  = q == 4'h5;
  assign ready = \\$1  | a[0];
  assign early = hidden;
  always @(posedge clk)
    q <= a;
endmodule
"""


def test_wires_and_what_they_depend_on():
    paths = Design(VERILOG)
    depends = paths.inputs_of("part")
    assert depends["ready"] == {"a"}
    assert not depends["q"] and not depends["early"] and not depends["\\$1"]


def test_a_module_is_cut_where_its_state_ends():
    """Logic that depends on inputs stays; the wires that it begins with are state."""
    cut = Design(VERILOG).cut("part")
    assert [wire.name for wire in cut.state] == ["\\$1", "early", "q"]
    assert cut.logic == ("ready = \\$1  | a[0]",)
    assert not cut.within


def test_statements_of_a_cut_are_in_order():
    """Those of a set of names come in another order in every process, and nothing is kept then."""
    wires = [f"w{k}" for k in range(40)]
    more = "".join(f"  wire {w};\n  assign {w} = \\$1  ^ a[1];\n" for w in wires)
    changed = VERILOG.replace("\\$1  | a[0];", f"{{{', '.join(wires)}}} == 0;\n{more}")
    cut = Design(changed).cut("part")
    assert len(cut.logic) == 41 and list(cut.logic) == sorted(cut.logic)


@pytest.mark.parametrize(
    "ready",
    [
        "  reg [3:0] words [7:0];\n  assign ready = words[a];",
        "  other o0 (\n    .x(a),\n    .y(ready)\n  );",
    ],
    ids=["a memory", "another module"],
)
def test_what_passes_through_state_is_not_cut(ready):
    other = (
        "module other(x, y);\n  input [3:0] x;\n  wire [3:0] x;\n  output y;\n  wire y;\n"
        "  assign y = | x;\nendmodule\n"
    )
    changed = VERILOG.replace("  assign ready = \\$1  | a[0];", ready)
    assert changed != VERILOG
    paths = Design(changed + other)
    assert paths.inputs_of("part")["ready"] == {"a"}
    assert paths.cut("part") is None


def test_stubs_in_the_place_of_modules(monkeypatch):
    monkeypatch.setattr("tilewright.verify.native.share.LEAST_TEXT", 10**6)
    stubbed, shared = share_modules(VERILOG, "top")
    assert "q <= a" in stubbed and not shared
    monkeypatch.setattr("tilewright.verify.native.share.LEAST_TEXT", 1)
    stubbed, (shared,) = share_modules(VERILOG, "top")
    assert "if (shared0_rise(copy, a , after0, after1, after2)) begin" in stubbed
    assert "assign ready = \\$1  | a[0];" in stubbed
    assert "q <= a" in shared.verilog and "q <= a" not in stubbed
    assert "module part(clk, a, ready, early, q, \\$1 );" in shared.verilog
    # Both declarations of the new port agree: a single bit has no range in either.
    assert "  output \\$1 ;" in shared.verilog and "  wire \\$1 ;" in shared.verilog
    assert (shared.inputs, shared.outputs) == (1, 3)
    assert "same &= take(m.in0, in0);" in shared.glue


def test_what_is_shared_may_share(monkeypatch):
    """A module within a shared one is a model of its own too, with the same stub everywhere."""
    monkeypatch.setattr("tilewright.verify.native.share.LEAST_TEXT", 1)
    outer = """module outer(clk, a, q);
  input clk;
  wire clk;
  input [3:0] a;
  wire [3:0] a;
  output [3:0] q;
  wire [3:0] q;
  part p0 (
    .clk(clk),
    .a(a),
    .q(q)
  );
endmodule

"""
    design = VERILOG.replace("  part p0 (\n    .clk(clk)\n", "  outer o0 (\n    .clk(clk)\n")
    stubbed, (first, second) = share_modules(design + outer, "top")
    assert "shared0_rise" in stubbed and "shared1_rise" not in stubbed
    assert "shared1_rise" in first.verilog and "q <= a" in second.verilog


def test_optimisations_that_a_verilator_gets_wrong_are_left_out():
    """Only those of the known version, and only where the module is."""
    known, other = (
        find.Simulator("verilator", Path("/v/verilator_bin"), version, Path("/v"))
        for version in ("5.006", "5.48")
    )
    for name in (
        *("\\anda_apu.datapath.plane_dot ", "\\anda_mxu__rows_2_apu.plane_dot "),
        *("sky130_fd_sc_hd__a211oi_1", "FAx1_ASAP7_75t_R"),
    ):
        text = f"module part(a);\nendmodule\nmodule {name}(a);\nendmodule\n"
        assert left_out(known, text, "-O1") == ("-fno-dfg", "-fno-gate")
        assert left_out(known, text, "-O0") == ("-fno-dfg", "-fno-gate", "-fno-expand")
        assert left_out(other, text, "-O1") == ()
    assert left_out(known, VERILOG, "-O2") == ()


def test_nothing_is_expanded_that_the_compiler_would_not_make_short():
    newest = find.Simulator("verilator", Path("/v/verilator_bin"), "5.49", Path("/v"))
    assert left_out(newest, VERILOG, "-O0") == ("-fno-expand",)
    assert left_out(newest, VERILOG, "-O1") == ()
