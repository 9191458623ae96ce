"""What the number formats cost a real model: Anda's search, Harmonia's cache, and both at once."""

from typing import Any

from tilewright.report.claims import claims_section
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.llm_block import block_section
from tilewright.report.measured import missing
from tilewright.report.page import Context, Page
from tilewright.report.plots import Series, curves, panels
from tilewright.sim.claims import claims_of_study
from tilewright.sim.models import Model as Shape
from tilewright.studies.accuracy.anda import compare_machines
from tilewright.studies.accuracy.frontier import cheapest, pareto
from tilewright.studies.accuracy.records import MAKERS, load_record

TITLE = "Accuracy"
POSITION = 8

COMMAND = "python -m tilewright.studies.accuracy smollm2"
WORST = 1.25  # perplexity over full precision's that drawings still show
PAPER = "4 bits, windows, offsets, factors"  # Harmonia as published


def build(context: Context) -> Page:
    records = {name: load_record(name) for name in MAKERS}
    parts = {"search": _search, "sensitivity": _sensitivity, "kv": _cache, "frontier": _frontier}
    sections = [
        missing(f"the {name} experiments", COMMAND) if record is None else parts[name](record)
        for name, record in records.items()
    ]
    return Page(
        summary=_summary(records["search"], records["kv"]),
        body=join([*sections, block_section(), claims_section(claims_of_study("accuracy"))]),
        data=records,
    )


def _summary(search: dict[str, Any] | None, kv: dict[str, Any] | None) -> str:
    if search is None or kv is None:
        return "Formats on a real language model: not measured yet."
    best = search["searches"][-1]["best"]
    found = "no lengths" if best is None else "/".join(map(str, best["lengths"]))
    rows = {row["name"]: row["perplexity"] for row in kv["variants"]}
    change = rows[PAPER] / rows["full precision"] - 1
    return (
        f"{search['subject']['model']}: Anda's search at 1% finds {found};"
        f" Harmonia's cache changes perplexity by {change:+.1%}."
    )


def _source(name: str, record: dict[str, Any]) -> Markup:
    return note(
        "Source:",
        code(f"tilewright/studies/accuracy/records/{name}.json"),
        "made by",
        code(record["command"]),
        f"with {record['engine']}, seed {record['seed']}.",
    )


def _subject(record: dict[str, Any], part: str) -> str:
    subject = record["subject"]
    return (
        f"{subject['model']}, weights {subject['weights']}; {subject['text']}, {part} text of"
        f" {subject[f'{part} tokens']} tokens in windows of {subject['window']}."
    )


def _percent(value: float, reference: float) -> float:
    return 100 * (value / reference - 1)


def _search(record: dict[str, Any]) -> Markup:
    rows, machines = [], []
    for found in record["searches"]:
        best = found["best"]
        if best is None:
            continue
        judged, optimum = found["validation"], found["brute_force"]["best"]
        rows.append(
            (
                f"{found['tolerance']:.1%}",
                "/".join(map(str, best["lengths"])),
                best["saving"],
                _percent(best["perplexity"], found["reference"]),
                _percent(judged["perplexity"], judged["reference"]),
                len(found["trials"]),
                found["found_after"],
                "/".join(map(str, optimum["lengths"])),
                optimum["saving"],
            )
        )
        machines += [
            (
                f"{found['tolerance']:.1%}",
                row["machine"],
                row["milliseconds"],
                row["speedup"],
                row["millijoules"],
                row["energy_gain"],
                row["memory_bytes"] / 1e6,
                row["memory_gain"],
            )
            for row in compare_machines(Shape(**record["shape"]), tuple(best["lengths"]))
        ]
    first = record["searches"][0]
    full = record["weights_of_file"]["calibration"]
    points: dict[str, Series] = {
        f"tolerance {found['tolerance']:.1%}": [
            (t["saving"], _percent(t["perplexity"], found["reference"]))
            for t in found["trials"]
            if t["perplexity"] <= WORST * found["reference"]
        ]
        for found in record["searches"]
    }
    paths: dict[str, Series] = {
        f"tolerance {found['tolerance']:.1%}": [
            (t["saving"], _percent(t["perplexity"], found["reference"]))
            for t in found["trials"]
            if t["best"]
        ]
        for found in record["searches"]
        if found["best"] is not None
    }
    return section(
        "Anda's search for mantissa lengths",
        paragraph(
            _subject(record, "calibration"),
            f"Full precision activations give a perplexity of {first['reference']:.2f};"
            f" with the file's own weights it is {full:.2f}.",
        ),
        table(
            (
                *("Tolerance", "A_qkv/A_o/A_u/A_d", "Saving, x", "Loss, %", "Validation loss, %"),
                *("Looked at", "Best after", "Brute force nearby", "Its saving, x"),
            ),
            rows,
        ),
        paragraph(
            "Brute force looks at every combination within one bit of the result in each module,"
            " cheapest first, until one is within the tolerance."
        ),
        figure(
            curves(
                "anda-search",
                paths,
                points,
                x_label="saving of bit operations, times",
                y_label="loss of perplexity, %",
            ),
            "Every combination the search looked at; a line joins those that became the best."
            " Compare Figure 9 of the Anda paper.",
        ),
        table(
            (
                "Tolerance",
                "Machine",
                "ms",
                "Speed, x",
                "mJ",
                "Energy, x",
                "Memory, MB",
                "Memory, x",
            ),
            machines,
        ),
        note(
            "Projections of a prefill of 2048 tokens of this model; machines of equal peak"
            " throughput, computed while this page was built."
        ),
        _source("search", record),
        _search_with_weights_of_file(),
    )


