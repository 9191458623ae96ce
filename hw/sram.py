"""Memories with one write port and one synchronous read port."""

from amaranth import ClockSignal, Instance, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class BlackBoxMemories:
    """Platform on which every ``Sram`` is an instance of an empty macro.

    Synthesis then leaves memories alone, and their area is modelled from bit cells.
    """


class Sram(wiring.Component):
    """``depth`` words of ``width`` bits.

    ``read_data`` is the word at ``read_address`` one cycle after ``read_enable``, and keeps it
    until the next enabled read. The ports are not transparent: a word that is read while it is
    written is the one before the write. ``write_enable`` has a bit for every ``granularity`` bits
    of the word (by default one for the whole word). Words start as 0.

    As a macro it is called ``sram_<depth>x<width>_1r1w``, with ``_g<granularity>`` appended when
    parts of a word can be written; its pins have the names of the members, and ``clk``.
    """

    def __init__(self, depth: int, width: int, granularity: int | None = None):
        if depth < 2:
            raise ValueError(f"depth must be at least 2, not {depth!r}")
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width!r}")
        if granularity is not None and (granularity < 1 or width % granularity):
            raise ValueError(f"granularity must divide the width {width}, not {granularity!r}")
        self.depth, self.width, self.granularity = depth, width, granularity
        super().__init__(
            {
                "write_enable": In(1 if granularity is None else width // granularity),
                "write_address": In(range(depth)),
                "write_data": In(width),
                "read_enable": In(1),
                "read_address": In(range(depth)),
                "read_data": Out(width),
            }
        )

    @property
    def macro(self) -> str:
        """Name of this memory's macro."""
        parts = "" if self.granularity is None else f"_g{self.granularity}"
        return f"sram_{self.depth}x{self.width}_1r1w{parts}"

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if isinstance(platform, BlackBoxMemories):
            m.submodules.macro = Instance(
                self.macro,
                i_clk=ClockSignal(),
                i_write_enable=self.write_enable,
                i_write_address=self.write_address,
                i_write_data=self.write_data,
                i_read_enable=self.read_enable,
                i_read_address=self.read_address,
                o_read_data=self.read_data,
            )
            return m
        m.submodules.words = words = memory.Memory(shape=self.width, depth=self.depth, init=[])
        write = words.write_port(granularity=self.granularity)
        read = words.read_port()
        m.d.comb += [
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_address),
            self.read_data.eq(read.data),
        ]
        return m
