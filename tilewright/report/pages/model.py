"""A real model on the hardware: its text, what it cost, and what its cycles are held against."""

import re
from types import SimpleNamespace
from typing import Any

from tilewright.golden.machine.clock import Work
from tilewright.golden.params.harmonia_machine import Opcode
from tilewright.golden.params.machine import UnitOfWork
from tilewright.report.html import Markup, code, element, figure, join, paragraph, section, table
from tilewright.report.measured import load_measured, measured_source, missing
from tilewright.report.page import Context, Page
from tilewright.report.plots import curves
from tilewright.report.timeline import draw
from tilewright.studies.model_record import COMMAND, FAR, NAMES

NAME, ON_ANDA = NAMES["harmonia"], NAMES["anda"]
TITLE = "A real model"
POSITION = 18
TOLERANCE = 0.05  # of predicted cycles
# What the cycles of a record's row are from; none depends on a value.
KINDS = {"run": "the golden machine", "counted": "its clock, without values"}
RTL_RECORDS = {"Harmonia": "harmonia_token", "Anda": "anda_token"}
RTL_COMMAND = "python -m tilewright.studies.rtl_token"


def build(context: Context) -> Page:
    record = load_measured(NAME, context.measured)
    if record is None:
        return Page(
            summary="A language model on the generated hardware.",
            body=missing("a model on the hardware", COMMAND),
            data={},
        )
    on_anda = load_measured(ON_ANDA, context.measured)
    rtl = {on: load_measured(name, context.measured) for on, name in RTL_RECORDS.items()}
    made = record["generation"]
    rate = made["decode"]["tokens_per_second"]
    return Page(
        summary=f"{made['model']} writes text as programs of Harmonia: {rate:.0f} tokens a second"
        f" at {made['clock_mhz']:g} MHz, every bit and cycle accounted for.",
        body=join(
            [
                _text(made),
                _cost(made),
                _layers(made),
                _timeline(made["timeline"]),
                _cycles(record["cycles"], "harmonia"),
                _agreement(record["agreement"]),
                measured_source(NAME, record),
                _anda(on_anda),
                *(_rtl(on, found) for on, found in rtl.items()),
            ]
        ),
        data={"model": record, "on Anda": on_anda, "rtl": rtl},
        failures=[*_failures(record), *(_failures(on_anda) if on_anda else [])],
    )


def _failures(record: dict[str, Any]) -> list[str]:
    return [
        f"{row['phase']} at {row['context']} tokens took {row['run']:,} cycles,"
        f" {row['predicted']:,} were predicted"
        for row in record["cycles"]["rows"]
        if abs(row["run"] / row["predicted"] - 1) > TOLERANCE
    ]


def _text(made: dict[str, Any]) -> Markup:
    words = f'tilewright run smollm2 --on harmonia --prompt "{made["text_of_prompt"]}"'
    words += f" --tokens {len(made['tokens'])} --latency {FAR}"
    return section(
        "The text",
        paragraph(
            f"Every layer and the vocabulary head of {made['model']}, weights of"
            f" {made['weight_bits']} bits, are programs of the accelerator; so is the choice of the"
            " likeliest token. The golden machine has run them, whose memory, counters and cycles"
            " the RTL has too."
        ),
        element("pre", f"{made['text_of_prompt']}{made['text']}"),
        paragraph("The same again:", code(words)),
    )


def _cost(made: dict[str, Any]) -> Markup:
    rows, energy = [], []
    for name in ("prefill", "decode"):
        cost = made[name]
        rows.append(
            (
                name,
                cost["tokens"],
                cost["cycles"],
                cost["milliseconds"],
                cost["tokens_per_second"],
                cost["bytes_read"] / 1e6,
                cost["bytes_written"] / 1e6,
                cost["bound"],
                *(cost["busy_cycles"][unit] / cost["cycles"] for unit in cost["busy_cycles"]),
            )
        )
        energy.append((name, *cost["millijoules"].values(), sum(cost["millijoules"].values())))
    units = [f"{unit} busy" for unit in made["decode"]["busy_cycles"]]
    return section(
        "What it cost",
        table(
            (
                *("Phase", "Tokens", "Cycles", "ms", "Tokens/s", "MB read", "MB written"),
                *("Bound by", *units),
            ),
            rows,
        ),
        paragraph(
            f"Cycles are counted; ms are at {made['clock_mhz']:g} MHz, the paper's clock. Energy is"
            " predicted: the paper's watts while the array is busy, and fixed energies of a bit."
        ),
        table(("Energy, mJ", *made["decode"]["millijoules"], "all"), energy),
    )


def _layers(made: dict[str, Any]) -> Markup:
    layers = made["layers"]
    names = list(layers[0]["by_part"])
    line = {n: [(float(t["layer"]), float(t["by_part"][n])) for t in layers] for n in names}
    mean = {n: sum(t["by_part"][n] for t in layers) / len(layers) for n in names}
    return section(
        "Cycles of every layer",
        figure(
            curves("layers", line, {}, x_label="layer", y_label="cycles"),
            f"A decode step, token {made['timeline']['token']}: the parts of its layers.",
        ),
        table(("Part", "Mean cycles of a layer"), list(mean.items())),
    )


def _timeline(shown: dict[str, Any]) -> Markup:
    work = [
        Work(
            UnitOfWork(unit),
            begin,
            end,
            number,
            SimpleNamespace(opcode=Opcode(opcode)),
        )
        for number, unit, begin, end, opcode in shown["work"]
    ]
    title = f"Units of Harmonia in layer {shown['layer']} of token {shown['token']}"
    # Inside a page an SVG needs no namespace; a page names no other place.
    svg = re.sub(r' xmlns="[^"]*"', "", draw(work, range(shown["begin"], shown["end"]), title))
    return section(
        "One layer on the clock",
        figure(Markup(svg), f"{title}; --trace FILE writes such a timeline of a whole run."),
    )


