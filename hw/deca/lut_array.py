"""LUT array: L big lookup tables of four sub-tables each."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import LUT_ENTRIES, SUB_LUTS, DecaParams
from tilewright.hw.sram import Sram

__all__ = ["LutArray"]

ENTRY_BITS = 16
SUB_ENTRIES = LUT_ENTRIES // SUB_LUTS


class LutArray(wiring.Component):
    """Looks up to Lq codes up in one cycle, Lq by the width of a code.

    Every big table holds the same 256 bf16 patterns, 64 in each of four sub-tables with a read
    port of its own. A code of 8 bits needs a whole big table, one of 7 bits half of it, one of 6
    or fewer a sub-table; so that any of them finds its value, narrow tables are stored repeated.

    Timing: ``values`` belong to the codes of ``latency`` cycles before: one, and with ``pipelined``
    three, of which one is to the tables and one from them. Writes take one cycle, or two.
    """

    def __init__(self, params: DecaParams):
        self.params = params
        self.latency = params.table_cycles
        lookups = params.lookups(6)
        super().__init__(
            {
                "enable": In(1),
                "eight": In(1),  # codes have 8 bits
                "seven": In(1),  # 7 bits, unless ``eight``; otherwise fewer
                "codes": In(data.ArrayLayout(8, lookups)),
                "values": Out(data.ArrayLayout(ENTRY_BITS, params.lanes)),
                "write": In(1),
                "write_address": In(range(LUT_ENTRIES)),
                "write_value": In(ENTRY_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        codes = list(self.codes)
        eight, seven = self.eight, self.seven
        self.enabled, self.writes = self.enable, self.write
        self.written_address, self.written_value = self.write_address, self.write_value
        if p.pipelined:
            codes, eight, seven = self._from_afar(m)
        was_eight, was_seven = (Signal(name=n, reset_less=True) for n in ("was_eight", "was_seven"))
        with m.If(self.enabled):
            m.d.sync += [was_eight.eq(eight), was_seven.eq(seven)]

        if p.pipelined:
            self.known = Signal()  # what the tables show was asked for in the cycle before
            m.d.sync += self.known.eq(self.enabled)
            out_eight, out_seven = (
                self._held(m, f"out_{n}", bit)
                for n, bit in (("eight", was_eight), ("seven", was_seven))
            )
        else:
            out_eight, out_seven = was_eight, was_seven
        whole, halves, quarters = [], [], []  # results by code number, for 8, 7 and fewer bits
        for k in range(p.luts):
            tables = [self._table(m, k, s) for s in range(SUB_LUTS)]
            for s, table in enumerate(tables):
                by_width = [
                    (eight, k),
                    (seven, 2 * k + s // 2),
                    (None, 4 * k + s),
                ]
                m.d.comb += table.read_address.eq(_select_code(codes, by_width)[:6])
            high = Signal(
                2, name=f"high{k}", reset_less=True
            )  # which sub-table an 8-bit code means
            half = [Signal(name=f"half{k}_{h}", reset_less=True) for h in range(2)]
            with m.If(self.enabled):
                m.d.sync += high.eq(codes[k][6:8])
                for h in range(2):
                    if 2 * k + h < len(codes):
                        m.d.sync += half[h].eq(codes[2 * k + h][6])
            out = [table.read_data for table in tables]
            if p.pipelined:
                out = [self._held(m, f"out{k}_{s}", word) for s, word in enumerate(out)]
                high = self._held(m, f"out_high{k}", high)
                half = [self._held(m, f"out_half{k}_{h}", bit) for h, bit in enumerate(half)]
            pair = [
                Mux(Mux(out_eight, high[0], half[h]), out[2 * h + 1], out[2 * h]) for h in range(2)
            ]
            whole.append(Mux(high[1], pair[1], pair[0]))
            halves.extend(pair)
            quarters.extend(out)

        for lane, value in enumerate(self.values):
            m.d.comb += value.eq(
                Mux(
                    out_eight,
                    whole[lane % p.lookups(8)],
                    Mux(out_seven, halves[lane % p.lookups(7)], quarters[lane % p.lookups(6)]),
                )
            )
        return m

    def _from_afar(self, m: Module) -> tuple[list[Signal], Signal, Signal]:
        """Everything that comes in, in registers: codes and their two flags are returned."""
        self.enabled, self.writes = Signal(name="enabled"), Signal(name="writes")
        m.d.sync += [self.enabled.eq(self.enable), self.writes.eq(self.write)]
        codes = [Signal(8, name=f"code{k}", reset_less=True) for k in range(len(self.codes))]
        eight, seven = (Signal(name=n, reset_less=True) for n in ("for_eight", "for_seven"))
        with m.If(self.enable):
            m.d.sync += [eight.eq(self.eight), seven.eq(self.seven)]
            m.d.sync += [held.eq(code) for held, code in zip(codes, self.codes, strict=True)]
        self.written_address = Signal(range(LUT_ENTRIES), name="written_address", reset_less=True)
        self.written_value = Signal(ENTRY_BITS, name="written_value", reset_less=True)
        with m.If(self.write):
            m.d.sync += [
                self.written_address.eq(self.write_address),
                self.written_value.eq(self.write_value),
            ]
        return codes, eight, seven

    def _held(self, m: Module, name: str, value: Value) -> Signal:
        """What a table shows, in a register beside it."""
        held = Signal(value.shape(), name=name, reset_less=True)
        with m.If(self.known):
            m.d.sync += held.eq(value)
        return held

    def _table(self, m: Module, big: int, sub: int) -> Sram:
        m.submodules[f"lut{big}_{sub}"] = table = Sram(SUB_ENTRIES, ENTRY_BITS)
        mine = self.written_address[6:8] == sub
        m.d.comb += [
            table.read_enable.eq(self.enabled),
            table.write_enable.eq(self.writes & mine),
            table.write_address.eq(self.written_address[:6]),
            table.write_data.eq(self.written_value),
        ]
        return table


def _select_code(codes: list, by_width: list) -> Cat:
    """The code a sub-table serves; a number beyond the codes cannot occur and gives any."""
    *conditional, (_, number) = by_width
    chosen = codes[min(number, len(codes) - 1)]
    for condition, number in reversed(conditional):
        chosen = Mux(condition, codes[min(number, len(codes) - 1)], chosen)
    return chosen
