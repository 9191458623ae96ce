"""A host on the stream ports of a system: every port in every cycle, and register accesses."""

from collections import deque
from typing import Any

from tilewright.golden.params.block import pack_fields, unpack_fields
from tilewright.verify.streams import Harness, StreamDriver, StreamMonitor


class Host:
    """Drives all inputs and takes all outputs of a block; a part of the bench.

    ``stall`` is the probability that a side waits, per cycle and port. Subclasses handle the
    words: ``_came``, ``_went``, ``_answer``.
    """

    def __init__(self, clock: Harness, params: Any, *, stall: float = 0.0, seed: int = 1):
        self.clock, self.dut, self.params, self.stall = clock, clock.dut, params, stall
        self.ports = {port.name: port for port in (*params.inputs, *params.outputs)}
        options: dict[str, Any] = {"stall": stall, "seed": seed}
        self.drivers = {p.name: StreamDriver(self.dut, p.name, **options) for p in params.inputs}
        self.monitors = {p.name: StreamMonitor(self.dut, p.name, **options) for p in params.outputs}
        self.answers: deque[dict[str, int]] = deque()  # register responses

    async def start(self) -> None:
        """Reset the block; from now on the clock moves this host."""
        await self.clock.reset([self])

    @property
    def now(self) -> int:
        return self.clock.cycle

    # One cycle.

    def step(self, cycle: int) -> bool:
        moved = False
        for name, monitor in self.monitors.items():
            if monitor.step(cycle):
                moved = True
                word = monitor.words.pop()
                monitor.given.pop()
                if name == "mmio_response":
                    self.answers.append(unpack_fields(self.ports[name].fields, word))
                else:
                    self._came(name, word)
                self._moved(name)
        self._answer(cycle + 1)
        for name, driver in self.drivers.items():
            if driver.step(cycle):
                moved = True
                self._went(name)
                self._moved(name)
        return moved

    def _came(self, name: str, word: int) -> None:
        """Output ``name`` gave ``word``."""
        raise NotImplementedError

    def _went(self, name: str) -> None:
        """Input ``name`` took a word."""

    def _moved(self, name: str) -> None:
        """Port ``name``, of either kind, moved a word."""

    def _answer(self, now: int) -> None:
        """Send what the memory answers in cycle ``now``."""

    def progress(self) -> str:
        return f"{len(self.answers)} register responses"

    # Register accesses of a program.

    def request(self, address: int, value: int | None) -> None:
        """Ask for a register access; ``answers`` has its response when it is done."""
        fields = {"address": address, "write": int(value is not None), "data": value or 0}
        self.drivers["mmio_request"].send([pack_fields(self.ports["mmio_request"].fields, fields)])

    async def access(self, address: int, value: int | None = None) -> tuple[int, bool]:
        """Write (or read, without a value) a register: data and whether it was refused."""
        self.request(address, value)
        await self.clock.run(lambda: bool(self.answers))
        answer = self.answers.popleft()
        return answer["data"], bool(answer["error"])

    async def write(self, address: int, value: int) -> None:
        _, refused = await self.access(address, value)
        assert not refused, f"write of {value:#x} to register {address:#x} refused"

    async def read(self, address: int) -> int:
        value, refused = await self.access(address)
        assert not refused, f"read of register {address:#x} refused"
        return value