def _cycles(record: dict[str, Any], on: str) -> Markup:
    lines: dict[str, list[tuple[float, float]]] = {}
    points: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for phase in dict.fromkeys(row["phase"] for row in record["rows"]):
        own = [row for row in record["rows"] if row["phase"] == phase]
        lines[phase] = [(row["context"], row["predicted"] / row["context"]) for row in own]
        points[phase] = [(row["context"], row["run"] / row["context"]) for row in own]
        if phase == "decode":  # one token, whatever the context
            lines[phase] = [(row["context"], float(row["predicted"])) for row in own]
            points[phase] = [(row["context"], float(row["run"])) for row in own]
        rows += [
            (
                phase,
                row["context"],
                row["predicted"],
                row["run"],
                KINDS[row.get("kind", "run")],
                100 * (row["run"] / row["predicted"] - 1),
            )
            for row in own
        ]
    return section(
        "Predicted against run",
        paragraph(
            "What",
            code(f"tilewright llm smollm2-135m --block {on}"),
            f"answers without running the model, for weights and head of {record['weight_bits']}"
            " bits, and what the cycle counters of the programs say.",
        ),
        figure(
            curves(
                f"predicted-{on}",
                lines,
                points,
                x_label="context, tokens",
                y_label="cycles of a token",
                logarithmic=True,
            ),
            "Lines are predicted, markers are runs; of a prompt, cycles divided by its tokens.",
        ),
        table(("Phase", "Context", "Predicted", "Run", "By", "Difference, %"), rows),
    )


def _agreement(found: dict[str, Any]) -> Markup:
    error = found["logit_error"]
    return section(
        "Held against an engine that knows no machine",
        paragraph(
            f"Of {found['tokens']} greedy tokens {found['equal']} are those of the engine in the"
            f" same formats, whose logits are {100 * error['least']:.1f} to"
            f" {100 * error['most']:.1f}% of their standard deviation away."
        ),
        *(_tie(tie) for tie in found["near_ties"]),
        table(
            (f"Perplexity of {found['scored']} tokens", "value"),
            list(found["perplexity"].items()),
        ),
    )


def _rounding(found: dict[str, Any]) -> Markup:
    """An engine with the machine's own rounding, and what rounding alone does to perplexities."""
    nudged = found["nudged"]
    return paragraph(
        "By formulas that round where the machine rounds, and know no instruction, the logits of"
        f" {found['equal']} of {found['compared']} tokens are the machine's in every bit, and the"
        f" perplexity of {found['scored']} is {found['perplexity']:.3f}. {len(nudged)} engines"
        " whose embeddings are moved by at most a last place have perplexities of"
        f" {min(nudged):.3f} to {max(nudged):.3f}: so far apart are engines that differ in rounding"
        " alone."
    )


def _tie(tie: dict[str, Any]) -> Markup:
    mine, theirs = tie["machine"], tie["engine"]
    return paragraph(
        f"Token {tie['place']} is a near-tie: the engine has {theirs[1]:.3f} for {theirs[0]} and"
        f" {theirs[2]:.3f} for {mine[0]}, the machine {mine[2]:.3f} and {mine[1]:.3f}."
    )


def _anda(record: dict[str, Any] | None) -> Markup:
    """The same model on the other accelerator."""
    if record is None:
        return section("On Anda", missing("a model on Anda", f"{COMMAND} anda"))
    made = record["generation"]
    decode = made["decode"]
    return join(
        [
            section(
                "The same model on Anda",
                paragraph(
                    f"Weights of {made['weight_bits']} bits, Anda activations, fp16 attention; the"
                    " embedding is a load of the program, and so is the choice of the likeliest"
                    f" token the program's. {decode['tokens_per_second']:.0f} tokens a second at"
                    f" {made['clock_mhz']:g} MHz, the paper's clock; a token takes"
                    f" {decode['cycles'] // decode['tokens']:,} cycles."
                ),
                element("pre", f"{made['text_of_prompt']}{made['text']}"),
            ),
            _cycles(record["cycles"], "anda"),
            _agreement(record["agreement"]),
            *([_rounding(record["rounding"])] if "rounding" in record else []),
            measured_source(ON_ANDA, record),
        ]
    )


def _rtl(on: str, record: dict[str, Any] | None) -> Markup:
    if record is None:
        body = missing(f"a whole token on the RTL of {on}", f"{RTL_COMMAND} {on.lower()}")
    else:
        programs = record["programs"]
        cycles = ", ".join(f"{run['kind']} {run['counters']['cycles']:,}" for run in programs)
        body = join(
            [
                paragraph(
                    "The emitted Verilog at the paper's size has run the same image and programs,"
                    f" all {record['layers']} layers and a head of {record['vocabulary']:,} words;"
                    " memory, counters and cycles are golden's."
                ),
                table(
                    ("What", "Value"),
                    [
                        ("prompt", record["prompt"]),
                        ("what follows", record["text"]),
                        ("cycles of the programs", cycles),
                        ("cycles simulated, the host's among them", record["simulated_cycles"]),
                        ("seconds of the simulation", record["seconds"]),
                        ("simulator", record["simulator"]),
                        ("memory before, SHA-256", code(record["image_sha256"])),
                        ("memory after, SHA-256", code(record["memory_sha256"])),
                    ],
                ),
                measured_source(RTL_RECORDS[on], record),
            ]
        )
    return section(f"Whole tokens on the RTL of {on}", body)
