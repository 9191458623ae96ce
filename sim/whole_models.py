"""The performance model compared with measured whole models and with a plain roofline.

Llama 3 8B decodes on the processor of ``tilewright/kernels/records/models``, whose bandwidth and
matrix rate are those of the kernels' record. The roofline is that of each product: the longer of
its bytes and its multiply-adds, and nothing else counts. Nothing of the model was fitted to these
measurements.
"""

from dataclasses import dataclass

from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.records import model_seconds, record
from tilewright.sim.scheme import KV_FORMATS, cache_bytes, resolve_weight_scheme
from tilewright.sim.target import resolve_target
from tilewright.sim.workload import Batch, head, linear

MODEL = resolve_model("llama-3-8b")
# Schemes of the record, and ours with as many bits; int8 has as many as bf8.
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


@dataclass(frozen=True)
class MeasuredModel:
    """One measured step, with the model's and a roofline's predictions."""

    model: str
    batch: int
    measured_ms: float
    ours_ms: float
    roofline_ms: float

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
    target = resolve_target("emr", engine="software", settings=settings)
    found = []
    for name, scheme in SCHEMES.items():
        for batch in BATCHES:
            ours = answer(MODEL, target, scheme=scheme, batch=batch, context=CONTEXT).latency_ms
            roofline = 1e3 * _roofline(scheme, batch, roofs["read_bytes"], roofs["matrix"])
            measured = 1e3 * model_seconds(name, batch)
            found.append(MeasuredModel(name, batch, measured, ours, roofline))
    return found


def _roofline(scheme: str, batch: int, bandwidth: float, matrix: float) -> float:
    weights = resolve_weight_scheme(scheme)
    last = head(MODEL, batch)
    total = cache_bytes(MODEL, Batch(((batch, CONTEXT),)), KV_FORMATS["bf16"]) / bandwidth
    for product in (*linear(MODEL, batch), last):
        size = product.matrix * 2 if product is last else weights.bytes_of(product.matrix)
        total += max(size / bandwidth, product.macs / (matrix * TILE_MACS))
    return total
