"""How an accelerator's registers, controller and memory port are joined, and what is counted."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from tilewright.golden.params.machine import COUNTER_BITS
from tilewright.hw.machine.dma import Dma
from tilewright.hw.machine.fetcher import Fetcher
from tilewright.hw.machine.registers import Registers
from tilewright.hw.machine.sequencer import Sequencer
from tilewright.hw.machine.watchdog import Watchdog
from tilewright.hw.unit import Unit

__all__ = ["connect_control", "connect_ports", "count", "transfers"]


def connect_ports(
    m: Module, accelerator: Unit, registers: Registers, controller: Sequencer, dma: Dma
) -> None:
    """Streams: the accelerator's own, and loads and stores on their way to the memory port.

    A stream of instructions has a port of its own: it never waits for loads, nor they for it.
    """
    m.submodules.fetcher = fetcher = Fetcher(dma.params)
    connect(m, fetcher.mem_request, flipped(accelerator.code_request))
    connect(m, fetcher.mem_response, flipped(accelerator.code_response))
    m.d.comb += [
        fetcher.start.eq(registers.start & registers.stream),
        fetcher.line.eq(registers.line),
        fetcher.running.eq(controller.status.busy),
        fetcher.base.eq(controller.base),
        controller.filled.eq(fetcher.filled),
        controller.fetch_failed.eq(fetcher.failed),
        registers.fill.eq(fetcher.fill),
    ]
    connect(m, registers.request, flipped(accelerator.mmio_request))
    connect(m, registers.response, flipped(accelerator.mmio_response))
    for c in range(dma.params.memory_channels):
        for name in ("request", "response", "write", "written"):
            outside = getattr(accelerator, dma.params.memory_port(name, c))
            connect(m, getattr(dma, f"mem_{name}")[c], flipped(outside))
    connect(m, controller.move, dma.command)


def connect_control(
    m: Module,
    registers: Registers,
    controller: Sequencer,
    dma: Dma,
    saturated: Value,
    works: Value,
) -> None:
    """Programs' starts, fetches and states; ``saturated`` is an event.

    ``works``: a unit that an instruction uses moves data. That is progress for the watchdog, and so
    are lines that pass the memory port and instructions that end.
    """
    m.submodules.watchdog = watchdog = Watchdog()
    ports = (*dma.mem_request, *dma.mem_response, *dma.mem_write, *dma.mem_written)
    moves = Cat(port.valid & port.ready for port in ports).any()
    m.d.comb += [
        watchdog.running.eq(controller.status.busy),
        watchdog.progress.eq(controller.finished | moves | works | registers.fill.valid),
        watchdog.limit.eq(registers.limit),
        controller.expired.eq(watchdog.expired),
        controller.start.eq(registers.start),
        controller.stream.eq(registers.stream),
        dma.forgive.eq(registers.start),
        registers.status.eq(controller.status),
        registers.fetch.eq(controller.fetch),
        registers.fetch_address.eq(controller.fetch_address),
        controller.fetched.eq(registers.fetched),
        registers.saturated.eq(saturated),
        controller.dma_idle.eq(dma.idle),
        controller.dma_failed.eq(dma.failed),
    ]


def count(
    m: Module,
    registers: Registers,
    controller: Sequencer,
    dma: Dma,
    is_gemm: Value,
    own: Mapping[Any, Value],
) -> None:
    """Counters that a start clears and that grow by their steps; ``own`` are the accelerator's."""
    codes = registers.counter_codes
    counters = Signal(data.ArrayLayout(COUNTER_BITS, len(codes)))
    running = controller.status.busy & ~controller.in_control & ~controller.in_memory
    steps = {
        codes["CYCLES"]: controller.status.busy,
        codes["INSTRUCTIONS"]: controller.finished,
        codes["CONTROL"]: controller.in_control & controller.status.busy,
        codes["MEMORY"]: controller.in_memory & controller.status.busy,
        codes["GEMM"]: running & is_gemm,
        codes["VECTOR"]: running & ~is_gemm,
        codes["LINES_READ"]: transfers(dma.mem_request),
        codes["LINES_WRITTEN"]: transfers(dma.mem_write),
        **own,
    }
    m.d.comb += registers.counters.eq(counters)
    for counter in codes:
        m.d.sync += counters[counter].eq(counters[counter] + steps[counter])
    with m.If(registers.start):
        m.d.sync += counters.eq(0)


def transfers(ports: Iterable[Any]) -> Value:
    """Words that streams move in this cycle."""
    return reduce(add, (port.valid & port.ready for port in ports))
