"""The number formats on real language models: searches, caches, frontier, other families, a GPU."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.base.table import Column, Table
from tilewright.claims import find_claim
from tilewright.golden.params.llm import LlmShape
from tilewright.site.html import Markup
from tilewright.site.plots import Series, curves, panels
from tilewright.studies.accuracy.anda import compare_machines
from tilewright.studies.accuracy.frontier import cheapest, pareto
from tilewright.studies.accuracy.records import RECORDS, load_record

WORST = 1.25  # perplexity, relative to full precision, up to which drawings go
PAPER = "4 bits, windows, offsets, factors"  # Harmonia as published
GPU_RECORD = RECORDS.parents[1] / "records" / "torch_gpu.json"
LENGTHS = {f"Anda {m}/{m}/{m}/{m}": m for m in (8, 6, 4)}  # bits of every linear module's mantissas
KNEE = 0.02  # loss of perplexity below which a length counts as enough
PRICES = {"moved": "bits of the cache read, %", "computed": "bit operations, %"}
TITLES = {
    "smollm2-135m": "SmolLM2 135M",
    "gemma-3-270m": "Gemma 3 270M",
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder 1.5B",
}
TASK_TITLES = {
    **{"hellaswag": "HellaSwag", "arc_easy": "ARC easy", "arc_challenge": "ARC challenge"},
    **{"piqa": "PIQA", "winogrande": "WinoGrande", "boolq": "BoolQ", "lambada": "LAMBADA"},
}
SENSITIVITIES = {  # part of the record -> key of its lines, their name, title
    "by_module": ("module", "{}", "One module converted, groups of 64 (figure 7 of Anda's paper)"),
    "by_group": (
        *("group", "groups of {}"),
        "All four linear modules converted (figures 5 and 6 of Anda's paper)",
    ),
    "everywhere": (
        *("group", "groups of {}"),
        "All eight sites converted (figure 4 of Harmonia's paper)",
    ),
}


def _record(name: str) -> dict[str, Any]:
    record = load_record(name)
    assert record is not None, name
    return record


def _loss(perplexity: float, reference: float) -> float:
    """How much larger ``perplexity`` is than ``reference``, in percent."""
    return 100 * (perplexity / reference - 1)


def _lengths(best: dict[str, Any]) -> str:
    return "/".join(map(str, best["lengths"]))


def _found() -> list[dict[str, Any]]:
    """The searches of Anda that found lengths within their tolerance."""
    return [found for found in _record("search")["searches"] if found["best"] is not None]


def search() -> Table:
    """The lengths that Anda's search finds, and brute force around them."""
    columns: dict[str, Column] = {
        "Tolerance": lambda f: f"{f['tolerance']:.1%}",
        "Lengths A_qkv/A_o/A_u/A_d, bits": lambda f: _lengths(f["best"]),
        "Fewer bit operations, x": lambda f: f["best"]["saving"],
        "Calibration loss, %": lambda f: _loss(f["best"]["perplexity"], f["reference"]),
        "Validation loss, %": lambda f: _loss(
            f["validation"]["perplexity"], f["validation"]["reference"]
        ),
        "Combinations tried": lambda f: len(f["trials"]),
        "Found after": "found_after",
        "Brute force, bits": lambda f: _lengths(f["brute_force"]["best"]),
        "Brute force, fewer bit operations, x": lambda f: f["brute_force"]["best"]["saving"],
    }
    return Table.of(_found(), columns)


def search_path() -> Markup:
    """Every combination that the search tried; lines join those that became the best."""
    points, paths = {}, {}
    for found in _record("search")["searches"]:
        name, reference = f"tolerance {found['tolerance']:.1%}", found["reference"]
        near = (t for t in found["trials"] if t["perplexity"] <= WORST * reference)
        points[name] = _savings(near, reference)
        if found["best"] is not None:
            paths[name] = _savings((t for t in found["trials"] if t["best"]), reference)
    title = "The search for mantissa lengths on SmolLM2 (figure 9 of Anda's paper)"
    return curves(
        title, paths, points, x_label="fewer bit operations, x", y_label="loss of perplexity, %"
    )


