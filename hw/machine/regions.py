"""A memory in regions: requests of several users go to a region by the upper bits of their row.

An instruction holds the regions that it touches while it runs, so a region has one user at a time
and the requests of all are simply joined.
"""

from collections.abc import Sequence
from typing import Any

from amaranth import Module, Signal, Value


def connect_readers(
    m: Module, name: str, region_rows: int, regions: Sequence[Any], readers: Sequence[Any]
) -> None:
    """Ports with ``enable``, ``address`` and ``data``; a reader's data stay until its next read."""
    bits = (region_rows - 1).bit_length()
    for k, region in enumerate(regions):
        for reader in readers:
            with m.If(reader.enable & (reader.address[bits:] == k)):
                m.d.comb += [region.enable.eq(1), region.address.eq(reader.address[:bits])]
    for j, reader in enumerate(readers):
        last = Signal(range(max(2, len(regions))), name=f"{name}_region{j}")
        with m.If(reader.enable):
            m.d.sync += last.eq(reader.address[bits:])
        with m.Switch(last):
            for k, region in enumerate(regions):
                with m.Case(k):
                    m.d.comb += reader.data.eq(region.data)


def connect_writers(
    m: Module, region_rows: int, regions: Sequence[Any], writers: Sequence[Any]
) -> None:
    """Ports with ``enable``, of a bit or of several, ``address``, ``data`` and maybe ``lanes``."""
    bits = (region_rows - 1).bit_length()
    for k, region in enumerate(regions):
        for writer in writers:
            with m.If(Value.cast(writer.enable).any() & (writer.address[bits:] == k)):
                m.d.comb += [
                    region.enable.eq(writer.enable),
                    region.address.eq(writer.address[:bits]),
                    region.data.eq(writer.data),
                ]
                if hasattr(writer, "lanes"):
                    m.d.comb += region.lanes.eq(writer.lanes)
