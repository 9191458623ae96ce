"""A compiled step as text and as a drawing: operations, instructions on the clock, memories."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from tilewright.compiler.count import timeline
from tilewright.compiler.image import Lines
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import Program, step_program
from tilewright.compiler.sizes import Step
from tilewright.compiler.timing import work_by_layer
from tilewright.golden.machine.clock import Work
from tilewright.golden.machine.moves import LATENCY


@dataclass(frozen=True)
class Buffer:
    """Rows of a memory from the instruction that writes them to the last that reads them."""

    memory: str
    first: int
    end: int
    operation: str  # that wrote them first
    begin: int  # cycles of the layer
    until: int


class Shown:
    """A layer of the decode step of a context's last token, in which units overlap as always."""

    def __init__(self, plan: Plan, latency: int = LATENCY):
        self.plan, self.machine, self.latency = plan, plan.machine, latency
        lines, last = Lines(plan), plan.context - 1
        self.step = Step.batch(dict.fromkeys(range(plan.sequences), last))
        layers = min(2, plan.shape.num_hidden_layers)
        self.program: Program = step_program(lines, self.step, latency=latency, layers=layers)
        self.layer = work_by_layer(self.program, timeline(self.machine, self.program, latency))[-1]
        self.start = min(w.begin for w in self.layer)

    def operation(self, w: Work) -> str:
        return self.program.operations[w.number]

    @property
    def cycles(self) -> int:
        return max(w.end for w in self.layer) - self.start

    def buffers(self) -> list[Buffer]:
        """Rows of all memories that the layer writes or reads."""
        live: dict[str, list[list]] = {}  # first, end, operation, begin, until
        found: list[Buffer] = []
        names = {m: m.name.lower() for m in self.machine.memory}
        items = list(self.program.with_settings(self.machine))
        for w in self.layer:
            begin, end = w.begin - self.start, w.end - self.start
            reads, writes = self.machine.accesses(items[w.number])
            for space, first, stop in reads:
                if space in names:
                    own = live.setdefault(names[space], [])
                    touched = [b for b in own if b[0] < stop and first < b[1]]
                    for b in touched:
                        b[4] = max(b[4], end)
                    if not touched:  # written before this layer
                        own.append([first, stop, "before", 0, end])
            for space, first, stop in writes:
                if space not in names:
                    continue
                own = live.setdefault(names[space], [])
                same = [b for b in own if b[0] <= first and stop <= b[1] and begin < b[4]]
                if same:  # in place
                    same[-1][4] = max(same[-1][4], end)
                    continue
                over = [b for b in own if b[0] < stop and first < b[1]]
                found += [Buffer(names[space], *b) for b in over]
                live[names[space]] = [b for b in own if b not in over]
                live[names[space]].append([first, stop, self.operation(w), begin, end])
        found += [Buffer(name, *b) for name, own in live.items() for b in own]
        return sorted(found, key=lambda b: (b.memory, b.begin, b.first))


