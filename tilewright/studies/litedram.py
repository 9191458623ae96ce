"""The cycle model of DRAM against LiteDRAM's controller, which is not ours: a record.

    python -m tilewright.studies.litedram

needs ``pip install litedram==2024.12``. Its controller for a DDR3-1600 module of 64 bits is
simulated in RTL: requests of one channel, as fast as it takes them, in the order in which programs
make them, by the addresses of :mod:`tilewright.golden.machine.dram`. The criterion, fixed before
the first comparison: the cycles from the first request to the last column command of our
model are within 3% of the controller's, for every trace of a program. The first comparison, with
JEDEC's times alone and our batches of writes, was 2.1 to 8.1% below; the states of LiteDRAM's bank
machines and its turns for single writes, read in its source, are parameters since. Traces at random
are outside of the criterion: LiteDRAM takes requests of one bank out of turn with those of another,
our model takes all in order.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from tilewright.base.errors import CheckError
from tilewright.compiler.count import timeline
from tilewright.compiler.image import Lines
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import step_program
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.dram import Dram, PseudoChannel
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.machine import UnitOfWork
from tilewright.golden.params.resolve import resolve
from tilewright.sim.models import resolve_model
from tilewright.studies.measured import write_measured
from tilewright.verify import job
from tilewright.verify.simulators import run_bench

RECORD = "litedram"
TOLERANCE = 0.03
LINE_BYTES, BURST_BYTES = 128, 64
MODULE, SPEED, CLOCK = "MT8KTF51264", "1600", 200_000_000
PROGRAMS = {
    "harmonia: a layer of SmolLM2, a token at 1,024": ("harmonia", Step.prompt(1023, 1)),
    "harmonia: a layer of SmolLM2, 16 tokens of a prompt": ("harmonia", Step.prompt(256, 16)),
    "anda: a layer of SmolLM2, a token at 256": ("anda", Step.prompt(255, 1)),
}
STREAM = "a stream of weights"
SETTLED = 64  # cycles after the reset, in which its counters run out
# Migen writes all processes alike.
LINT_OFF = "/* verilator lint_off COMBDLY */ /* verilator lint_off INITIALDLY */\n"
Trace = list[tuple[int, int]]  # lines of a channel, each with 1 if it is written


def trace_of(block: str, step: Step) -> Trace:
    """Lines of the first channel, in the order in which a layer asks for them."""
    params: Any = resolve(block)
    machine = machine_of(params)
    plan = Plan(machine=machine, shape=resolve_model("smollm2-135m"), context=1024)
    program = step_program(Lines(plan), step, latency=LATENCY, layers=1)
    channels, asked = params.memory_channels, []
    for work in timeline(machine, program, LATENCY):
        x, store = work.instruction, work.unit == UnitOfWork.STORE
        if work.unit in (UnitOfWork.LOAD, UnitOfWork.STORE):
            count = machine.lines(machine.memory(x["memory"]), x["rows"])
            for k in range(-x["line"] % channels, count, channels):
                turn = k if store else k // channels  # a store sends a line a cycle
                asked.append((work.begin + turn, store, (x["line"] + k) // channels))
    return [(line, int(store)) for _, store, line in sorted(asked)]


def random_trace(lines: int, writes: float, seed: int = 1) -> Trace:
    """Lines anywhere, of which a share is written."""
    rng = np.random.default_rng(seed)
    where = rng.integers(0, 1 << 16, lines)
    return [(int(k), int(w)) for k, w in zip(where, rng.random(lines) < writes, strict=True)]


def packed(trace: Trace) -> list[list[int]]:
    """Runs of adjacent lines: first, how many, whether they are written."""
    runs = groupby(enumerate(trace), lambda item: (item[1][0] - item[0], item[1][1]))
    return [[(own := list(run))[0][1][0], len(own), key[1]] for key, run in runs]


def unpacked(runs: Iterable[list[int]]) -> Iterator[tuple[int, int]]:
    """The inverse of :func:`packed`."""
    return ((first + k, write) for first, count, write in runs for k in range(count))


def model_cycles(dram: Dram, trace: Iterable[tuple[int, int]]) -> int:
    """Cycles of our model, from the first request to the last command."""
    half, waiting, last = PseudoChannel(dram, LINE_BYTES), [], 0
    for line, write in trace:
        if not write:
            last = half.transfer(0, line, False)
            continue
        waiting.append(line)
        if len(waiting) == dram.batch:
            last = max(half.transfer(0, one, True) for one in waiting)
            waiting.clear()
    return max([last, *(half.transfer(0, line, True) for line in waiting)])


def settings() -> tuple[Any, Any, Any, dict[str, int]]:
    """LiteDRAM's PHY, geometry and timing, and the same as parameters of our model.

    A cycle of the controller is a clock of our model: both move a burst in it.
    """
    from litedram import modules
    from litedram.phy.model import get_sdram_phy_settings

    module = getattr(modules, MODULE)(CLOCK, "1:4", SPEED)
    phy = get_sdram_phy_settings("DDR3", 64, CLOCK)
    time, geometry = module.timing_settings, module.geom_settings
    parameters = {
        "period": 10**12 // CLOCK,
        **{"halves": 1, "burst_bytes": BURST_BYTES, "groups": 1},
        "banks": 1 << geometry.bankbits,
        "row_bytes": (1 << geometry.colbits) * 8,
        **{"ccd_s": time.tCCD, "ccd_l": time.tCCD},
        **{"cl": -(-phy.cl // 4), "cwl": -(-phy.cwl // 4)},
        "rcd": time.tRCD + 1,  # a state of its bank machine before
        "rp": time.tRP + 2,  # a state, and its arbiter's turn
        **{"ras": time.tRAS, "rrd_s": time.tRRD, "rrd_l": time.tRRD, "faw": time.tFAW},
        "rtp": 1,  # it has none: the next command closes the row
        "wr": time.tWR,
        "wtr": time.tWTR + 2,  # two states of its control
        "rtw": phy.read_latency + 1,  # what its control waits
        **{"refi": time.tREFI, "rfc": time.tRFC},
        "window": 6 * BURST_BYTES // LINE_BYTES,  # 9 bursts a bank, 3 clocks before a row command
        "batch": 1,  # a line is written when it comes, whatever is read
    }
    return phy, geometry, time, parameters


def litedram_verilog(trace: Trace, dram: Dram) -> str:
    """LiteDRAM's controller and the requests of ``trace`` in a table, as a module ``top``.

    ``cycles`` counts from the first request to the last column command, which sets ``finished``.
    """
    from functools import reduce
    from operator import or_

    from litedram.core.controller import LiteDRAMController
    from migen import If, Memory, Module, Signal
    from migen.fhdl.verilog import convert

    phy, geometry, time, _ = settings()
    top = Module()
    top.submodules.controller = controller = LiteDRAMController(phy, geometry, time, CLOCK)
    banks = [getattr(controller.interface, f"bank{k}") for k in range(dram.banks)]
    half, bursts = PseudoChannel(dram, LINE_BYTES), LINE_BYTES // BURST_BYTES
    width, table = len(banks[0].addr), []
    for line, write in trace:
        bank, row, column = half.where(line)
        address = row * (dram.row_bytes // BURST_BYTES) + column * bursts
        table += [((write << 8 | bank) << width) + address + k for k in range(bursts)]
    top.specials.memory = memory = Memory(width + 9, len(table), init=table)
    top.specials.port = port = memory.get_port(async_read=True)
    asked, done, cycles = (Signal(32, name=name) for name in ("asked", "done", "cycles"))
    finished = Signal(name="finished")
    clock, begun = Signal(32, name="clock"), Signal(name="begun")
    top.sync += clock.eq(clock + 1)
    top.comb += [begun.eq(clock >= SETTLED), port.adr.eq(asked), finished.eq(done == len(table))]
    for k, bank in enumerate(banks):
        here = begun & (asked < len(table)) & (port.dat_r[width : width + 8] == k)
        top.comb += [
            bank.valid.eq(here),
            bank.addr.eq(port.dat_r[:width]),
            bank.we.eq(port.dat_r[width + 8]),
        ]
        top.sync += If(bank.valid & bank.ready, asked.eq(asked + 1))
    moved = reduce(or_, (bank.rdata_valid | bank.wdata_ready for bank in banks))
    top.sync += If(begun & ~finished, cycles.eq(cycles + 1), done.eq(done + moved))
    text = convert(top, {cycles, finished}, name="top").main_source
    content = "\n".join(f"memory[{k}] = {word};" for k, word in enumerate(table))
    return LINT_OFF + re.sub(r"\$readmemh\(.*\);", content, text)


def litedram_cycles(trace: Trace, dram: Dram) -> int:
    """Cycles of LiteDRAM's controller: its RTL, from the first request to the last command."""
    result = run_bench(litedram_verilog(trace, dram), "top", "tilewright.studies.litedram")
    if not result.passed:
        raise CheckError(f"LiteDRAM: {result.failure}")
    return int(result.numbers["cycles"])