def _savings(trials: Iterable[dict[str, Any]], reference: float) -> Series:
    return [(t["saving"], _loss(t["perplexity"], reference)) for t in trials]


def machines() -> Table:
    """The lengths found, on modelled systems of equal peak rate: a prefill of 2048 tokens."""
    shape = LlmShape(**_record("search")["shape"])
    rows = [
        (
            *(f"{found['tolerance']:.1%}", row["machine"], row["milliseconds"], row["speedup"]),
            *(row["millijoules"], row["energy_gain"]),
            *(row["memory_bytes"] / 1e6, row["memory_gain"]),
        )
        for found in _found()
        for row in compare_machines(shape, tuple(found["best"]["lengths"]))
    ]
    head = ("Tolerance", "System", "Time, ms", "Faster, x", "Energy, mJ", "Less energy, x")
    return Table((*head, "Memory traffic, MB", "Less traffic, x"), rows)


def sensitivity() -> Iterator[Markup]:
    """Loss of perplexity by mantissa length, by module and by group."""
    record = _record("sensitivity")
    reference = record["reference"]
    for part, (key, label, title) in SENSITIVITIES.items():
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in record[part]:
            if row["perplexity"] <= WORST * reference:
                place = (row["length"], _loss(row["perplexity"], reference))
                lines.setdefault(label.format(row[key]), []).append(place)
        yield curves(
            title, lines, lines, x_label="mantissa length, bits", y_label="loss of perplexity, %"
        )


def cache(record: str = "kv") -> Table:
    """Every variant of Harmonia's cache; ``kv-file`` has the weights of the file."""
    found = _record(record)
    full = found["variants"][0]
    quiz = {row["name"]: row for row in found.get("retrieval", [])}
    columns: dict[str, Column] = {
        "Cache": "name",
        "Perplexity": "perplexity",
        "Validation loss, %": lambda row: _loss(row["perplexity"], full["perplexity"]),
    }
    if quiz:
        columns |= {
            "Size, MB": lambda row: row["cache_bytes"] / 1e6,
            "Smaller, x": lambda row: full["cache_bytes"] / row["cache_bytes"],
            "Likelihood of the answer": lambda row: quiz[row["name"]]["likelihood"],
            "First choice, %": lambda row: 100 * quiz[row["name"]]["first_choice"],
        }
    return Table.of(found["variants"], columns)


