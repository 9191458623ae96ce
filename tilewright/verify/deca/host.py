"""Base of all cores of the benches: the memory and the registers of the processing element."""

from collections.abc import Callable, Sequence
from random import Random

from tilewright.golden.params.deca import LUT_ENTRIES, DecaParams, Register
from tilewright.verify import host
from tilewright.verify.deca.memory import Memory
from tilewright.verify.deca.workload import TileJob
from tilewright.verify.streams import Harness

# A core that waits for its tiles moves words on these ports alone, and fewer than so many: tiles
# have 25 lines at most.
WAITING_PORTS = ("mem_request", "mem_response", "mmio_request", "mmio_response")
MOST_WORDS_WAITING = 20_000


class Host(host.Host):
    """Drives every stream of the PE.

    A PE that only talks to its memory, or is only asked for its status, without end, fails the
    test.
    """

    params: DecaParams

    def __init__(
        self, clock: Harness, params: DecaParams, memory: Memory, rng: Random, *, stall: float = 0.0
    ):
        super().__init__(clock, params, stall=stall, seed=rng.getrandbits(32))
        self.memory, self.rng = memory, rng
        self.drivers["mem_response"].stall = 0.0  # the memory has its own ways to be late
        self.monitors["mem_request"].stall = min(stall, 0.3)
        self.finished: list[TileJob] = []
        self.lost: list[TileJob] = []  # squashed
        self._words_waiting = 0  # since anything else moved, or a register was written

    def _came(self, name: str, word: int) -> None:
        if name == "mem_request":
            self.memory.request(self.now, word)

    def _answer(self, now: int) -> None:
        word = self.memory.answer(now)
        if word is not None:
            self.drivers["mem_response"].send([word])

    def _moved(self, name: str) -> None:
        self._words_waiting = self._words_waiting + 1 if name in WAITING_PORTS else 0
        if self._words_waiting > MOST_WORDS_WAITING:
            raise AssertionError(
                f"no tile moved while memory and registers moved {MOST_WORDS_WAITING} words:"
                f" {self.progress()}"
            )

    def progress(self) -> str:
        return f"{len(self.memory.waiting)} lines due"

    # Operations of a program.

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.clock.run(condition)

    async def cycles(self, count: int) -> None:
        end = self.now + count
        await self.clock.run(lambda: self.now >= end)

    def request(self, address: int, value: int | None) -> None:
        if value is not None:
            self._words_waiting = 0
        super().request(address, value)

    async def load_table(self, lut: Sequence[int]) -> None:
        await self._access_table(lut)

    async def save_table(self) -> list[int]:
        return await self._access_table([None] * LUT_ENTRIES)

    async def _access_table(self, values: Sequence[int | None]) -> list[int]:
        """Write, or read, every entry, one request after the other."""
        for k in range(LUT_ENTRIES):
            self.request(Register.LUT + 8 * k, values[k])
        await self.until(lambda: len(self.answers) == LUT_ENTRIES)
        assert not any(answer["error"] for answer in self.answers), "a table entry was refused"
        saved = [answer["data"] for answer in self.answers]
        self.answers.clear()
        return saved
