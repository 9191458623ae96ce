"""The performance model beside whole models that were measured, and beside plain rooflines.

Llama 3 8B decodes on the processor of ``tilewright/kernels/records/models``, whose bandwidth and
matrix rate are those of the kernels' record. The roofline is that of each product: the longer of
its bytes and its multiply-adds, and nothing else counts. That of LLM-Viewer, which is no package,
is here in a form of our own (``viewer_seconds``). Nothing of the model was fitted to these
measurements.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.golden.params.llm import LlmShape
from tilewright.sim.kv_format import KV_FORMATS, cache_bytes
from tilewright.sim.llm import answer
from tilewright.sim.measured import model_seconds, record
from tilewright.sim.models import resolve_model
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.workload import Batch, head, linear

__all__ = ["CONTEXT", "MODEL", "SCHEMES", "TILE_MACS", "MeasuredModel", "measured_models"]
__all__ += ["viewer_seconds"]

MODEL = resolve_model("llama-3-8b")
# Of the record, and the scheme of ours with as many bits; int8 has as many as bf8.
SCHEMES = {
    "stock bf16": "bf16",
    "sparse bf16": "bf16_50%",
    "dense int8": "bf8",
    "sparse bf8": "bf8_50%",
    "dense mxfp4": "mxfp4",
}
BATCHES = (1, 16, 32)
CONTEXT = 128  # of the record
TILE_CYCLES, TILE_MACS = 16, 16 * 16 * 32
ACTIVATION = 2  # bytes, of LLM-Viewer's fp16


@dataclass(frozen=True, kw_only=True)
class MeasuredModel:
    """One measured step, and what the model and two rooflines say of it."""

    model: str
    batch: int
    measured_ms: float
    ours_ms: float
    roofline_ms: float
    viewer_ms: float  # LLM-Viewer's formula

    def percent(self, predicted_ms: float) -> float:
        """Return how far a prediction is off."""
        return 100 * (predicted_ms / self.measured_ms - 1)


def measured_models() -> list[MeasuredModel]:
    """Return every step of the record that a scheme of ours describes."""
    roofs = record()["roofs"]
    cores = roofs["threads"] // 2  # two threads a core
    clock = roofs["matrix"] * TILE_CYCLES / cores
    settings = {
        "cores": str(cores),
        "clock": f"{clock:.0f}Hz",
        "bandwidth": f"{roofs['read_bytes']:.0f}B/s",
        "stream": "1",
    }
    found = []
    for name, scheme in SCHEMES.items():
        weights = resolve_weight_scheme(scheme)
        for batch in BATCHES:
            ours = answer(
                MODEL,
                "emr",
                engine="software",
                scheme=scheme,
                settings=settings,
                batch=batch,
                context=CONTEXT,
            )
            roofline = _roofline(scheme, batch, roofs["read_bytes"], roofs["matrix"])
            viewer = viewer_seconds(
                MODEL,
                weight_bytes=weights.bytes_of(1),
                batch=batch,
                context=CONTEXT,
                operations=2 * roofs["matrix"] * TILE_MACS,
                bandwidth=roofs["read_bytes"],
            )
            row = MeasuredModel(
                model=name,
                batch=batch,
                measured_ms=1e3 * model_seconds(name, batch),
                ours_ms=ours.latency_ms,
                roofline_ms=1e3 * roofline,
                viewer_ms=1e3 * viewer,
            )
            found.append(row)
    return found


def _roofline(scheme: str, batch: int, bandwidth: float, matrix: float) -> float:
    """Return the seconds of a step: for each product the longer of its bytes and its work."""
    weights = resolve_weight_scheme(scheme)
    last = head(MODEL, batch)
    total = cache_bytes(MODEL, Batch(((batch, CONTEXT),)), KV_FORMATS["bf16"].bits) / bandwidth
    for product in (*linear(MODEL, batch), last):
        size = product.matrix * 2 if product is last else weights.bytes_of(product.matrix)
        total += max(size / bandwidth, product.macs / (matrix * TILE_MACS))
    return total


def viewer_seconds(
    model: LlmShape,
    *,
    weight_bytes: float,
    batch: int,
    context: int,
    operations: float,
    bandwidth: float,
) -> float:
    """Return the seconds of a decoded token by LLM-Viewer's formula, for a model like Llama.

    Every kernel takes the longer of its operations and its bytes: weights, cache, and activations,
    which come from memory and go there. Softmax counts 5 operations a score, a norm 7 a channel.
    SiLU is that of as many channels as the model is wide, and the head has one operation a
    multiply-add: both as it has them.
    """

    def longer(kernel: tuple[float, float]) -> float:
        work, moved = kernel
        return max(work / operations, moved / bandwidth)

    layer = sum(map(longer, _viewer_layer(model, weight_bytes, batch, context)))
    inner, outer = model.hidden_size, model.vocab_size
    last = inner * outer * weight_bytes + (inner + outer) * ACTIVATION
    return model.num_hidden_layers * layer + longer((batch * inner * outer, last))


def _viewer_layer(
    model: LlmShape, weight_bytes: float, batch: int, context: int
) -> Iterator[tuple[float, float]]:
    """Operations and bytes of the kernels of a layer."""
    width = batch * model.hidden_size
    projections = (
        model.attention_projections | model.feed_forward(model.intermediate_size)
    ).values()
    for inner, outer in projections:
        moved = inner * outer * weight_bytes + batch * (inner + outer) * ACTIVATION
        yield 2 * batch * inner * outer, moved
    heads = batch * model.num_attention_heads
    cached = context * batch * model.kv_width * ACTIVATION
    beside = heads * (model.head_dim + context) * ACTIVATION
    for _ in ("scores", "values"):
        yield 2 * context * model.head_dim * heads, cached + beside
    yield 5 * heads * context, 2 * heads * context * ACTIVATION
    for work in (7, 7, 1, 1):  # norms and sums
        yield work * width, 2 * width * ACTIVATION
    yield 2 * width, 3 * width * ACTIVATION
