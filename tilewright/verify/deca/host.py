"""What every core does with the processing element, for benches: the memory, the registers."""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from tilewright.golden.params.deca import LUT_ENTRIES, DecaParams, Register
from tilewright.verify.deca.memory import Memory
from tilewright.verify.deca.workload import TileJob
from tilewright.verify.streams import Harness, StreamDriver, StreamMonitor, pack_word

WORD = (1 << 64) - 1
# A core that waits for its tiles moves words on these ports alone, and fewer than so many: tiles
# have 25 lines at most.
WAITING_PORTS = ("mem_request", "mem_response", "mmio_request", "mmio_response")
MOST_WORDS_WAITING = 20_000


class Host:
    """Drives every stream of the PE cycle by cycle.

    ``stall`` is the probability that the core waits, per cycle and port. What else comes out of
    the PE and what has been taken by it, ``_came`` and ``_went`` are told. A PE that only talks to
    its memory, or is only asked for its status, without end, fails the test.
    """

    def __init__(
        self, clock: Harness, params: DecaParams, memory: Memory, rng: Random, *, stall: float = 0.0
    ):
        self.clock, self.dut = clock, clock.dut
        self.params, self.memory, self.rng, self.stall = params, memory, rng, stall
        seed = rng.getrandbits(32)
        self.ports = {port.name: port for port in (*params.inputs, *params.outputs)}
        self.drivers = {
            p.name: StreamDriver(self.dut, p.name, stall=stall, seed=seed) for p in params.inputs
        }
        self.monitors = {
            p.name: StreamMonitor(self.dut, p.name, stall=stall, seed=seed) for p in params.outputs
        }
        self.drivers["mem_response"].stall = 0.0  # the memory has its own ways to be late
        self.monitors["mem_request"].stall = min(stall, 0.3)
        self.answers: deque[int] = deque()  # register responses
        self.finished: list[TileJob] = []
        self.lost: list[TileJob] = []  # squashed
        self._words_waiting = 0  # since anything else moved, or a register was written

    async def start(self) -> None:
        """Reset the PE; from now on the clock moves this core."""
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
                self._came(name, monitor.words.pop())
                monitor.given.pop()
                self._watch(name)
        word = self.memory.answer(cycle + 1)
        if word is not None:
            self.drivers["mem_response"].send([word])
        for name, driver in self.drivers.items():
            if driver.step(cycle):
                moved = True
                self._went(name)
                self._watch(name)
        return moved

    def _watch(self, name: str) -> None:
        self._words_waiting = self._words_waiting + 1 if name in WAITING_PORTS else 0
        if self._words_waiting > MOST_WORDS_WAITING:
            raise AssertionError(
                f"no tile moved while memory and registers moved {MOST_WORDS_WAITING} words:"
                f" {self.progress()}"
            )

    def _came(self, name: str, word: int) -> None:
        """Output ``name`` gave ``word``."""
        if name == "mem_request":
            self.memory.request(self.now, word)
        elif name == "mmio_response":
            self.answers.append(word)

    def _went(self, name: str) -> None:
        """Input ``name`` took a word."""

    def progress(self) -> str:
        return f"{len(self.memory.waiting)} lines due"

    # What a program does.

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.clock.run(condition)

    async def cycles(self, count: int) -> None:
        end = self.now + count
        await self.clock.run(lambda: self.now >= end)

    async def access(self, address: int, value: int | None = None) -> tuple[int, bool]:
        """Write (or read, without a value) a register: data and whether it was refused."""
        self._request(address, value)
        await self.until(lambda: bool(self.answers))
        answer = self.answers.popleft()
        return answer & WORD, bool(answer >> 64)

    def _request(self, address: int, value: int | None) -> None:
        if value is not None:
            self._words_waiting = 0
        fields = {"address": address, "write": int(value is not None), "data": value or 0}
        self.drivers["mmio_request"].send([pack_word(self.ports["mmio_request"], fields)])

    async def write(self, address: int, value: int) -> None:
        _, refused = await self.access(address, value)
        assert not refused, f"write of {value:#x} to register {address:#x} refused"

    async def load_table(self, lut: Sequence[int]) -> None:
        for k in range(LUT_ENTRIES):
            self._request(Register.LUT + 8 * k, lut[k])
        await self.until(lambda: len(self.answers) == LUT_ENTRIES)
        assert not any(answer >> 64 for answer in self.answers), "a table entry was refused"
        self.answers.clear()

    async def save_table(self) -> list[int]:
        for k in range(LUT_ENTRIES):
            self._request(Register.LUT + 8 * k, None)
        await self.until(lambda: len(self.answers) == LUT_ENTRIES)
        assert not any(answer >> 64 for answer in self.answers), "a table entry was refused"
        saved = [answer & WORD for answer in self.answers]
        self.answers.clear()
        return saved
