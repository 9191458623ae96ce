"""A processor on the AXI4-Lite registers of a block, by third-party models (``cocotbext-axi``)."""

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from tilewright.golden.params.registers import Register
from tilewright.verify.interrupt import InterruptModel
from tilewright.verify.streams import PERIOD_NS

WORD = 8  # bytes of a register


class AxiHost:
    """Reads and writes registers; ``irq`` must fit what it knows in every cycle.

    It begins after the reset. ``stall`` is the probability that a channel pauses, per cycle.
    """

    limit = 200_000  # cycles of whatever is waited for

    def __init__(self, dut: Any, stall: float, seed: int):
        self.dut, self.stall, self.random = dut, stall, Random(seed)
        self.interrupt = InterruptModel()
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.aclk)
        self.pause(channels(self.registers))
        cocotb.start_soon(self._run())

    def pause(self, ends: Iterable[Any]) -> None:
        """Let ends of channels pause at random."""
        for end in ends if self.stall else ():
            end.set_pause_generator(self._pauses())

    def _pauses(self) -> Iterator[bool]:
        while True:
            yield self.random.random() < self.stall

    async def _run(self) -> None:
        while True:
            await RisingEdge(self.dut.aclk)
            self.step()

    def step(self) -> None:
        """Act at the end of a cycle."""
        self.interrupt.check(int(self.dut.irq.value))

    async def write(self, address: int, value: int, size: int = WORD) -> AxiResp:
        """Write the lowest ``size`` bytes of a register; returns the response."""
        data = value.to_bytes(WORD, "little")[:size]
        return (await self._soon(self.registers.write(address, data))).resp

    async def read(self, address: int) -> tuple[int, AxiResp]:
        """Read one word; returns its value and the response."""
        found = await self._soon(self.registers.read(address, WORD))
        return int.from_bytes(found.data, "little"), found.resp

    async def put(self, address: int, value: int) -> None:
        answer = await self.write(address, value)
        assert answer == AxiResp.OKAY, f"write to {address:#x} refused"

    async def get(self, address: int) -> int:
        value, answer = await self.read(address)
        assert answer == AxiResp.OKAY, f"read of {address:#x} refused"
        return value

    async def check_map(
        self, known: Mapping[int, Register], tried: Iterable[int], starts: str = ""
    ) -> None:
        """Check that registers can be read, and written only where the map says so.

        ``starts`` is the name of one whose write would start something.
        """
        for address in tried:
            register = known.get(address)
            want = AxiResp.SLVERR if register is None else AxiResp.OKAY
            assert (await self.read(address))[1] == want, f"read of {address:#x} is not {want}"
            want = AxiResp.OKAY if register and register.write else AxiResp.SLVERR
            if register is None or register.name != starts:
                assert await self.write(address, 0) == want, f"write to {address:#x} is not {want}"

    async def enable(self, address: int, bits: int) -> None:
        """Write INTERRUPT_ENABLE and read it again."""
        self.interrupt.enables(bits)
        await self.put(address, bits)
        assert await self.get(address) == bits
        self.interrupt.enabled(bits)

    async def clear(self, address: int, bits: int) -> None:
        """Clear bits of INTERRUPT."""
        self.interrupt.clears(bits)
        await self.put(address, bits)
        self.interrupt.cleared(bits)

    async def interrupted(self) -> None:
        """Wait for ``irq``."""
        for _ in range(self.limit):
            if int(self.dut.irq.value):
                return
            await RisingEdge(self.dut.aclk)
        raise AssertionError(f"no interrupt in {self.limit} cycles")

    async def _soon(self, access: Any) -> Any:
        return await with_timeout(cocotb.start_soon(access), self.limit * PERIOD_NS, "ns")


def channels(model: Any) -> Iterator[Any]:
    """Every channel of an AXI model that can pause."""
    for half in (model.write_if, model.read_if):
        for name in ("aw_channel", "w_channel", "b_channel", "ar_channel", "r_channel"):
            if hasattr(half, name):
                yield getattr(half, name)
