"""Values that ``irq`` of a block with AXI may have, as far as its host knows."""

from tilewright.golden.params.block import INTERRUPT_FIELDS

DONE, ERROR = (1 << k for k in range(len(INTERRUPT_FIELDS)))
_EVENTS = (DONE, DONE | ERROR)  # without an error, and with one


class InterruptModel:
    """Bits of INTERRUPT and INTERRUPT_ENABLE that are surely set, and those that may be.

    The host reports when it writes and is answered, and when work begins and is seen to end: in
    between, the bits may have either value. :meth:`check` is called in every cycle.
    """

    def __init__(self) -> None:
        self.sure = self.possible = 0  # of INTERRUPT
        self.sure_enable = self.possible_enable = 0
        self.work: list[tuple[int, list[int]]] = []  # events, and bits cleared since it began

    def check(self, irq: int) -> None:
        """Compare ``irq`` of a cycle."""
        if irq:
            assert self.possible & self.possible_enable, "irq is high without a reason"
        else:
            assert not self.sure & self.sure_enable, "irq is low although a bit is set and enabled"

    def check_read(self, value: int) -> None:
        """Compare what INTERRUPT was read as."""
        assert not value & ~self.possible, f"INTERRUPT is {value:#b}, at most {self.possible:#b}"
        assert not self.sure & ~value, f"INTERRUPT is {value:#b}, at least {self.sure:#b}"
        self.sure |= value
        if not self.work:  # nothing can be added to it
            self.possible = value

    def begins(self, error: bool) -> None:
        """Work begins that will end, with an error or not."""
        self.work.append((_EVENTS[error], [0]))
        self.possible |= _EVENTS[error]

    def ended(self, error: bool) -> None:
        """The oldest work with this end is over."""
        entry = next(entry for entry in self.work if entry[0] == _EVENTS[error])
        self.work.remove(entry)
        self.sure |= _EVENTS[error] & ~entry[1][0]

    def clears(self, bits: int) -> None:
        """A write to INTERRUPT begins."""
        self.sure &= ~bits
        for _, cleared in self.work:
            cleared[0] |= bits

    def cleared(self, bits: int) -> None:
        self.possible &= ~bits
        for events, _ in self.work:
            self.possible |= events

    def enables(self, bits: int) -> None:
        """A write to INTERRUPT_ENABLE begins."""
        self.sure_enable &= bits
        self.possible_enable |= bits

    def enabled(self, bits: int) -> None:
        self.sure_enable = self.possible_enable = bits
