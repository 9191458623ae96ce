"""The performance model compared with measured whole models and with a plain roofline.

Llama 3 8B decodes on the processor of ``tilewright/kernels/records/models``. The machine is that of
the record of single layers: cores, clock, bandwidth, the share of it that a kernel draws, and what
it takes to decompress. Small kernels take what they take in one token of PyTorch and in one of one
packed model; nothing else of whole models is used. The roofline is that of each product: the longer
of its bytes and its multiply-adds, and nothing else counts.
"""

from dataclasses import dataclass

from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.records import layer_rate, model_seconds, record, small_kernels_us
from tilewright.sim.scheme import KV_FORMATS, cache_bytes, resolve_weight_scheme
from tilewright.sim.target import Target, resolve_target
from tilewright.sim.workload import Batch, head, linear

MODEL = resolve_model("llama-3-8b")
# Schemes of the record: ours with as many bits, the engine, and the measured kernel that draws its
# bytes alike. int8 has as many bits as bf8, and nothing to look up.
SCHEMES = {
    "stock bf16": ("bf16", "software", "stock bf16"),
    "sparse bf16": ("bf16_50%", "look-up", "sparse bf16"),
    "sparse int8": ("bf8_50%", "optimal", "sparse int8"),
    "dense int8": ("bf8", "optimal", "dense int8"),
    "sparse bf8": ("bf8_50%", "look-up", "sparse bf16"),
    "dense mxfp4": ("mxfp4", "look-up", "sparse bf16"),
    "sparse mxfp4": ("mxfp4_50%", "look-up", "sparse bf16"),
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
    """Return every step of the record."""
    roofs, found = record()["roofs"], []
    for name, (scheme, engine, kernel) in SCHEMES.items():
        target = _machine(engine, kernel, name if name.startswith("stock") else "sparse bf16")
        for batch in BATCHES:
            ours = answer(MODEL, target, scheme=scheme, batch=batch, context=CONTEXT).latency_ms
            roofline = 1e3 * _roofline(scheme, batch, roofs["read_bytes"], roofs["matrix"])
            measured = 1e3 * model_seconds(name, batch)
            found.append(MeasuredModel(name, batch, measured, ours, roofline))
    return found


def _machine(engine: str, kernel: str, profiled: str) -> Target:
    roofs = record()["roofs"]
    cores = roofs["threads"] // 2  # two threads a core
    settings = {
        "cores": str(cores),
        "clock": f"{roofs['matrix'] * TILE_CYCLES / cores:.0f}Hz",
        "bandwidth": f"{roofs['read_bytes']:.0f}B/s",
        "core_bandwidth": f"{roofs['read_bytes'] / cores:.0f}B/s",
        "stream": f"{layer_rate(kernel) / roofs['read_bytes']:.4f}",
        "layer_time": f"{small_kernels_us(profiled, MODEL.num_hidden_layers):.1f}us",
    }
    return resolve_target("emr", engine=engine, settings=settings)


def _roofline(scheme: str, batch: int, bandwidth: float, matrix: float) -> float:
    weights = resolve_weight_scheme(scheme)
    last = head(MODEL, batch)
    total = cache_bytes(MODEL, Batch(((batch, CONTEXT),)), KV_FORMATS["bf16"]) / bandwidth
    for product in (*linear(MODEL, batch), last):
        size = product.matrix * 2 if product is last else weights.bytes_of(product.matrix)
        total += max(size / bandwidth, product.macs / (matrix * TILE_MACS))
    return total
