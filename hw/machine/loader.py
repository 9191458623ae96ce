"""Load unit: lines of external memory to rows of the buffers."""

from collections.abc import Callable

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD, MachineMemory, MachineParams
from tilewright.hw.machine.channel import ReadChannel
from tilewright.hw.machine.move import lines_of, move_layout, under_way
from tilewright.hw.unit import payload_layout


class Loader(wiring.Component):
    """One load at a time, or several of which one writes rows (``MachineParams.loads``).

    It asks every channel for its lines, which may arrive in any order. Where line and row begin a
    beat and the memory takes beats (``MachineParams.beat_rows``), a line of every channel is taken
    and their rows are written, all in one cycle. Elsewhere lines are taken one by one: where
    several rows share a line, one is written a cycle; where a row takes several lines, one line is
    taken a cycle.

    ``start`` takes the ``command`` when the unit is not ``busy``. ``failed``: a line of the last
    command was answered with an error; the next command, or ``forgive``, ends it.

    Of several loads, ``start`` takes one when the unit is not ``full``: one is there already that
    has lines to ask for, or as many as can be. Only ``forgive`` ends ``failed``.

    Members
    -------
    count, ends, asking : Out
        Of several loads: those under way, the end of the oldest one in this cycle, and the memory
        of the newest.
    written : Out
        Rows of ``memory`` to write: the one at ``row``, in the lowest bits of ``data``; or, of a
        ``beat``, those in its first ``ways`` bits that are set.
    """

    def __init__(self, params: MachineParams, memories: type[MachineMemory]):
        self.params, self.memories = params, memories
        self.widest = max(params.row_bits(memory) for memory in memories)
        several = {
            "full": Out(1),
            "count": Out(range(params.loads + 1)),
            "ends": Out(1),
            "asking": Out(memories),
        }
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}

        def port(name: str) -> stream.Signature:
            return stream.Signature(ports[params.memory_port(name, 0)])

        super().__init__(
            {
                "start": In(1),
                "command": In(move_layout(memories)),
                "busy": Out(1),
                "failed": Out(1),
                "forgive": In(1),
                "written": Out(written_layout(params, memories)),
                **(several if params.loads > 1 else {}),
                "mem_request": Out(port("request")).array(params.memory_channels),
                "mem_response": In(port("response")).array(params.memory_channels),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        move = Signal(move_layout(self.memories))
        rows_left = Signal(SIZE_FIELD)
        row = Signal(ROW_FIELD)
        # The load that writes rows, which is the one that asks for lines where there is only one.
        self.lines = Signal(SIZE_FIELD + (self.widest // self.params.line_bits).bit_length())
        self.begin, self.next, self.next_lines = self.start, self.command, self.lines
        self.writes = self.busy
        several = self.params.loads > 1
        if several:
            self._follow(m)

        def first() -> list:
            return [move.eq(self.next), rows_left.eq(self.next.rows), row.eq(self.next.row)]

        if not several:
            with m.If(self.begin):
                m.d.sync += first()
        with m.If(self.forgive if several else self.start | self.forgive):
            m.d.sync += self.failed.eq(0)
        own = self._load(m, move, rows_left, row)
        if several:  # may be the cycle in which the one before ends
            with m.If(self.begin):
                m.d.sync += [*first(), *own()]
        return m

    def _follow(self, m: Module) -> None:
        """Loads under way: which begins to write rows, and when."""
        layout = {"move": move_layout(self.memories), "lines": len(self.lines)}
        given = Signal(data.StructLayout(layout))
        oldest, second, *_ = under_way(
            m, "load", self.params.loads, given, self.start, self.ends, self.count
        )
        following = Signal.like(given, name="following")
        self.begin, self.writes = Signal(name="begin"), Signal(name="writes")
        self.next, self.next_lines = following.move, following.lines
        m.d.sync += self.count.eq(self.count + self.start - self.ends)
        with m.If(self.start):
            m.d.sync += self.asking.eq(self.command.memory)
        m.d.comb += [
            given.move.eq(self.command),
            given.lines.eq(self.lines),
            following.eq(Mux(self.writes, second, oldest)),
            self.begin.eq(Mux(self.writes, self.ends & (self.count > 1), self.count.any())),
            self.busy.eq(self.count.any()),
        ]

    def _load(self, m: Module, move: data.View, rows_left: Value, row: Value) -> Callable[[], list]:
        """The datapath, and what is set when a load begins."""
        p = self.params
        loading, lines = self.writes, self.lines
        beats = Signal()
        lines_left = Signal.like(lines)  # to be taken
        beat_rows = Signal(range(p.beat_bits // 8 + 1))  # of the memory
        with m.Switch(self.command.memory):
            for memory in self.memories:
                with m.Case(memory):
                    m.d.comb += lines.eq(lines_of(p, memory, self.command.rows))
        with m.Switch(move.memory):
            for memory in self.memories:
                with m.Case(memory):
                    m.d.comb += beat_rows.eq(p.beat_rows(memory))

        def first() -> list:
            begins = self._begins_a_beat(m)
            return [loading.eq(1), lines_left.eq(self.next_lines), beats.eq(begins)]

        if p.loads == 1:
            with m.If(self.begin):
                m.d.sync += first()
        channels = self._ask(m, self.start, lines)
        row_taken = self._take_lines(m, channels, loading & ~beats, lines_left, move)

        # A beat: a line of every channel that has one.
        beat = Signal()
        needed = [lines_left > c for c in range(p.memory_channels)]
        here = [channel.o.valid | ~need for channel, need in zip(channels, needed, strict=True)]
        m.d.comb += beat.eq(loading & beats & Cat(here).all())
        with m.If(beats):
            m.d.comb += [
                self.written.valid.eq(beat),
                self.written.beat.eq(1),
                self.written.data.eq(Cat(channel.o.p.data for channel in channels)),
                *(
                    channel.o.ready.eq(beat & need)
                    for channel, need in zip(channels, needed, strict=True)
                ),
            ]
        m.d.comb += [
            self.written.memory.eq(move.memory),
            self.written.row.eq(row),
            *(way.eq(rows_left > k) for k, way in enumerate(self.written.ways)),
        ]
        last = rows_left <= Mux(beats, beat_rows, 1)
        with m.If(beat):
            m.d.sync += [
                lines_left.eq(lines_left - p.memory_channels),
                row.eq(row + beat_rows),
                rows_left.eq(rows_left - beat_rows),
            ]
        with m.If(row_taken):
            m.d.sync += [row.eq(row + move.stride), rows_left.eq(rows_left - 1)]
        ends = last & (beat | row_taken)
        with m.If(ends):
            m.d.sync += loading.eq(0)
        if p.loads > 1:
            asks = Cat(channel.asks for channel in channels).any()
            m.d.comb += [self.ends.eq(ends), self.full.eq(asks | (self.count == p.loads))]
        wrong = [channel.o.valid & channel.o.ready & channel.o.p.error for channel in channels]
        with m.If(Cat(wrong).any()):
            m.d.sync += self.failed.eq(1)
        return first

    def _begins_a_beat(self, m: Module) -> Value:
        """Whether the command's rows and lines begin at a beat, of a memory that takes beats."""
        p, x, begins = self.params, self.next, Signal()
        with m.Switch(x.memory):
            for memory in self.memories:
                count = p.beat_rows(memory)
                if count:
                    low = Cat(x.line[: p.channel_bits], x.row[: (count - 1).bit_length()])
                    with m.Case(memory):
                        m.d.comb += begins.eq(~low.any() & (x.stride == 1))
        return begins

    def _ask(self, m: Module, start: Value, lines: Value) -> list[ReadChannel]:
        """The channels, which ask for the lines of a load."""
        p = self.params
        first, line = self.command.line[: p.channel_bits], self.command.line >> p.channel_bits
        channels = []
        for c in range(p.memory_channels):
            m.submodules[f"channel{c}"] = channel = ReadChannel(p, c, len(lines))
            connect(m, channel.mem_request, flipped(self.mem_request[c]))
            connect(m, channel.mem_response, flipped(self.mem_response[c]))
            beyond = first > c if c < p.memory_channels - 1 else 0  # its first is a line further
            behind = (c - first)[: p.channel_bits]  # lines of the load before the channel's first
            m.d.comb += [
                channel.start.eq(start),
                channel.line.eq(line + beyond),
                channel.lines.eq((lines + (p.memory_channels - 1 - behind)) >> p.channel_bits),
            ]
            channels.append(channel)
        return channels

    def _take_lines(
        self,
        m: Module,
        channels: list[ReadChannel],
        active: Value,
        lines_left: Value,
        move: data.View,
    ) -> Value:
        """Lines to rows, one by one; whether a row is written."""
        p = self.params
        buffer = Signal(max(self.widest, p.line_bits))
        ready_rows = Signal(range(p.line_bits // 8 + 1))  # complete rows in the buffer
        part = Signal(range(max(2, self.widest // p.line_bits)))
        turn = Signal(range(max(2, p.memory_channels)))  # the channel whose line is next
        take, emit = Signal(), Signal()
        came = Signal(p.line_bits)
        takes = active
        if p.loads > 1:  # lines of the next load may be there
            takes = active & lines_left.any()
            with m.If(take):
                m.d.sync += lines_left.eq(lines_left - 1)
        for c, channel in enumerate(channels):
            with m.If(turn == c):
                m.d.comb += [
                    came.eq(channel.o.p.data),
                    channel.o.ready.eq(takes & (ready_rows <= 1)),
                    take.eq(channel.o.valid & channel.o.ready),
                ]
        m.d.comb += [
            emit.eq(active & ready_rows.any()),
            self.written.valid.eq(emit),
            self.written.data.eq(buffer),
        ]
        with m.If(emit):
            m.d.sync += ready_rows.eq(ready_rows - 1)
        with m.If(take):
            m.d.sync += turn.eq(0 if p.memory_channels == 1 else turn + 1)
        with m.Switch(move.memory):
            for memory in self.memories:
                bits = p.row_bits(memory)
                with m.Case(memory):
                    if bits <= p.line_bits:
                        with m.If(emit):
                            m.d.sync += buffer.eq(buffer >> bits)
                        with m.If(take):
                            m.d.sync += [buffer.eq(came), ready_rows.eq(p.line_bits // bits)]
                    else:
                        last = part == bits // p.line_bits - 1
                        with m.If(take):
                            m.d.sync += [
                                buffer.word_select(part, p.line_bits).eq(came),
                                part.eq(Mux(last, 0, part + 1)),
                                ready_rows.eq(last),
                            ]
        with m.If(self.begin):
            first = self.next.line[: p.channel_bits]
            m.d.sync += [ready_rows.eq(0), part.eq(0), turn.eq(first)]
        return emit


def written_layout(params: MachineParams, memories: type[MachineMemory]) -> data.StructLayout:
    """Rows that a load writes in a cycle."""
    widest = max(params.row_bits(memory) for memory in memories)
    ways = max(params.ways(memory) for memory in memories)
    return data.StructLayout(
        {
            "valid": 1,
            "memory": memories,
            "row": ROW_FIELD,
            "beat": 1,
            "ways": data.ArrayLayout(1, ways),
            "data": max(widest, params.beat_bits),
        }
    )
