"""A few tiles through the RTL of a DECA PE, in Amaranth's own simulator."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.golden.params.deca import (
    REGISTER_SPACE_BITS,
    TILE_ROWS,
    DecaParams,
    Register,
    TileError,
)
from tilewright.verify.deca.memory import Memory
from tilewright.verify.deca.workload import TileJob

if TYPE_CHECKING:
    from amaranth.sim import SimulatorContext

    from tilewright.hw.deca.pe import DecaPE

__all__ = ["run_tiles"]


def run_tiles(params: DecaParams, memory: Memory, batches: Sequence[Sequence[TileJob]]) -> int:
    """Decompress every tile, a batch at a time, both loaders in turn; return the cycles it took.

    The tiles of a batch share a configuration, all tiles the table of the first one. ``result``,
    ``done_at`` and ``got_rows`` of each job are set. The core is never late: it takes every result
    at once and reads a row a cycle.
    """
    # Imported here: only a page that simulates pays for it.
    from amaranth.sim import Simulator

    from tilewright.hw.deca.pe import DecaPE

    core = _Core(DecaPE(params), params, memory, batches)
    simulator = Simulator(core.pe)
    simulator.add_clock(1e-9)
    simulator.add_testbench(core.program)
    simulator.run()
    return core.now


class _Core:
    """The streams of the PE: words that wait to enter, and what becomes of those that leave."""

    def __init__(
        self,
        pe: "DecaPE",
        params: DecaParams,
        memory: Memory,
        batches: Sequence[Sequence[TileJob]],
    ):
        self.pe, self.params, self.memory, self.batches = pe, params, memory, batches
        self.now = 0
        self.pending: dict[str, deque[int]] = {port.name: deque() for port in params.inputs}
        self.answers_due = 0  # to writes of registers
        self.tiles: list[deque[TileJob]] = [deque() for _ in range(params.loaders)]
        self.reading: deque[tuple[TileJob, int]] = deque()

    async def program(self, context: "SimulatorContext") -> None:
        for port in self.params.outputs:
            context.set(getattr(self.pe, port.name).ready, 1)
        for k, entry in enumerate(self.batches[0][0].lut or ()):
            self._write(Register.LUT + 8 * k, entry)
        for batch in self.batches:
            self._write(Register.CONFIG, batch[0].config_word)
            await self._finish(context)
            for number, job in enumerate(batch):
                self._give(number % self.params.loaders, job)
            await self._finish(context)

    async def _finish(self, context: "SimulatorContext") -> None:
        while self.answers_due or self.reading or any(self.tiles):
            await self._cycle(context)

    def _write(self, address: int, value: int) -> None:
        self.pending["mmio_request"].append(
            address | 1 << REGISTER_SPACE_BITS | value << (REGISTER_SPACE_BITS + 1)
        )
        self.answers_due += 1

    def _give(self, k: int, job: TileJob) -> None:
        word = shift = 0
        for field in self.params.command_fields:
            word |= job.fields[field.name] << shift
            shift += field.bits
        self.pending[f"command{k}"].append(word)
        self.tiles[k].append(job)

    async def _cycle(self, context: "SimulatorContext") -> None:
        """Offer what waits, and see what moved at the end of the cycle."""
        inputs = {name: getattr(self.pe, name) for name in self.pending}
        outputs = {p.name: getattr(self.pe, p.name) for p in self.params.outputs}
        for name, stream in inputs.items():
            waiting = self.pending[name]
            context.set(stream.valid, bool(waiting))
            if waiting:
                context.set(stream.payload.as_value(), waiting[0])
        watched = [stream.valid for stream in outputs.values()]
        watched += [stream.payload.as_value() for stream in outputs.values()]
        watched += [stream.ready for stream in inputs.values()]
        _, _, *seen = await context.tick().sample(*watched)
        self.now += 1
        count = len(outputs)
        for name, ready in zip(inputs, seen[2 * count :], strict=True):
            if ready and self.pending[name]:
                self.pending[name].popleft()
        for name, valid, word in zip(outputs, seen[:count], seen[count : 2 * count], strict=True):
            if valid:
                self._came(name, word)
        answer = self.memory.answer(self.now)
        if answer is not None:
            self.pending["mem_response"].append(answer)

    def _came(self, name: str, word: int) -> None:
        if name == "mem_request":
            self.memory.request(self.now, word)
        elif name == "mmio_response":
            self.answers_due -= 1
        elif name == "read_response":
            job, row = self.reading.popleft()
            job.got_rows[row] = word & ((1 << self.params.line_bits) - 1)
        else:
            loader = int(name.removeprefix("done"))
            job = self.tiles[loader].popleft()
            job.result, job.done_at = TileError(word), self.now
            if job.result == job.error:
                for row in range(TILE_ROWS):
                    self.pending["read_request"].append(loader | row << 1)
                    self.reading.append((job, row))
