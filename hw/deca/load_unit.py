"""Load unit: asks the memory for the lines of a tile and sorts the answers into the queues."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import LENGTH_BITS, STRUCTURES, TILE_BYTES, DecaParams
from tilewright.hw.arith.lowest_set import lowest_set
from tilewright.hw.deca.request_cam import RequestCam, queue_lines
from tilewright.hw.stream.line_queue import LineQueuePort, line_layout
from tilewright.hw.stream.register_slice import RegisterSlice
from tilewright.hw.unit import payload_layout, word_layout


def locations_layout(params: DecaParams) -> data.StructLayout:
    """Base address and length in bytes of each structure of a tile; length 0: absent."""
    location = data.StructLayout({"base": params.address_bits, "length": LENGTH_BITS})
    return data.StructLayout({name: location for name in STRUCTURES})


def request_layout(params: DecaParams) -> data.StructLayout:
    """A request for one line, as it leaves the processing element."""
    return payload_layout(next(p for p in params.outputs if p.name == "mem_request"))


class LoadUnit(wiring.Component):
    """The LDU of loader number ``loader``.

    Every line that a structure touches is requested once: those of the bitmask first, then
    scales, then data, each as soon as its queue has a free slot. A structure whose queue is full
    lets the later ones pass. An answer is written to its slot, with its ``error`` flag, the
    cycle after it arrived; it is never stalled. An answer to no request is dropped and ``spurious``
    is set in the next cycle.

    ``command`` is taken when every line of the one before has been requested, which is also when
    the unit is ``idle``.

    ``squash`` makes it idle in one cycle: the command, also one taken in that cycle, and its lines
    not yet requested are forgotten; what is outstanding is dropped when it arrives. Requests that
    wait to be taken by the memory keep waiting (an offer is never withdrawn) and count as
    outstanding. The queues must be flushed in the same cycle. A new command may follow in the
    next.

    Timing: one request a cycle; the first one is offered two cycles after its command is taken.
    """

    def __init__(self, params: DecaParams, loader: int):
        self.params, self.loader = params, loader
        response = wiring.Signature(
            {
                "valid": Out(1),
                "tag": Out(params.tag_bits),
                "error": Out(1),
                "data": Out(params.line_bits),
            }
        )
        super().__init__(
            {
                "command": In(stream.Signature(locations_layout(params))),
                "request": Out(stream.Signature(request_layout(params))),
                "response": In(response),
                "squash": In(1),
                "idle": Out(1),
                "spurious": Out(1),
                "outstanding": Out(range(params.cam_entries + 1)),
            }
            | {
                f"{name}_queue": Out(LineQueuePort(lines, params.line_bits))
                for name, lines in queue_lines(params).items()
            }
        )
        self.cam = RequestCam(params, loader)
        self.offer = RegisterSlice(word_layout(request_layout(params).size))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        queues = [getattr(self, f"{name}_queue") for name in STRUCTURES]
        m.submodules.cam = cam = self.cam
        m.submodules.offer = offer = self.offer
        self._ask(m, queues, cam, offer)
        self._sort(m, queues, cam)
        m.d.comb += [
            cam.squash.eq(self.squash),
            self.outstanding.eq(cam.outstanding),
            self.request.valid.eq(offer.o.valid),
            self.request.payload.eq(offer.o.p.data),
            offer.o.ready.eq(self.request.ready),
        ]
        return m

    def _ask(
        self, m: Module, queues: list[wiring.PureInterface], cam: RequestCam, offer: RegisterSlice
    ) -> None:
        """Take commands and offer requests."""
        p = self.params
        byte_bits = (p.line_bytes - 1).bit_length()
        most = -(-(p.line_bytes - 1 + TILE_BYTES) // p.line_bytes)  # lines of an unaligned tile
        lines = [
            Signal(p.line_address_bits, name=f"{name}_line", reset_less=True) for name in STRUCTURES
        ]
        mores = Signal(len(STRUCTURES))  # whose next line is still to be requested
        lefts = [Signal(range(most), name=f"{name}_left") for name in STRUCTURES]  # lines after it

        wants, chosen, grant = (Signal.like(mores, name=n) for n in ("wants", "chosen", "grant"))
        going = Signal()
        request = Signal(request_layout(p))
        m.d.comb += [
            chosen.eq(lowest_set(wants)),
            going.eq(wants.any() & cam.available & offer.i.ready),
            grant.eq(chosen & going.replicate(len(STRUCTURES))),
            cam.allocate.eq(going),
            request.tag.eq(cam.tag),
            offer.i.valid.eq(going),
            offer.i.p.data.eq(request),
        ]
        # Where only the last queue has more than one slot, the slots of the others are not used,
        # and a path to all entries of the CAM is shorter.
        m.d.comb += cam.place.slot.eq(queues[-1].slot)
        for k, (queue, line, left) in enumerate(zip(queues, lines, lefts, strict=True)):
            m.d.comb += [wants[k].eq(mores[k] & queue.free), queue.reserve.eq(grant[k])]
            with m.If(chosen[k]):
                m.d.comb += [request.line.eq(line), cam.place.structure.eq(k)]
                if p.mask_queue_lines > 1 or p.scale_queue_lines > 1:
                    m.d.comb += cam.place.slot.eq(queue.slot)
            with m.If(grant[k]):
                m.d.sync += [line.eq(line + 1), left.eq(left - 1), mores[k].eq(left.any())]

        m.d.comb += [self.idle.eq(~mores.any()), self.command.ready.eq(self.idle)]
        with m.If(self.command.valid & self.command.ready):
            for k, name in enumerate(STRUCTURES):
                base, length = self.command.p[name].base, self.command.p[name].length
                last_byte = base[:byte_bits] + length - 1  # counted from the first line's start
                m.d.sync += [
                    mores[k].eq(length.any()),
                    lines[k].eq(base[byte_bits:]),
                    lefts[k].eq(last_byte >> byte_bits),
                ]
        with m.If(self.squash):
            m.d.sync += mores.eq(0)

    def _sort(self, m: Module, queues: list[wiring.PureInterface], cam: RequestCam) -> None:
        """Write answers to their queues."""
        answer = self.response
        m.d.comb += [cam.search.eq(answer.valid), cam.key.eq(answer.tag)]
        m.d.sync += self.spurious.eq(answer.valid & ~cam.hit)
        line = Signal(line_layout(self.params.line_bits), reset_less=True)
        slot = Signal.like(cam.place_found.slot)
        with m.If(answer.valid):
            m.d.sync += [line.data.eq(answer.data), line.error.eq(answer.error)]
            m.d.sync += slot.eq(cam.place_found.slot)
        for k, queue in enumerate(queues):
            goes = Signal(name=f"to_{STRUCTURES[k]}")
            m.d.sync += goes.eq(cam.live & (cam.place_found.structure == k))
            m.d.comb += [
                queue.write.valid.eq(goes),
                queue.write.slot.eq(slot[: len(queue.write.slot)]),
                queue.write.data.eq(line.data),
                queue.write.error.eq(line.error),
            ]
