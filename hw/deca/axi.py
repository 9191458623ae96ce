"""The processing element behind AXI: a read master to memory, a register slave to the core."""

from amaranth import Cat, Module, Mux, Signal

from tilewright.golden.params.deca import (
    AXI_ADDRESS_BITS,
    AXI_TOUT,
    LOADER_STRIDE,
    REGISTER_BITS,
    TILE_BYTES,
    TILE_ROWS,
    DecaAxiParams,
    LoaderRegister,
    Register,
    TileError,
)
from tilewright.hw.deca.pe import DecaPE
from tilewright.hw.soc.interrupt import Interrupt
from tilewright.hw.unit import Unit

OKAY, SLVERR = 0, 2
INCREMENTING = 1


class DecaAxi(Unit[DecaAxiParams]):
    """AXI4 read master (``m_axi_``, a line per beat) and AXI4-Lite slave (``s_axi_``, 64 bits).

    The slave's first 4 KiB are the registers of :class:`tilewright.golden.params.deca.Register`;
    the rows of both tile outputs follow at ``AXI_TOUT``, a word at a time. Reading the first word
    of a row takes the whole row out of TOut; its other words are read from a buffer, until
    another row is read, its loader is squashed or the result of its next tile is taken. A refused
    access, a row that is not full and a partial write answer SLVERR. ``irq`` is that of
    :class:`tilewright.hw.soc.interrupt.Interrupt`, whose registers are among the element's.

    A prefetch is a read whose answer is dropped; the top bit of its id says so.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pe = pe = DecaPE(self.params.pe)
        self._master(m, pe)
        self._slave(m, pe, self._interrupt(m, pe))
        return m

    def _interrupt(self, m: Module, pe: DecaPE) -> Interrupt:
        """Events: a result begins to wait, of either loader, and it is an error."""
        m.submodules.interrupt = interrupt = Interrupt(Register, AXI_ADDRESS_BITS)
        results = (pe.done0, pe.done1)
        waited = Signal(len(results))
        m.d.sync += waited.eq(Cat(done.valid for done in results))
        ends = [done.valid & ~waited[k] for k, done in enumerate(results)]
        wrong = [
            end & (done.p.error != TileError.OK) for end, done in zip(ends, results, strict=True)
        ]
        m.d.comb += [
            interrupt.events.eq(Cat(Cat(ends).any(), Cat(wrong).any())),
            self.irq.eq(interrupt.irq),
        ]
        return interrupt

    def _master(self, m: Module, pe: DecaPE) -> None:
        p = self.params
        request, response = pe.mem_request, pe.mem_response
        line_log2 = (p.line_bytes - 1).bit_length()
        prefetched = self.m_axi_rid[-1]
        m.d.comb += [
            self.m_axi_arid.eq(Cat(request.p.tag, request.p.prefetch)),
            self.m_axi_araddr.eq(request.p.line << line_log2),
            self.m_axi_arsize.eq(line_log2),
            self.m_axi_arburst.eq(INCREMENTING),
            self.m_axi_arcache.eq(0b1111),  # cacheable, allocate: weights are read again
            self.m_axi_arvalid.eq(request.valid),
            request.ready.eq(self.m_axi_arready),
            response.valid.eq(self.m_axi_rvalid & ~prefetched),
            response.p.tag.eq(self.m_axi_rid),
            response.p.data.eq(self.m_axi_rdata),
            response.p.error.eq(self.m_axi_rresp[1]),
            self.m_axi_rready.eq(response.ready | prefetched),
        ]

    def _slave(self, m: Module, pe: DecaPE, interrupt: Interrupt) -> None:
        """One access at a time; a write goes before a read."""
        p = self.params
        mmio, row_request, row = pe.mmio_request, pe.read_request, pe.read_response
        address, word = Signal(AXI_ADDRESS_BITS), Signal(REGISTER_BITS)
        buffer, buffered = Signal(p.line_bits), Signal(1 + (TILE_ROWS - 1).bit_length())
        buffer_valid = Signal()
        wanted = Cat(
            address[(TILE_ROWS * p.line_bytes - 1).bit_length()],
            address[(p.line_bytes - 1).bit_length() :][: (TILE_ROWS - 1).bit_length()],
        )
        wanted_tout, wanted_row = wanted[0], wanted[1:]
        in_tout = (address >= AXI_TOUT) & (address < AXI_TOUT + p.loaders * TILE_BYTES)
        m.d.comb += [
            mmio.p.address.eq(address),
            mmio.p.data.eq(word),
            row_request.p.tout.eq(wanted_tout),
            row_request.p.row.eq(wanted_row),
            interrupt.address.eq(address),
            interrupt.data.eq(word),
        ]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.s_axi_awvalid & self.s_axi_wvalid):
                    m.d.comb += [self.s_axi_awready.eq(1), self.s_axi_wready.eq(1)]
                    m.d.sync += [address.eq(self.s_axi_awaddr), word.eq(self.s_axi_wdata)]
                    m.next = "WRITE"
                    with m.If((self.s_axi_awaddr >= AXI_TOUT) | ~self.s_axi_wstrb.all()):
                        m.d.sync += self.s_axi_bresp.eq(SLVERR)
                        m.next = "WRITTEN"
                with m.Elif(self.s_axi_arvalid):
                    m.d.comb += self.s_axi_arready.eq(1)
                    m.d.sync += address.eq(self.s_axi_araddr)
                    m.next = "READ"
            with m.State("WRITE"):
                with m.If(interrupt.mine):
                    m.d.comb += interrupt.put.eq(1)
                    m.d.sync += self.s_axi_bresp.eq(OKAY)
                    m.next = "WRITTEN"
                with m.Else():
                    m.d.comb += [mmio.valid.eq(1), mmio.p.write.eq(1)]
                    with m.If(mmio.ready):
                        m.next = "WRITE_ANSWER"
                status = Register.LOADER + LoaderRegister.STATUS
                owner = Mux(buffered[0], status + LOADER_STRIDE, status)
                with m.If((address == owner) & word[:2].any()):
                    m.d.sync += buffer_valid.eq(0)
            with m.State("WRITE_ANSWER"):
                m.d.comb += pe.mmio_response.ready.eq(1)
                with m.If(pe.mmio_response.valid):
                    m.d.sync += self.s_axi_bresp.eq(Mux(pe.mmio_response.p.error, SLVERR, OKAY))
                    m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.d.comb += self.s_axi_bvalid.eq(1)
                with m.If(self.s_axi_bready):
                    m.next = "IDLE"
            with m.State("READ"):
                with m.If(in_tout):
                    with m.If(buffer_valid & (buffered == wanted)):
                        m.next = "ROW"
                    with m.Else():
                        m.d.comb += row_request.valid.eq(1)
                        with m.If(row_request.ready):
                            m.next = "ROW_ANSWER"
                with m.Elif(address >= AXI_TOUT):
                    m.d.sync += [self.s_axi_rdata.eq(0), self.s_axi_rresp.eq(SLVERR)]
                    m.next = "READ_DONE"
                with m.Elif(interrupt.mine):
                    m.d.sync += [self.s_axi_rdata.eq(interrupt.value), self.s_axi_rresp.eq(OKAY)]
                    m.next = "READ_DONE"
                with m.Else():
                    m.d.comb += mmio.valid.eq(1)
                    with m.If(mmio.ready):
                        m.next = "READ_ANSWER"
            with m.State("ROW_ANSWER"):
                m.d.comb += row.ready.eq(1)
                with m.If(row.valid):
                    m.d.sync += [buffer.eq(row.p.data), buffered.eq(wanted)]
                    m.d.sync += buffer_valid.eq(row.p.full)
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.sync += [
                    self.s_axi_rdata.eq(buffer.word_select(address[3:6], REGISTER_BITS)),
                    self.s_axi_rresp.eq(Mux(buffer_valid, OKAY, SLVERR)),
                ]
                m.next = "READ_DONE"
            with m.State("READ_ANSWER"):
                m.d.comb += pe.mmio_response.ready.eq(1)
                with m.If(pe.mmio_response.valid):
                    m.d.sync += [
                        self.s_axi_rdata.eq(pe.mmio_response.p.data),
                        self.s_axi_rresp.eq(Mux(pe.mmio_response.p.error, SLVERR, OKAY)),
                    ]
                    m.next = "READ_DONE"
            with m.State("READ_DONE"):
                m.d.comb += self.s_axi_rvalid.eq(1)
                with m.If(self.s_axi_rready):
                    m.next = "IDLE"
