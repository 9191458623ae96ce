"""A model on a server with and without a DECA, with sliders for the main parameters."""

from functools import cache

from tilewright.base.table import Column, Table
from tilewright.sim.llm import LlmResult
from tilewright.sim.serving import Question
from tilewright.sim.sweep import sweep
from tilewright.sim.whole_models import MeasuredModel, measured_models
from tilewright.site.html import Markup
from tilewright.site.sliders import slider_section

__all__ = ["AXES", "COLUMNS", "grid", "measured", "sliders"]

MODEL, SYSTEM = "llama-3.1-8b", "spr-hbm"
DENSITIES = {"100%": "bf8", "50%": "bf8_50%", "20%": "bf8_20%", "5%": "bf8_5%"}
AXES: dict[str, tuple[int | str, ...]] = {
    "density": tuple(DENSITIES),
    "bandwidth": ("260GB/s", "850GB/s", "1700GB/s"),
    "context": (128, 1024, 8192, 32768),
    "batch": (1, 2, 4, 8, 16, 32, 64, 128, 256),
}
ENGINES = {"software": "software", "deca": "a DECA beside every core"}
COLUMNS = ("ms a step", "tokens/s", "J/token", "bound by", "GB")


@cache
def grid(engine: str) -> list[list[float | str]]:
    """A row of COLUMNS for every point of AXES, the last axis varying fastest."""
    asked: dict[str, tuple[int | str, ...]] = {"scheme": tuple(DENSITIES.values())}
    asked |= {name: values for name, values in AXES.items() if name != "density"}
    found = sweep(Question(model=MODEL, system=SYSTEM, engine=engine), asked)
    return [_row(result) for result in found if isinstance(result, LlmResult)]


def _row(found: LlmResult) -> list[float | str]:
    memory = found.memory_bytes
    return [
        round(found.latency_ms, 2),
        round(found.tokens_per_second, 1),
        round(found.joules_per_token, 3),
        found.bound,
        round((memory.weights + memory.cache) / 1e9, 2),
    ]


def sliders() -> Markup:
    """Both engines at the point that a reader chooses, and their curves by batch."""
    return slider_section(
        AXES,
        list(ENGINES.values()),
        COLUMNS,
        [grid(engine) for engine in ENGINES],
        along="batch",
        drawn=COLUMNS.index("tokens/s"),
    )


def measured() -> Table:
    """Steps of a model that were measured, and what is predicted for them."""
    columns: dict[str, Column] = {
        "Model": "model",
        "Batch": "batch",
        "Measured, ms": lambda row: round(row.measured_ms, 1),
        "Predicted, ms": lambda row: _predicted(row, row.ours_ms),
        "Roofline, ms": lambda row: _predicted(row, row.roofline_ms),
    }
    return Table.of(measured_models(), columns)


def _predicted(row: MeasuredModel, ms: float) -> str:
    return f"{ms:.1f} ({row.percent(ms):+.0f}%)"
