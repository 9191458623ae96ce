"""A layer of a compiled decode step as text: its operations, or its instructions on the clock."""

from tilewright.compiler.count import timeline
from tilewright.compiler.image import Lines
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import step_program
from tilewright.compiler.sizes import Step
from tilewright.compiler.timing import work_by_layer
from tilewright.golden.machine.moves import LATENCY


def show(plan: Plan, what: str, latency: int = LATENCY) -> str:
    """One view of a decode step of a context's last token: ``graph``, ``schedule``, ``program``."""
    if what == "graph":
        return _graph(plan)
    machine = plan.machine
    step = Step.batch(dict.fromkeys(range(plan.sequences), plan.context - 1))
    layers = min(2, plan.shape.num_hidden_layers)  # the last one overlaps as all others do
    program = step_program(Lines(plan), step, latency=latency, layers=layers)
    if what == "program":
        return machine.disassemble(program.instructions).rstrip()
    layer = work_by_layer(program, timeline(machine, program, latency))[-1]
    start = min(w.begin for w in layer)
    rows = [
        (
            w.number,
            machine.disassemble([program.instructions[w.number]]).strip(),
            program.operations[w.number],
            w.unit.name.lower(),
            w.begin - start,
            w.end - start,
        )
        for w in layer
    ]
    return _table(("NUMBER", "INSTRUCTION", "OPERATION", "UNIT", "BEGIN", "END"), rows)


def _graph(plan: Plan) -> str:
    """Operations of a layer, in the order of the data."""
    rows = []
    for op in plan.graph:
        matrices = [plan.matrices[name] for name in getattr(op, "weights", ())]
        sizes = ", ".join(f"{m.outputs} x {m.inputs}" for m in matrices)
        rows.append((op.name, op, sizes, len(matrices[0].parts) if matrices else ""))
    return _table(("OPERATION", "RESULT", "OUTPUTS x INPUTS", "PARTS"), rows)


def _table(header: tuple[str, ...], rows: list[tuple]) -> str:
    cells = [header, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    lines = ("  ".join(c.ljust(n) for c, n in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