def _table(header: tuple[str, ...], rows: list[tuple]) -> str:
    cells = [header, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    lines = ("  ".join(c.ljust(n) for c, n in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def show_graph(shown: Shown) -> str:
    """Operations of a layer, in the order of the data."""
    matrices = shown.plan.matrices
    rows = []
    for op in shown.plan.graph:
        names = getattr(op, "weights", ())
        sizes = [f"{matrices[n].outputs} x {matrices[n].inputs}" for n in names]
        parts = len(matrices[names[0]].parts) if names else ""
        rows.append((op.name, op, ", ".join(sizes), parts))
    return _table(("OPERATION", "RESULT", "OUTPUTS x INPUTS", "PARTS"), rows)


def show_schedule(shown: Shown) -> str:
    """Instructions of a layer with their units and cycles, from the layer's first on."""
    rows = [
        (
            w.number,
            shown.machine.disassemble([shown.program.instructions[w.number]]).strip(),
            shown.operation(w),
            w.unit.name.lower(),
            w.begin - shown.start,
            w.end - shown.start,
        )
        for w in shown.layer
    ]
    return _table(("NUMBER", "INSTRUCTION", "OPERATION", "UNIT", "BEGIN", "END"), rows)


def show_program(shown: Shown) -> str:
    """The whole step as assembly text."""
    return shown.machine.disassemble(shown.program.instructions).rstrip()


def show_memory(shown: Shown) -> str:
    """Rows of each memory over a layer, by the operation that writes them."""
    pieces, buffers = [], shown.buffers()
    for name, rows in shown.program.memories.items():
        held = most = 0
        for _, place, taken in rows.peak:
            held += place.rows if taken else -place.rows
            most = max(most, held)
        pieces.append(
            f"{name}: {rows.depth} rows in {-(-rows.depth // rows.region)} regions, at"
            f" most {most} taken"
        )
        table = [
            (b.begin, b.until, f"{b.first}..{b.end - 1}", b.operation)
            for b in buffers
            if b.memory == name
        ]
        pieces.append(_table(("BEGIN", "END", "ROWS", "WRITTEN BY"), table) + "\n")
    return "\n".join(pieces).rstrip()


SHOWN: dict[str, Callable[[Shown], str]] = {
    "graph": show_graph,
    "schedule": show_schedule,
    "program": show_program,
    "memory": show_memory,
}


def show(plan: Plan, what: str, latency: int = LATENCY) -> str:
    """One view of a decode step's layer, as text."""
    return SHOWN[what](Shown(plan, latency))


_WIDTH, _LEFT, _BAR, _MAP = 1200, 110, 22, 150  # pixels
_HUES = 360


def draw(plan: Plan, latency: int = LATENCY) -> str:
    """SVG: a layer's units over time, coloured by operation, and its memories' rows below."""
    shown = Shown(plan, latency)
    names = list(dict.fromkeys(shown.operation(w) for w in shown.layer))
    colours = {
        name: f"hsl({k * _HUES // len(names)} 65% {45 + 15 * (k % 2)}%)"
        for k, name in enumerate(names)
    } | {"before": "#ccc"}
    scale = (_WIDTH - _LEFT) / shown.cycles
    body, y = [], 20

    def box(begin: int, end: int, top: float, height: float, name: str, title: str) -> None:
        x, width = _LEFT + begin * scale, max(0.5, (end - begin) * scale)
        body.append(
            f'<rect x="{x:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}"'
            f' fill="{colours[name]}"><title>{escape(title)}</title></rect>'
        )

    def label(x: float, top: float, text: str) -> None:
        body.append(f'<text x="{x:.0f}" y="{top:.0f}">{escape(text)}</text>')

    label(
        _LEFT,
        y - 6,
        f"{plan.shape.name} on {shown.machine.params.slug}: a layer of token"
        f" {shown.step.tokens[0].position}, {shown.cycles:,} cycles",
    )
    units = sorted({w.unit for w in shown.layer})
    for unit in units:
        label(4, y + _BAR - 7, unit.name.lower())
        for w in shown.layer:
            if w.unit == unit:
                name = shown.operation(w)
                title = f"{name}: {w.instruction.opcode.name.lower()}, {w.end - w.begin} cycles"
                box(w.begin - shown.start, w.end - shown.start, y, _BAR - 4, name, title)
        y += _BAR
    buffers = shown.buffers()
    for memory, rows in shown.program.memories.items():
        y += 12
        label(4, y + 12, memory)
        label(4, y + 26, f"{rows.depth} rows")
        body.append(
            f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH - _LEFT}" height="{_MAP}" fill="none"'
            ' stroke="#999"/>'
        )
        for b in buffers:
            if b.memory == memory:
                top, height = y + b.first * _MAP / rows.depth, (b.end - b.first) * _MAP / rows.depth
                title = f"{b.operation}: rows {b.first}..{b.end - 1}, cycles {b.begin}..{b.until}"
                box(b.begin, b.until, top, height, b.operation, title)
        y += _MAP
    y += 24
    each = (_WIDTH - _LEFT) // len(names)
    for k, name in enumerate(names):
        x = _LEFT + k * each
        body.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colours[name]}"/>')
        label(x + 16, y, name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 12}"'
        ' font-family="sans-serif" font-size="12">\n' + "\n".join(body) + "\n</svg>\n"
    )