if "TILEWRIGHT_JOB" in os.environ:  # in a simulation
    import cocotb
    from cocotb.clock import Clock
    from cocotb.triggers import ClockCycles

    @cocotb.test
    async def finishes(dut: Any) -> None:
        dut.sys_rst.value = 1
        Clock(dut.sys_clk, 10, "ns").start()
        await ClockCycles(dut.sys_clk, 4)
        dut.sys_rst.value = 0
        while not dut.finished.value:
            await ClockCycles(dut.sys_clk, 100)
        job.report(cases=1, cycles=int(dut.cycles.value), seconds=0.0)


def main() -> None:
    parameters = settings()[3]
    dram = Dram(**parameters)
    traces = {STREAM: [(k, 0) for k in range(4096)]}
    traces |= {name: trace_of(block, step) for name, (block, step) in PROGRAMS.items()}
    traces |= {
        "at random": random_trace(1000, 0.0),
        "at random, a quarter written": random_trace(1000, 0.25),
    }
    runs = []
    for name, trace in traces.items():
        theirs, ours = litedram_cycles(trace, dram), model_cycles(dram, trace)
        print(f"{name}: LiteDRAM {theirs}, model {ours}, {ours / theirs - 1:+.2%}", flush=True)
        runs.append({"name": name, "cycles": theirs, "model": ours, "runs": packed(trace)})
    command = "python -m tilewright.studies.litedram"
    write_measured(RECORD, {"command": command, "parameters": parameters, "traces": runs})


if __name__ == "__main__":
    main()
