"""A host and an external memory around the accelerator, for benches."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.dram import DramChannel
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.moves import Latency, timing_of
from tilewright.golden.machine.port import dram_channels
from tilewright.golden.params.block import pack_fields, unpack_fields
from tilewright.golden.params.machine import (
    CONTROL_FIELDS,
    INSTRUCTION_BASE,
    STATUS_FIELDS,
    Error,
    Register,
)
from tilewright.verify import host
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.streams import Harness

START = 2  # cycles from the write that starts a program to the first of its cycle model
CODE = -1  # stands for a channel: the port of instructions


@dataclass(frozen=True)
class Status:
    """Content of the status register."""

    busy: bool
    done: bool
    error: Error
    instruction: int


class Host(host.Host):
    """Drives every port, cycle by cycle; ``external`` is the memory's content, changed in place.

    ``latency`` is how many cycles after a request, or a written line, its answer is offered; a
    timing of DRAM decides that for lines, anew for every program that starts. With ``stall``, the
    probability that a side waits, answers are also late, in any order. Lines beyond the memory, and
    those of ``bad_lines``, are answered with an error. Lines of ``lost_lines`` are never answered.
    """

    def __init__(
        self,
        clock: Harness,
        params: Any,
        external: NDArray[np.uint8],
        *,
        latency: Latency = 4,
        stall: float = 0.0,
        seed: int = 1,
        bad_lines: frozenset[int] = frozenset(),
        lost_lines: frozenset[int] = frozenset(),
    ):
        super().__init__(clock, params, stall=stall, seed=seed)
        self.system = accelerator_of(params)
        self.external = external.reshape(-1, params.line_bytes)
        self.timing = timing_of(latency)
        self.bad_lines, self.lost_lines = bad_lines, lost_lines
        self.dram: list[DramChannel] = []
        self.begun, self.starting = 0, False  # the first cycle of a program, as golden counts
        self.random = Random(f"{seed} memory")
        # By the name of the port that answers: when due, the answer.
        self.due: dict[str, deque[tuple[int, int]]] = {}
        self.channel: dict[str, int] = {}  # of a memory port
        self.tags: list[set[int]] = [set() for _ in range(params.memory_channels)]
        for c in range(params.memory_channels):
            for name in ("request", "response", "write", "written"):
                self.channel[params.memory_port(name, c)] = c
            for name in ("response", "written"):
                self.due[params.memory_port(name, c)] = deque()
            # The memory has its own ways to be late.
            self.drivers[params.memory_port("response", c)].stall = 0.0
        # Instructions come from the same memory through a port of their own.
        self.channel |= {"code_request": CODE, "code_response": CODE}
        self.due["code_response"] = deque()
        self.drivers["code_response"].stall = 0.0
        self.tags.append(set())  # of CODE, the last
        self.requested: list[int] = []  # lines, in order

    # One cycle.

    def step(self, cycle: int) -> bool:
        # A line that is due is not a standstill.
        return super().step(cycle) or any(self.due.values())

    def _answer(self, now: int) -> None:
        for name, waiting in self.due.items():
            entry = self._due(waiting, now)
            if entry is not None:
                self.drivers[name].send([entry])
                fields = unpack_fields(self.ports[name].fields, entry)
                if "tag" in fields:
                    self.tags[self.channel[name]].remove(fields["tag"])

    def progress(self) -> str:
        return f"{sum(len(waiting) for waiting in self.due.values())} lines outstanding"

    def _due(self, waiting: deque[tuple[int, int]], now: int) -> int | None:
        due = [entry for entry in waiting if entry[0] <= now]
        if not due:
            return None
        entry = self.random.choice(due) if self.stall else due[0]
        waiting.remove(entry)
        return entry[1]

    def _came(self, name: str, word: int) -> None:
        fields, channel = unpack_fields(self.ports[name].fields, word), self.channel[name]
        of_code = channel == CODE
        line = fields["line"]
        if not of_code:
            line = line * self.params.memory_channels + channel
        if line in self.lost_lines:
            return
        bad = line >= len(self.external) or line in self.bad_lines
        due = self.now + self.timing.latency
        if self.dram and not of_code:
            answered = self.dram[channel].read if "tag" in fields else self.dram[channel].write
            due = self.begun + answered(self.now - self.begun, fields["line"])
        if self.stall:
            due += self.random.randrange(1 + round(20 * self.stall))
        if "tag" in fields:
            assert fields["tag"] not in self.tags[channel], f"tag {fields['tag']} is used twice"
            self.tags[channel].add(fields["tag"])
            if not of_code:
                self.requested.append(line)
            data = 0 if bad else int.from_bytes(self.external[line].tobytes(), "little")
            answer = {"tag": fields["tag"], "error": int(bad), "data": data}
            port = "code_response" if of_code else self.params.memory_port("response", channel)
            self.due[port].append((due, pack_fields(self.ports[port].fields, answer)))
        else:
            if not bad:
                content = fields["data"].to_bytes(self.params.line_bytes, "little")
                self.external[line] = np.frombuffer(content, np.uint8)
            self.due[self.params.memory_port("written", channel)].append((due, int(bad)))

    def _went(self, name: str) -> None:
        if self.starting and name == "mmio_request":
            self.begun, self.starting = self.now + START, False
            self.dram = dram_channels(self.params, self.timing)

    # Operations of a program on the host.

    async def load_program(self, program: Sequence[BaseInstruction | int]) -> None:
        for k, item in enumerate(program):
            word = item.encode() if isinstance(item, BaseInstruction) else item
            for half in range(2):
                address = INSTRUCTION_BASE + 16 * k + 8 * half
                await self.write(address, word >> 64 * half & ((1 << 64) - 1))

    async def run_program(
        self, program: Sequence[BaseInstruction | int], limit: int = 2_000_000
    ) -> Status:
        """Load a program, start it and wait for its end."""
        await self.load_program(program)
        return await self.start_program(limit=limit)

    async def run_stream(self, line: int, limit: int = 2_000_000) -> Status:
        """Start the program that lies in memory from ``line`` on, and wait for its end."""
        return await self.start_program(stream=1, line=line, limit=limit)

    async def start_program(
        self, *, stream: int = 0, line: int = 0, limit: int = 2_000_000
    ) -> Status:
        """Start a program with one write and wait for its end."""
        fields = {"start": 1, "stream": stream, "reserved": 0, "line": line}
        self.starting = True
        await self.write(Register.CONTROL, pack_fields(CONTROL_FIELDS, fields))
        end = self.now + limit
        while True:
            status = await self.status()
            if status.done:
                return status
            assert self.now < end, f"still busy after {limit} cycles: {status}"
            # Look again later: a host that always asks would be most of the simulation.
            pause = self.now + 200
            await self.clock.run(lambda: self.now >= pause, patience=limit)  # noqa: B023

    async def status(self) -> Status:
        fields = unpack_fields(STATUS_FIELDS, await self.read(Register.STATUS))
        return Status(
            bool(fields["busy"]),
            bool(fields["done"]),
            Error(fields["error"]),
            fields["instruction"],
        )

    async def counters(self) -> dict[IntEnum, int]:
        counters = self.system.counter
        return {c: await self.read(Register.COUNTERS + 8 * c) for c in counters}
