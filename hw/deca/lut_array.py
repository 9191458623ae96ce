"""LUT array: L big lookup tables of four sub-tables each."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import LUT_ENTRIES, SUB_LUTS, DecaParams
from tilewright.hw.sram import Sram

ENTRY_BITS = 16
SUB_ENTRIES = LUT_ENTRIES // SUB_LUTS


class LutArray(wiring.Component):
    """Up to Lq lookups a cycle, where Lq depends on the code width.

    Every big table holds the same 256 bf16 patterns, 64 in each of four sub-tables with a read
    port of its own. A code of 8 bits needs a whole big table, one of 7 bits half of it, one of 6
    or fewer a sub-table; so that any of them finds its value, narrow tables are stored repeated.

    Timing: ``values`` belong to the codes of the cycle before. Writes take one cycle.
    """

    def __init__(self, params: DecaParams):
        self.params = params
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
        was_eight, was_seven = (Signal(name=n, reset_less=True) for n in ("was_eight", "was_seven"))
        with m.If(self.enable):
            m.d.sync += [was_eight.eq(eight), was_seven.eq(seven)]

        whole, halves, quarters = [], [], []  # results by code number, for 8, 7 and fewer bits
        for k in range(p.luts):
            tables = [self._table(m, k, s) for s in range(SUB_LUTS)]
            for s, table in enumerate(tables):
                by_width = [(eight, k), (seven, 2 * k + s // 2), (None, 4 * k + s)]
                m.d.comb += table.read_address.eq(_select_code(codes, by_width)[:6])
            # The sub-table of an 8-bit code.
            high = Signal(2, name=f"high{k}", reset_less=True)
            half = [Signal(name=f"half{k}_{h}", reset_less=True) for h in range(2)]
            with m.If(self.enable):
                m.d.sync += high.eq(codes[k][6:8])
                for h in range(2):
                    if 2 * k + h < len(codes):
                        m.d.sync += half[h].eq(codes[2 * k + h][6])
            out = [table.read_data for table in tables]
            pair = [
                Mux(Mux(was_eight, high[0], half[h]), out[2 * h + 1], out[2 * h]) for h in range(2)
            ]
            whole.append(Mux(high[1], pair[1], pair[0]))
            halves.extend(pair)
            quarters.extend(out)

        for lane, value in enumerate(self.values):
            m.d.comb += value.eq(
                Mux(
                    was_eight,
                    whole[lane % p.lookups(8)],
                    Mux(was_seven, halves[lane % p.lookups(7)], quarters[lane % p.lookups(6)]),
                )
            )
        return m

    def _table(self, m: Module, big: int, sub: int) -> Sram:
        m.submodules[f"lut{big}_{sub}"] = table = Sram(SUB_ENTRIES, ENTRY_BITS)
        mine = self.write_address[6:8] == sub
        m.d.comb += [
            table.read_enable.eq(self.enable),
            table.write_enable.eq(self.write & mine),
            table.write_address.eq(self.write_address[:6]),
            table.write_data.eq(self.write_value),
        ]
        return table


def _select_code(codes: list, by_width: list) -> Cat:
    """The code a sub-table serves; a number beyond the codes cannot occur and gives any."""
    *conditional, (_, number) = by_width
    chosen = codes[min(number, len(codes) - 1)]
    for condition, number in reversed(conditional):
        chosen = Mux(condition, codes[min(number, len(codes) - 1)], chosen)
    return chosen