def _search_with_weights_of_file() -> Markup:
    record = load_record("search-file")
    if record is None or record["best"] is None:
        return Markup("")
    best = record["best"]
    return join(
        [
            paragraph(
                "The same with other weights:",
                _subject(record, "calibration"),
                f"At {record['tolerance']:.1%} it finds {'/'.join(map(str, best['lengths']))}:"
                f" {best['saving']:.2f} times fewer bit operations,"
                f" {_percent(best['perplexity'], record['reference']):+.2f}% loss.",
            ),
            _source("search-file", record),
        ]
    )


def _by(rows: list[dict[str, Any]], key: str, label: str, reference: float) -> dict[str, Series]:
    """Loss over length, a line for each value of ``key``."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["perplexity"] <= WORST * reference:
            place = (row["length"], _percent(row["perplexity"], reference))
            lines.setdefault(label.format(row[key]), []).append(place)
    return dict(lines)


def _sensitivity(record: dict[str, Any]) -> Markup:
    reference = record["reference"]
    drawings = (
        ("by_module", "module", "{}", "One module converted, groups of 64, the others in full"
         " precision. Compare Figure 7 of the Anda paper."),
        ("by_group", "group", "groups of {}", "All four linear modules at one length. Compare"
         " Figures 5 and 6 of the Anda paper."),
        ("everywhere", "group", "groups of {}", "All eight sites at one length, keys and values of"
         " any age included. Compare Figure 4 of the Harmonia paper."),
    )  # fmt: skip
    shown = []
    for name, key, label, caption in drawings:
        lines = _by(record[name], key, label, reference)
        shown.append(
            figure(
                curves(
                    f"accuracy-{name.replace('_', '-')}",
                    lines,
                    lines,
                    x_label="mantissa bits",
                    y_label="loss of perplexity, %",
                ),
                caption,
            )
        )
    return section(
        "Length and group size",
        paragraph(_subject(record, "calibration"), f"Losses beyond {WORST - 1:.0%} are not drawn."),
        *shown,
        _source("sensitivity", record),
    )


def _cache(record: dict[str, Any]) -> Markup:
    rows = record["variants"]
    full = rows[0]
    quiz = {row["name"]: row for row in record["retrieval"]}
    before, after = sum(record["learning"]["error_before"]), sum(record["learning"]["error_after"])
    windows = record["windows"]
    locals_ = list(dict.fromkeys(row["local"] for row in windows))
    return section(
        "Harmonia's KV cache",
        paragraph(
            _subject(record, "validation"),
            f"Sizes are those of {record['cache_tokens']} tokens. Every query meets the cache as it"
            " was when the query came. All other activations are block floating point of 8 bits.",
        ),
        table(
            (
                *("Cache", "Perplexity", "Loss, %", "MB", "Times smaller"),
                *("Answer's likelihood", "First choice, %"),
            ),
            [
                (
                    row["name"],
                    row["perplexity"],
                    _percent(row["perplexity"], full["perplexity"]),
                    row["cache_bytes"] / 1e6,
                    full["cache_bytes"] / row["cache_bytes"],
                    quiz[row["name"]]["likelihood"],
                    100 * quiz[row["name"]]["first_choice"],
                )
                for row in rows
            ],
        ),
        paragraph(
            "The last two columns ask late for numbers that were given early, with prose between:"
            " likelihood of an answer's tokens, and how many of them the model would have chosen."
        ),
        table(
            ("Initial window", *(f"Local {local}" for local in locals_)),
            [
                (
                    str(initial),
                    *(
                        _percent(row["perplexity"], full["perplexity"])
                        for row in windows
                        if row["initial"] == initial
                    ),
                )
                for initial in dict.fromkeys(row["initial"] for row in windows)
            ],
        ),
        note("Loss in % by tokens of the windows, 4 bits for all others, no offsets, no factors."),
        paragraph(
            f"Factors: {record['learning']['steps']} steps a layer on"
            f" {record['learning']['tokens']} tokens lower the error of attention's output, summed"
            f" over layers, by {1 - after / before:.0%} of what converting Q and K causes."
        ),
        _source("kv", record),
        _with_weights_of_file(),
    )


def _with_weights_of_file() -> Markup:
    record = load_record("kv-file")
    if record is None:
        return Markup("")
    full = record["variants"][0]["perplexity"]
    return join(
        [
            paragraph("The same with other weights:", _subject(record, "validation")),
            table(
                ("Cache", "Perplexity", "Loss, %"),
                [
                    (row["name"], row["perplexity"], _percent(row["perplexity"], full))
                    for row in record["variants"]
                ],
            ),
            _source("kv-file", record),
        ]
    )


def _frontier(record: dict[str, Any]) -> Markup:
    reference, full = record["reference"], record["full"]
    kinds = {
        "search, one length": _trials(record, "one length"),
        "search within windows": _trials(record, "windows"),
        "Harmonia's own": record["fixed"],
    }
    paper = next(point for point in record["fixed"] if point["name"] == PAPER)
    names = {"moved": "bits of cache read, %", "computed": "bit operations, %"}
    columns: dict[str, tuple[dict[str, Series], dict[str, Series]]] = {}
    rows = []
    for price, label in names.items():
        columns[label] = (
            {
                k: _places(pareto(points, price), price, full, reference)
                for k, points in kinds.items()
            },
            {k: _places(points, price, full, reference) for k, points in kinds.items()},
        )
        for kind, points in kinds.items():
            best = cheapest(points, price, paper["perplexity"])
            if best is not None:
                rows.append(
                    (
                        price,
                        kind,
                        best["name"],
                        100 * best["moved"] / full["moved"],
                        100 * best["computed"] / full["computed"],
                        _percent(best["perplexity"], reference),
                    )
                )
    return section(
        "Beyond the papers: the search over all eight sites",
        paragraph(
            _subject(record, "calibration"),
            "Algorithm 1 with a length for A_qkv, A_o, A_u, A_d, Q, K, V and P each, groups of 32:"
            " with one length whatever a token's age, and within Harmonia's windows, where K and V"
            " of initial and recent tokens keep 8 bits and offsets and factors are as published;"
            " there also down from Harmonia's own lengths. Prices are those of one token after"
            f" {record['context']}, in percent of fp16 beside INT4 weights.",
        ),
        figure(
            panels(
                "accuracy-frontier",
                columns,
                y_label="loss of perplexity, %",
                largest=100 * (WORST - 1),
            ),
            "Lines join what nothing else of the kind beats.",
        ),
        table(
            ("Cheapest in", "Of", "As good as Harmonia", "Moved, %", "Computed, %", "Loss, %"), rows
        ),
        table(
            (
                *("Searched", "From", "To save", "Loss at most, %", "Found", "Moved, %"),
                *("Computed, %", "Loss, %", "Validation loss, %"),
            ),
            [
                (
                    found["space"],
                    found["starts"][0] if len(found["starts"]) == 1 else "uniform lengths",
                    found["goal"],
                    100 * found["tolerance"],
                    best["name"],
                    100 * best["moved"] / full["moved"],
                    100 * best["computed"] / full["computed"],
                    _percent(best["perplexity"], reference),
                    _percent(best["validation"], record["validation_reference"]),
                )
                for found in record["searches"]
                if (best := found["best"]) is not None
            ],
        ),
        paragraph(
            f"Harmonia as published, {PAPER}: {100 * paper['moved'] / full['moved']:.1f}% moved,"
            f" {100 * paper['computed'] / full['computed']:.1f}% computed,"
            f" {_percent(paper['perplexity'], reference):+.2f}% loss,"
            f" {_percent(paper['validation'], record['validation_reference']):+.2f}% on the"
            " validation text."
        ),
        _source("frontier", record),
    )


def _trials(record: dict[str, Any], space: str) -> list[dict[str, Any]]:
    """Every combination that the searches of a kind looked at, once."""
    searches = (search for search in record["searches"] if search["space"] == space)
    return list({t["name"]: t for search in searches for t in search["trials"]}.values())


def _places(
    points: list[dict[str, Any]], price: str, full: dict[str, float], reference: float
) -> Series:
    return [
        (100 * p[price] / full[price], _percent(p["perplexity"], reference))
        for p in points
        if p["perplexity"] <= WORST * reference
    ]
