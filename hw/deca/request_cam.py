"""The load unit's memory of what it asked for: an associative table of outstanding requests."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import STRUCTURES, DecaParams
from tilewright.hw.arith.lowest_set import lowest_set


def queue_lines(params: DecaParams) -> dict[str, int]:
    """Lines of the queue of each structure."""
    return {
        "mask": params.mask_queue_lines,
        "scale": params.scale_queue_lines,
        "data": params.sqq_lines,
    }


def place_layout(params: DecaParams) -> data.StructLayout:
    """Where a line goes: a queue (its number in ``STRUCTURES``) and a slot of it."""
    slots = max(queue_lines(params).values())
    return data.StructLayout({"structure": range(len(STRUCTURES)), "slot": range(slots)})


class RequestCam(wiring.Component):
    """``params.cam_entries`` requests, each known by its tag.

    A tag is the entry's number, above it the entry's generation and the loader's number. The
    generation changes with every answer, so a second answer to the same request finds nothing,
    also when the entry has been taken again.

    ``squash`` marks every entry dead: it stays taken until its answer arrives, since the memory
    cannot be told to forget a request, but that answer is no longer ``live``.

    Timing: ``tag`` and ``available`` come from registers (an entry freed in one cycle can be
    offered two cycles later); ``hit``, ``live`` and ``place_found`` follow ``key`` within the
    cycle. ``place`` is written the cycle after ``allocate``: no answer arrives that soon.

    Members
    -------
    allocate : takes the entry of ``tag`` for a line that goes to ``place``; only while
        ``available``
    search : an answer with tag ``key`` is here; the entry it hits is free again
    hit : the answer belongs to an entry
    live : and its line is still wanted, at ``place_found``
    outstanding : entries taken, dead ones too
    """

    def __init__(self, params: DecaParams, loader: int):
        self.params, self.loader = params, loader
        place = place_layout(params)
        super().__init__(
            {
                "available": Out(1, init=1),
                "allocate": In(1),
                "tag": Out(params.tag_bits),
                "place": In(place),
                "search": In(1),
                "key": In(params.tag_bits),
                "hit": Out(1),
                "live": Out(1),
                "place_found": Out(place),
                "squash": In(1),
                "outstanding": Out(range(params.cam_entries + 1)),
            }
        )
        self.taken = Signal(params.cam_entries)
        self.dead = Signal(params.cam_entries)
        self.generation = Signal(params.cam_entries)
        # The entry to take next is chosen a cycle ahead, one bit per entry.
        self.spare = Signal(params.cam_entries, init=1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entries = self.params.cam_entries
        number_bits = (entries - 1).bit_length()
        taken, dead, generation, spare = self.taken, self.dead, self.generation, self.spare
        places = [
            Signal(place_layout(self.params), name=f"place{k}", reset_less=True)
            for k in range(entries)
        ]

        others = Signal(entries)
        m.d.comb += others.eq(~(taken | spare))
        with m.If(self.allocate | ~self.available):
            m.d.sync += [spare.eq(lowest_set(others)), self.available.eq(others.any())]
        number = Cat(
            Cat(spare[k] for k in range(entries) if k >> bit & 1).any()
            for bit in range(number_bits)
        )
        m.d.comb += self.tag.eq(Cat(number, (spare & generation).any(), Const(self.loader, 1)))

        matches = Signal(entries)
        for k in range(entries):
            own = Cat(Const(k, number_bits), generation[k], Const(self.loader, 1))
            m.d.comb += matches[k].eq(taken[k] & (self.key == own))
        freed = matches & self.search.replicate(entries)
        m.d.comb += [self.hit.eq(freed.any()), self.live.eq((freed & ~dead).any() & ~self.squash)]
        # The place of a line is known late and goes to every entry, so it has a cycle for that.
        placing, newest = Signal(), Signal(entries, reset_less=True)
        new_place = Signal(place_layout(self.params), reset_less=True)
        m.d.sync += placing.eq(self.allocate)
        with m.If(self.allocate):
            m.d.sync += [newest.eq(spare), new_place.eq(self.place)]
        found = 0
        for k, place in enumerate(places):
            found |= place.as_value() & matches[k].replicate(place.shape().size)
            with m.If(placing & newest[k]):
                m.d.sync += place.eq(new_place)
        m.d.comb += self.place_found.eq(found)

        allocated = spare & self.allocate.replicate(entries)
        with m.If(self.allocate | self.search):
            m.d.sync += [
                taken.eq((taken | allocated) & ~freed),
                generation.eq(generation ^ freed),
                self.outstanding.eq(self.outstanding + self.allocate - self.hit),
            ]
        with m.If(self.allocate | self.squash):
            m.d.sync += dead.eq((dead & ~allocated) | self.squash.replicate(entries))
        return m
