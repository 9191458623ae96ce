"""Designs of the user's own beside ours: PEs, formats, Roof-Surface, and a language model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.sim.roofsurface import Diagram
from tilewright.studies.own_designs import SERVER, TECHNOLOGY, read_designs
from tilewright.studies.pe.format_accuracy import compare_formats

TITLE = "Your designs"
POSITION = 8
MODEL = "llama-3.2-1b"
ROWS = 16  # of the Roof-Surface
COMMAND = "tilewright report --with mine.toml --with my_format.py:Mine --with my_pe.json"
PE_COLUMNS = {
    "name": "PE",
    "macs_per_cycle": "MAC/cycle",
    "area_um2": "Area, µm²",
    "delay_ps": "Delay, ps",
    "energy_fj_per_mac": "fJ/MAC",
    "tops_per_mm2": "TOPS/mm²",
    "tops_per_watt": "TOPS/W",
}


def build(context: Context) -> Page:
    own = read_designs(context.own)
    given = (*own.accelerators, *own.formats, *(row["spec"] for row in own.pes))
    about = paragraph(
        "An accelerator as a TOML file, a format as a Python class and a PE as Verilog stand in the"
        " tables of ours when they are named to",
        code(COMMAND),
    )
    if not given:
        nothing = section("No design was given", about)
        return Page(summary="No design was named to this report.", body=nothing, data={})
    sections: list[Markup] = []
    data: dict[str, Any] = {}
    if own.pes:
        data["pes"] = own.pe_rows()
        sections.append(_pes(data["pes"]))
    if own.formats:
        formats = compare_formats(own.formats)
        data["formats"] = [asdict(row) for row in formats]
        sections.append(_formats(data["formats"]))
    surface = own.surface(ROWS)
    data["surface"] = asdict(surface)
    sections.append(_surface(surface))
    answers = own.answers(MODEL)
    data["answers"] = [asdict(row) for row in answers]
    sections.append(_answers(data["answers"]))
    return Page(
        summary=f"{len(given)} designs that are not ours, beside ours: PEs, formats, accelerators.",
        body=join([about, *sections]),
        data={"given": given, **data},
    )


def _pes(rows: Sequence[Mapping[str, Any]]) -> Markup:
    return section(
        "Processing elements",
        paragraph(
            f"In {TECHNOLOGY} at one clock, by one flow, on operands of a real model. What a PE of"
            " yours computes is not checked."
        ),
        table(
            tuple(PE_COLUMNS.values()), [tuple(row[name] for name in PE_COLUMNS) for row in rows]
        ),
        note("Source:", code("tilewright compare pe --tech asap7 --with FILE.v ...")),
    )


def _formats(rows: Sequence[Mapping[str, Any]]) -> Markup:
    head = ("Format", "Bits a value", "Activations, dB", "Weights, dB", "Error of dots, %")
    return section(
        "Formats",
        table(head, [tuple(row.values()) for row in rows]),
        note("Source:", code("tilewright compare format --with FILE.py:CLASS")),
    )


def _surface(found: Diagram) -> Markup:
    kernels = [
        (k.scheme, k.tera_fma_per_second, k.roofline_tera_fma_per_second, k.bound)
        for k in found.kernels
    ]
    arrays = [
        (a.system, a.tera_fma_per_second, a.roofline_tera_fma_per_second, a.bound)
        for a in found.accelerators
    ]
    head = ("TFMA/s", "Roofline", "Bound")
    return section(
        "Roof-Surface",
        paragraph(f"Large products with {ROWS} rows: on the cores of {SERVER}, by weight format,"),
        table(("Scheme", *head), kernels),
        paragraph("and on accelerators, whose PEs take weights as they are stored:"),
        table(("Accelerator", *head), arrays),
        note("Source:", code("tilewright roofsurface --scheme FILE.py:CLASS --with FILE.toml")),
    )


def _answers(rows: Sequence[Mapping[str, Any]]) -> Markup:
    columns = (
        *("system", "engine", "scheme", "latency_ms", "kind", "formula_ms", "tokens_per_second"),
        *("joules_per_token", "tokens_per_second_per_mm2", "bound"),
    )
    head = (
        *("System", "Engine", "Scheme", "ms", "Kind", "Formula, ms", "Tokens/s"),
        *("J/token", "Tokens/s/mm²", "Bound"),
    )
    return section(
        "A language model",
        paragraph(
            f"A token of {MODEL} at a context of 1024. Accelerators that have programs take their"
            " cycles; beside them is the formula, which is all that others have."
        ),
        table(
            head,
            [tuple("" if row[name] is None else row[name] for name in columns) for row in rows],
        ),
        note("Source:", code(f"tilewright compare llm {MODEL} --with FILE.toml")),
    )
