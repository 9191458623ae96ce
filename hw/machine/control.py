"""How an accelerator's registers, controller and memory port are joined, and what is counted."""

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import product
from operator import add
from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from tilewright.golden.params.machine import COUNTER_BITS, MachineParams
from tilewright.hw.machine.fetcher import Fetcher
from tilewright.hw.machine.loader import Loader
from tilewright.hw.machine.registers import Registers
from tilewright.hw.machine.sequencer import Sequencer
from tilewright.hw.machine.storer import Storer
from tilewright.hw.machine.watchdog import Watchdog
from tilewright.hw.unit import Unit

__all__ = ["connect_control", "connect_ports", "count", "held", "started", "transfers"]


def connect_ports(
    m: Module,
    accelerator: Unit,
    registers: Registers,
    controller: Sequencer,
    loader: Loader,
    storer: Storer,
) -> None:
    """Streams: the accelerator's own; and loads and stores on their way to their units.

    A stream of instructions has a port of its own: it never waits for loads, nor they for it.
    """
    m.submodules.fetcher = fetcher = Fetcher(loader.params)
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
    for unit, name, ports in (
        (loader, "load", ("request", "response")),
        (storer, "store", ("write", "written")),
    ):
        for c, port in product(range(loader.params.memory_channels), ports):
            outside = getattr(accelerator, loader.params.memory_port(port, c))
            connect(m, getattr(unit, f"mem_{port}")[c], flipped(outside))
        m.d.comb += [
            unit.start.eq(getattr(controller, f"start_{name}")),
            unit.command.eq(controller.move),
            unit.forgive.eq(registers.start),
            getattr(controller, f"busy_{name}").eq(unit.busy),
            getattr(controller, f"failed_{name}").eq(unit.failed),
        ]


def connect_control(
    m: Module,
    registers: Registers,
    controller: Sequencer,
    loader: Loader,
    storer: Storer,
    saturated: Value,
    works: Value,
) -> None:
    """Programs' starts, fetches and states; ``saturated`` is an event.

    ``works``: a unit that an instruction uses moves data. That is progress for the watchdog, and so
    are lines that pass the memory ports and instructions that are issued.
    """
    m.submodules.watchdog = watchdog = Watchdog()
    ports = (
        *(*loader.mem_request, *loader.mem_response),
        *(*storer.mem_write, *storer.mem_written),
    )
    moves = Cat(port.valid & port.ready for port in ports).any()
    m.d.comb += [
        watchdog.running.eq(controller.status.busy),
        watchdog.progress.eq(controller.issued | moves | works | registers.fill.valid),
        watchdog.limit.eq(registers.limit),
        controller.expired.eq(watchdog.expired),
        controller.start.eq(registers.start),
        controller.stream.eq(registers.stream),
        registers.status.eq(controller.status),
        registers.fetch.eq(controller.fetch),
        registers.fetch_address.eq(controller.fetch_address),
        controller.fetched.eq(registers.fetched),
        registers.saturated.eq(saturated),
    ]


def count(
    m: Module,
    registers: Registers,
    controller: Sequencer,
    loader: Loader,
    storer: Storer,
    own: Mapping[Any, Value],
) -> None:
    """Counters that a start clears and that grow by their steps; ``own`` are the accelerator's."""
    codes = registers.counter_codes
    counters = Signal(data.ArrayLayout(COUNTER_BITS, len(codes)))
    busy = {
        codes[{"MATRIX": "GEMM"}.get(unit.name, unit.name)]: controller.works(unit)
        for unit in controller.instructions.units
    }
    steps = {
        codes["CYCLES"]: controller.status.busy,
        codes["INSTRUCTIONS"]: controller.issued,
        codes["CONTROL"]: controller.in_control & controller.status.busy,
        **busy,
        codes["LINES_READ"]: transfers(loader.mem_request),
        codes["LINES_WRITTEN"]: transfers(storer.mem_write),
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


def started(m: Module, params: MachineParams, issue: Value) -> Value:
    """The pulse ``issue`` in the cycle in which the unit starts."""
    if not params.start_cycles:
        return issue
    start = Signal()
    m.d.sync += start.eq(issue)
    return start


def held(m: Module, params: MachineParams, name: str, issue: Value, given: Any) -> Any:
    """What was ``given`` at the last ``issue``, from the cycle on in which the unit starts."""
    kept = Signal.like(given, name=name)
    with m.If(issue):
        m.d.sync += kept.eq(given)
    if params.start_cycles:
        return kept
    now = Signal.like(given, name=f"{name}_now")
    m.d.comb += now.eq(Mux(issue, given, kept))
    return now
