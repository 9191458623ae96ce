"""A model on a server with and without a DECA, with sliders for what matters most."""

from collections.abc import Sequence
from dataclasses import asdict

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.sliders import slider_section
from tilewright.sim.llm import LlmResult
from tilewright.sim.serving import Question
from tilewright.sim.sweep import sweep
from tilewright.sim.whole_models import MeasuredModel, measured_models

TITLE = "Explore"
POSITION = 7

MODEL, SYSTEM = "llama-3.1-8b", "spr-hbm"
DENSITIES = {"100%": "bf8", "50%": "bf8_50%", "20%": "bf8_20%", "5%": "bf8_5%"}
BANDWIDTHS = ("260GB/s", "850GB/s", "1700GB/s")
CONTEXTS = (128, 1024, 8192, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ENGINES = {"software": "software", "deca": "a DECA beside every core"}
COLUMNS = ("ms a step", "tokens/s", "J/token", "bound by", "GB")


def build(context: Context) -> Page:
    axes: dict[str, tuple[int | str, ...]] = {
        "density": tuple(DENSITIES),
        "bandwidth": BANDWIDTHS,
        "context": CONTEXTS,
        "batch": BATCHES,
    }
    asked = {
        "scheme": tuple(DENSITIES.values()),
        **{k: v for k, v in axes.items() if k != "density"},
    }
    points = [
        [
            _row(found)
            for found in sweep(Question(model=MODEL, system=SYSTEM, engine=engine), asked)
            if isinstance(found, LlmResult)
        ]
        for engine in context.track("engines", ENGINES)
    ]
    body = section(
        "A token of every sequence",
        paragraph(
            code(MODEL),
            "with weights of 8 bits, of which a share is not zero, on",
            code(SYSTEM),
            "with the bandwidth that you choose. Every figure was computed when this page was"
            " built; sliders move between these points.",
        ),
        slider_section(
            axes,
            list(ENGINES.values()),
            COLUMNS,
            points,
            along="batch",
            drawn=COLUMNS.index("tokens/s"),
        ),
        note(
            "Source:",
            code(
                f"tilewright llm {MODEL} --system {SYSTEM} --scheme bf8_20% --sweep batch=1..256*2"
            ),
            "and the like; what the model rests on is said there.",
        ),
    )
    measured = measured_models()
    return Page(
        summary=f"Sliders for batch, context, bandwidth, density: {MODEL} with a DECA and without.",
        body=join([body, _measured(measured)]),
        data={
            "axes": axes,
            "columns": COLUMNS,
            "points": dict(zip(ENGINES, points, strict=True)),
            "measured": [asdict(row) for row in measured],
        },
    )


def _measured(found: Sequence[MeasuredModel]) -> Markup:
    """Steps that were measured, and what is predicted for them."""
    rows = [
        (
            row.model,
            row.batch,
            f"{row.measured_ms:.1f}",
            *(f"{ms:.1f} ({row.percent(ms):+.0f}%)" for ms in (row.ours_ms, row.roofline_ms)),
        )
        for row in found
    ]
    return section(
        "Beside what was measured",
        paragraph(
            "Llama 3 8B decodes on a processor with AMX: milliseconds of a step, measured, and as"
            " predicted by this model and by a roofline of its products."
            " Nothing was fitted to these steps. Stock bf16 is PyTorch's own, the others are our"
            " kernels, of which that of mxfp4 decodes by look-up, unlike the papers' software.",
        ),
        table(("model", "batch", "measured", "predicted", "roofline"), rows),
        note("Source:", code("tilewright/kernels/records"), "and docs/model.md."),
    )


def _row(found: LlmResult) -> list[float | str]:
    memory = found.memory_bytes
    return [
        round(found.latency_ms, 2),
        round(found.tokens_per_second, 1),
        round(found.joules_per_token, 3),
        found.bound,
        round((memory.weights + memory.cache) / 1e9, 2),
    ]