def _kinds(record: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Every combination of the frontier's record, by how it was found."""

    def trials(space: str) -> list[dict[str, Any]]:
        searches = (s for s in record["searches"] if s["space"] == space)
        return list({t["name"]: t for s in searches for t in s["trials"]}.values())

    return {
        "search, one length": trials("one length"),
        "search within windows": trials("windows"),
        "Harmonia's own": record["fixed"],
    }


def frontier() -> Markup:
    """Loss by traffic and by operations; lines join combinations that no other beats."""
    record = _record("frontier")
    full, reference = record["full"], record["reference"]

    def places(points: list[dict[str, Any]], price: str) -> Series:
        near = [p for p in points if p["perplexity"] <= WORST * reference]
        return [(100 * p[price] / full[price], _loss(p["perplexity"], reference)) for p in near]

    kinds = _kinds(record)
    columns: dict[str, tuple[dict[str, Series], dict[str, Series]]] = {
        f"{price}: {label}": (
            {kind: places(pareto(points, price), price) for kind, points in kinds.items()},
            {kind: places(points, price) for kind, points in kinds.items()},
        )
        for price, label in PRICES.items()
    }
    title = "Mantissa lengths of all eight sites of SmolLM2"
    return panels(title, columns, y_label="loss of perplexity, %", largest=100 * (WORST - 1))


def cheapest_lengths() -> Table:
    """The cheapest combinations of each kind that lose no more than Harmonia as published."""
    record = _record("frontier")
    paper = next(point for point in record["fixed"] if point["name"] == PAPER)
    rows = [
        (price, kind, best["name"], *_prices(record, best))
        for price in PRICES
        for kind, points in _kinds(record).items()
        if (best := cheapest(points, price, paper["perplexity"])) is not None
    ]
    head = ("Cheapest in", "Kind", "Lengths at no more than Harmonia's loss")
    return Table((*head, "Moved, %", "Computed, %", "Calibration loss, %"), rows)


def _prices(record: dict[str, Any], point: dict[str, Any]) -> Sequence[float]:
    shares = [100 * point[price] / record["full"][price] for price in PRICES]
    return [*shares, _loss(point["perplexity"], record["reference"])]


def gpu_record() -> dict[str, Any]:
    """The measurements on a GPU."""
    record: dict[str, Any] = json.loads(GPU_RECORD.read_text())
    return record


def conversions() -> Table:
    """Bandwidth of the conversions of a GPU."""
    columns: dict[str, Column] = {
        "Conversion": "conversion",
        "TB/s": lambda row: f"{row['gigabytes_per_second'] / 1000:.2f}",
        "Of the copy": lambda row: f"{row['share_of_copy']:.0%}",
        "Of the stated bandwidth": lambda row: f"{row['share_of_peak']:.0%}",
    }
    return Table.of((row for row in gpu_record()["conversions"] if "error" not in row), columns)


def gpu_times() -> Table:
    """Time of a perplexity on a GPU, with a format and without."""
    columns: dict[str, Column] = {
        "Shape": lambda row: row["shape"].upper(),
        "Windows at a time": "batch",
        "Format": "format",
        "Per window, ms": lambda row: f"{1000 * row['seconds'] / row['windows']:.1f}",
        "Times plain": lambda row: f"{row['times_plain']:.2f}",
    }
    rows = [found | row for found in gpu_record()["perplexities"] for row in found["times"]]
    return Table.of((row for row in rows if "error" not in row), columns)


def model_records(folder: Path = RECORDS / "models") -> dict[str, dict[str, Any]]:
    """Records of models by their names, the smallest model first."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return dict(sorted(found.items(), key=lambda item: item[1]["model"]["parameters"]))


def model_name(name: str) -> str:
    """The name of a model as people write it."""
    return TITLES.get(name, name)


Records = dict[str, dict[str, Any]]


def perplexities(records: Records | None = None) -> Table:
    """Change of perplexity of each model in each format; the noise floor is in parentheses."""
    records = records or model_records()
    columns = [record["perplexity"] for record in records.values()]
    floors = [_by_format(column["noise_floor"]) for column in columns]
    plain = [_by_format(column["perplexities"], "perplexity")["plain"] for column in columns]
    cells = [f"{value:.2f}{_floor(f, 'plain')}" for value, f in zip(plain, floors, strict=True)]
    texts = [f"{column['tokens']}, {column['window']}" for column in columns]
    rows = [["tokens, of a window", *texts], ["plain, perplexity", *cells]]
    changes = [_by_format(column["perplexities"]) for column in columns]
    for name in dict.fromkeys(name for column in changes for name in column if name != "plain"):
        pairs = zip(changes, floors, strict=True)
        rows.append([name, *(_change(change.get(name)) + _floor(f, name) for change, f in pairs)])
    return Table(("Change of perplexity", *map(model_name, records)), rows)


def _floor(floors: dict[str, float], name: str) -> str:
    return f" ({100 * floors[name]:.2f}%)" if name in floors else ""


def _by_format(rows: list[dict[str, Any]], key: str = "change") -> dict[str, float]:
    return {row["format"]: row[key] for row in rows}


def _change(change: float | None) -> str:
    return "" if change is None else f"{100 * change:+.1f}%"


def lengths_by_model() -> Markup:
    """Change of perplexity of each model by the length in all linear modules.

    Changes below 0.01% are drawn there.
    """
    lines: dict[str, Series] = {
        model_name(name): [
            (LENGTHS[row["format"]], 100 * max(row["change"], 1e-4))
            for row in record["perplexity"]["perplexities"]
            if row["format"] in LENGTHS
        ]
        for name, record in model_records().items()
    }
    title = "One mantissa length in all linear modules, by model"
    return curves(
        title,
        lines,
        lines,
        x_label="mantissa length, bits",
        y_label="change of perplexity, %",
        logarithmic=True,
    )


def sizes(records: Records | None = None) -> Table:
    """Losses by short mantissas and a short cache, by model; the papers' models last."""
    rows = []
    for name, record in (records or model_records()).items():
        change = _by_format(record["perplexity"]["perplexities"])
        lengths = {m: change[key] for key, m in LENGTHS.items()}
        caches = (change[f"Harmonia, {form}"] for form in ("4-bit cache", "windows, offsets"))
        size = f"{record['model']['parameters'] / 1e9:.2f} billion"
        rows.append([model_name(name), size, *_knee(lengths), *map(_change, caches)])
    anda = find_claim("harmonia.accuracy.anda_loss").numbers
    whole = find_claim("harmonia.accuracy.loss").numbers["kv4"] / 100
    theirs = {m: anda[f"m{m}"] / 100 for m in LENGTHS.values()}
    papers = ["papers, mean of five models", "6.7 to 13 billion"]
    rows.append([*papers, *_knee(theirs), "", _change(whole)])
    head = ("Model", "Parameters", *(f"{m} bits" for m in LENGTHS.values()))
    return Table((*head, f"Within {KNEE:.0%}", "4-bit cache", "Windows, offsets"), rows)


def _knee(losses: dict[int, float]) -> list[str]:
    """The losses of each length, and the shortest that loses less than ``KNEE``."""
    within = [length for length, loss in losses.items() if loss < KNEE]
    return [*map(_change, losses.values()), f"{min(within)} bits" if within else "none"]


def task_formats(records: Records | None = None) -> list[str]:
    """The formats in which tasks were answered."""
    rows = [row for record in (records or model_records()).values() for row in _answers(record)]
    return list(dict.fromkeys(row["format"] for row in rows if row["format"] != "plain"))


def tasks(records: Records | None = None) -> Table:
    """Accuracy in zero-shot tasks, and its change in percentage points in each format.

    In parentheses are 95% intervals; that of a change counts the questions that turned.
    """
    records = records or model_records()
    formats, rows = task_formats(records), []
    for name, record in records.items():
        found = _answers(record)
        for task in dict.fromkeys(row["task"] for row in found):
            mine = {row["format"]: row for row in found if row["task"] == task}
            plain = mine["plain"]
            right = (
                f"{plain['accuracy']:.0%} ({100 * plain['low']:.0f} to {100 * plain['high']:.0f})"
            )
            changes = (_points(mine[each]) if each in mine else "" for each in formats)
            rows.append([model_name(name), TASK_TITLES[task], plain["questions"], right, *changes])
    return Table(("Model", "Task", "Questions", "Plain", *formats), rows)


def _answers(record: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = record.get("zero_shot", {}).get("rows", [])
    return rows


def _points(row: dict[str, Any]) -> str:
    change, low, high = (100 * row[key] for key in ("change", "change_low", "change_high"))
    return f"{change:+.1f} ({low:+.1f} to {high:+.1f})"


def noise(records: Records | None = None) -> Table:
    """How many questions turn when the embeddings alone are disturbed."""
    rows = []
    for name, record in (records or model_records()).items():
        found = record.get("zero_shot", {}).get("noise", [])
        for each in dict.fromkeys(row["format"] for row in found):
            mine = [row for row in found if row["format"] == each]
            turned = sum(row["gained"] + row["lost"] for row in mine)
            asked = sum(row["questions"] for row in mine)
            rows.append([model_name(name), each, f"{turned} of {asked}"])
    return Table(("Model", "Format", "Questions that turn"), rows)
