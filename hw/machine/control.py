"""How an accelerator's registers, controller and memory port are joined, and what is counted."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import reduce
from itertools import product
from operator import add
from typing import Any, TypeVar

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from tilewright.golden.params.machine import (
    COUNTER_BITS,
    MachineMemory,
    MachineParams,
    UnitOfWork,
)
from tilewright.hw.machine.fetcher import Fetcher
from tilewright.hw.machine.loader import Loader
from tilewright.hw.machine.move import under_way
from tilewright.hw.machine.registers import Registers
from tilewright.hw.machine.sequencer import Sequencer
from tilewright.hw.machine.storer import Storer
from tilewright.hw.machine.watchdog import Watchdog
from tilewright.hw.unit import Unit

A = TypeVar("A", bound=MachineParams)


class Accelerator(Unit[A]):
    """Base of the accelerators: registers, controller, loads and stores between ports and units.

    ``watched``, which is not a port, shows ``STATUS`` to what is built around the accelerator.
    """

    watched: Any = None

    def control(
        self,
        m: Module,
        controller: Sequencer,
        counters: type[IntEnum],
        memories: type[MachineMemory],
    ) -> None:
        """Add the units that every accelerator has."""
        m.submodules.registers = self.registers = Registers(self.params, counters)
        m.submodules.controller = self.controller = controller
        m.submodules.loader = self.loader = Loader(self.params, memories)
        m.submodules.storer = self.storer = Storer(self.params, memories)

    def connect_ports(self, m: Module) -> None:
        """Streams: the accelerator's own; and loads and stores on their way to their units.

        A stream of instructions has a port of its own: it never waits for loads, nor they for it.
        """
        p, registers, controller = self.params, self.registers, self.controller
        m.submodules.fetcher = fetcher = Fetcher(p)
        connect(m, fetcher.mem_request, flipped(self.code_request))
        connect(m, fetcher.mem_response, flipped(self.code_response))
        m.d.comb += [
            fetcher.start.eq(registers.start & registers.stream),
            fetcher.line.eq(registers.line),
            fetcher.running.eq(controller.status.busy),
            fetcher.base.eq(controller.base),
            controller.filled.eq(fetcher.filled),
            controller.fetch_failed.eq(fetcher.failed),
            registers.fill.eq(fetcher.fill),
        ]
        connect(m, registers.request, flipped(self.mmio_request))
        connect(m, registers.response, flipped(self.mmio_response))
        for unit, name, ports in (
            (self.loader, "load", ("request", "response")),
            (self.storer, "store", ("write", "written")),
        ):
            for c, port in product(range(p.memory_channels), ports):
                outside = getattr(self, p.memory_port(port, c))
                connect(m, getattr(unit, f"mem_{port}")[c], flipped(outside))
            m.d.comb += [
                unit.start.eq(getattr(controller, f"start_{name}")),
                unit.command.eq(controller.move),
                unit.forgive.eq(registers.start),
                getattr(controller, f"busy_{name}").eq(unit.busy),
                getattr(controller, f"failed_{name}").eq(unit.failed),
            ]
        if p.loads > 1:
            names = ("full", "count", "ends")
            m.d.comb += [
                getattr(controller, f"load_{n}").eq(getattr(self.loader, n)) for n in names
            ]

    def connect_control(self, m: Module, saturated: Value, works: Value) -> None:
        """Programs' starts, fetches and states; ``saturated`` is an event.

        ``works``: a unit that an instruction uses moves data. That is progress for the watchdog,
        and so are lines that pass the memory ports and instructions that are issued.
        """
        registers, controller = self.registers, self.controller
        m.submodules.watchdog = watchdog = Watchdog()
        ports = (
            *(*self.loader.mem_request, *self.loader.mem_response),
            *(*self.storer.mem_write, *self.storer.mem_written),
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
        if self.watched is not None:
            m.d.comb += self.watched.eq(controller.status)

    def count(self, m: Module, own: Mapping[Any, Value]) -> None:
        """Counters, which a start clears; ``own`` are those of this accelerator."""
        registers, controller = self.registers, self.controller
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
            codes["LINES_READ"]: transfers(self.loader.mem_request),
            codes["LINES_WRITTEN"]: transfers(self.storer.mem_write),
            **own,
        }
        m.d.comb += registers.counters.eq(counters)
        for counter in codes:
            m.d.sync += counters[counter].eq(counters[counter] + steps[counter])
        with m.If(registers.start):
            m.d.sync += counters.eq(0)

    def started(self, m: Module, issue: Value) -> Value:
        """The pulse ``issue`` in the cycle in which the unit starts."""
        if not self.params.start_cycles:
            return issue
        start = Signal()
        m.d.sync += start.eq(issue)
        return start

    def held(self, m: Module, name: str, issue: Value, given: Any) -> Any:
        """``given`` as of the last ``issue``, from the cycle in which the unit starts.

        Where several loads are under way: of the one that writes rows.
        """
        if self.params.loads > 1 and issue is self.controller.issue(UnitOfWork.LOAD):
            own = self.loader
            return under_way(m, name, self.params.loads, given, issue, own.ends, own.count)[0]
        kept = Signal.like(given, name=name)
        with m.If(issue):
            m.d.sync += kept.eq(given)
        if self.params.start_cycles:
            return kept
        now = Signal.like(given, name=f"{name}_now")
        m.d.comb += now.eq(Mux(issue, given, kept))
        return now


def transfers(ports: Iterable[Any]) -> Value:
    """Words that streams move in this cycle."""
    return reduce(add, (port.valid & port.ready for port in ports))
