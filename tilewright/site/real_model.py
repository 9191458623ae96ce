"""A language model on the accelerators: its text, its cost, and predicted cycles against run."""

from types import SimpleNamespace
from typing import Any

from tilewright.base.table import Column, Table, code
from tilewright.golden.machine.clock import Work
from tilewright.golden.params.harmonia_machine import Opcode
from tilewright.golden.params.machine import UnitOfWork
from tilewright.site.html import Markup, figure
from tilewright.site.plots import Series, curves
from tilewright.site.timeline import draw
from tilewright.studies.measured import load_measured
from tilewright.studies.model_record import NAMES

# Source of the cycles in a record's row; none depends on a value.
KINDS = {"run": "the golden machine", "counted": "its clock, without values"}
RTL_RECORDS = {"Harmonia": "harmonia_token", "Anda": "anda_token"}
UNITS = ("load", "store", "gemm", "vector", "convert")


def _record(name: str) -> dict[str, Any]:
    record = load_measured(name)
    assert record is not None, name
    return record


def _made(block: str) -> dict[str, Any]:
    made: dict[str, Any] = _record(NAMES[block])["generation"]
    return made


def text(block: str) -> str:
    """The question and the model's answer."""
    made = _made(block)
    return f"{made['text_of_prompt']}\n{made['text']}"


def cost(block: str) -> Table:
    """Cycles, rate, traffic and busy units of prompt and decoded tokens."""
    rows = []
    made = _made(block)
    for phase in ("prefill", "decode"):
        c = made[phase]
        rows.append(
            (
                *(phase, c["tokens"], c["cycles"], c["milliseconds"], c["tokens_per_second"]),
                *(c["bytes_read"] / 1e6, c["bytes_written"] / 1e6, c["bound"]),
                *(round(100 * busy / c["cycles"]) for busy in c["busy_cycles"].values()),
            )
        )
    busy = [f"{unit} busy, %" for unit in made["decode"]["busy_cycles"]]
    head = ("Phase", "Tokens", "Cycles", "ms", "Tokens/s", "MB read", "MB written", "Bound by")
    return Table((*head, *busy), rows)


def energy(block: str) -> Table:
    """Predicted energy of prompt and decoded tokens."""
    made = _made(block)
    costs = {phase: made[phase]["millijoules"] for phase in ("prefill", "decode")}
    rows = [(phase, *c.values(), sum(c.values())) for phase, c in costs.items()]
    return Table(("Energy, mJ", *costs["decode"], "all"), rows)


def layers() -> Markup:
    """Cycles of the parts of every layer in a decode step on Harmonia."""
    made = _made("harmonia")
    steps = made["layers"]
    lines: dict[str, Series] = {
        part: [(step["layer"], step["by_part"][part]) for step in steps]
        for part in steps[0]["by_part"]
    }
    title = f"Cycles of every layer of {made['model']}, token {made['timeline']['token']}"
    return curves(title, lines, {}, x_label="layer", y_label="cycles")


def layer_timeline() -> Markup:
    """The timeline of every unit of Harmonia in a layer of a decoded token."""
    shown = _made("harmonia")["timeline"]
    work = [
        Work(UnitOfWork(unit), begin, end, number, SimpleNamespace(opcode=Opcode(opcode)))
        for number, unit, begin, end, opcode in shown["work"]
    ]
    title = f"Units of Harmonia in layer {shown['layer']} of token {shown['token']}, in cycles"
    return figure(draw(work, range(shown["begin"], shown["end"]), title), title)


def cycles(block: str) -> Table:
    """Cycles that the performance model predicts, and those of programs that were run."""
    columns: dict[str, Column] = {
        "Phase": "phase",
        "Context": "context",
        "Predicted": "predicted",
        "Run": "run",
        "By": lambda row: KINDS[row.get("kind", "run")],
        "Difference, %": lambda row: 100 * (row["run"] / row["predicted"] - 1),
    }
    return Table.of(_record(NAMES[block])["cycles"]["rows"], columns)


def cycles_by_context(block: str) -> Markup:
    """Cycles of a token, and of a prompt divided by its tokens: predicted (lines) and run."""
    lines: dict[str, list[tuple[float, float]]] = {}
    points: dict[str, list[tuple[float, float]]] = {}
    for row in _record(NAMES[block])["cycles"]["rows"]:
        tokens = 1 if row["phase"] == "decode" else row["context"]
        lines.setdefault(row["phase"], []).append((row["context"], row["predicted"] / tokens))
        points.setdefault(row["phase"], []).append((row["context"], row["run"] / tokens))
    title = f"Cycles of a token on {block.capitalize()}: predicted (lines), run (markers)"
    return curves(
        title,
        lines,
        points,
        x_label="context, tokens",
        y_label="cycles of a token",
        logarithmic=True,
    )


def agreement() -> Table:
    """Tokens, logits and perplexities of the machines, and of an engine that models no machine."""
    rows = []
    for block in NAMES:
        found = _record(NAMES[block])["agreement"]
        error = found["logit_error"]
        apart = f"{100 * error['least']:.1f} to {100 * error['most']:.1f}"
        rows.append(
            (block, "greedy tokens of the engine", f"{found['equal']} of {found['tokens']}")
        )
        rows.append((block, "logits apart, % of their deviation", apart))
        rows += [
            (block, f"perplexity, {name}", f"{value:.3f}")
            for name, value in found["perplexity"].items()
        ]
    return Table(("Machine", "Compared", "Value"), rows)


def on_rtl() -> Table:
    """Whole tokens on the emitted Verilog at the papers' sizes."""
    columns: dict[str, Column] = {
        "Machine": lambda item: item[0],
        "Prompt": lambda item: item[1]["prompt"],
        "Text": lambda item: item[1]["text"],
        "Layers": lambda item: item[1]["layers"],
        "Cycles of the programs": lambda item: ", ".join(
            f"{run['kind']} {run['counters']['cycles']:,}" for run in item[1]["programs"]
        ),
        "Cycles simulated": lambda item: item[1]["simulated_cycles"],
        "Seconds": lambda item: item[1]["seconds"],
        "Simulator": lambda item: item[1]["simulator"],
        "Memory after, SHA-256": lambda item: code(item[1]["memory_sha256"]),
    }
    return Table.of({on: _record(name) for on, name in RTL_RECORDS.items()}.items(), columns)


def layer_weights() -> Table:
    """The weights of a decoder layer, decompressed by DECA's Verilog."""
    columns: dict[str, Column] = {
        "Matrix": "matrix",
        "Shape": lambda m: "x".join(map(str, m["shape"][:2])),
        "Scheme": "scheme",
        "Density": "density",
        "Tiles": "tiles",
        "Size, B": "bytes",
        "Cycles": "cycles",
        "Cycles/tile": "cycles_per_tile",
    }
    return Table.of(_record("deca_layer")["matrices"], columns)


def layer_steps(block: str) -> Table:
    """Steps of a decoder layer on the Verilog of an accelerator."""
    head = ("First token", "Tokens", "Cycles", *(f"{unit.capitalize()}, cycles" for unit in UNITS))
    rows = [
        (
            *(step["first"], step["tokens"], step["counters"]["cycles"]),
            *(step["counters"].get(unit, 0) for unit in UNITS),
            *(step["counters"].get(name, 0) for name in ("lines_read", "lines_written")),
        )
        for step in _record(f"{block}_layer")["steps"]
    ]
    return Table((*head, "Lines read", "Lines written"), rows)
