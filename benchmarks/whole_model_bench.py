"""The performance model beside whole models that were measured, and beside a plain roofline.

    python -m benchmarks.whole_model_bench [--json]

Llama 3 8B decodes on the processor of ``tilewright/kernels/records/models``, whose bandwidth and
matrix rate are those of the kernels' record. The roofline is that of GenZ and LLM-Viewer on the
same inputs: each product takes the longer of its bytes and its multiply-adds, and nothing else
counts. Nothing of the model was fitted to these measurements.
"""

import argparse
import json
from dataclasses import asdict, dataclass

from tilewright.base.console import print_table
from tilewright.sim.kv_format import KV_FORMATS, cache_bytes
from tilewright.sim.llm import answer
from tilewright.sim.measured import model_seconds, record
from tilewright.sim.models import resolve_model
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.workload import Batch, head, linear

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


@dataclass(frozen=True)
class Row:
    """One measured step, what the model says, and what a roofline says."""

    model: str
    batch: int
    measured_ms: float
    ours_ms: float
    ours_percent: float  # off
    roofline_ms: float
    roofline_percent: float


def rows() -> list[Row]:
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
        for batch in BATCHES:
            ours = answer(
                MODEL,
                "emr",
                engine="software",
                scheme=scheme,
                settings=settings,
                batch=batch,
                context=CONTEXT,
            ).latency_ms
            measured = 1e3 * model_seconds(name, batch)
            plain = 1e3 * roofline(scheme, batch, roofs["read_bytes"], roofs["matrix"])
            found.append(
                Row(
                    name,
                    batch,
                    measured,
                    ours,
                    100 * (ours / measured - 1),
                    plain,
                    100 * (plain / measured - 1),
                )
            )
    return found


def roofline(scheme: str, batch: int, bandwidth: float, matrix: float) -> float:
    """Return the seconds of a step: for each product the longer of its bytes and its work."""
    weights = resolve_weight_scheme(scheme)
    last = head(MODEL, batch)
    total = cache_bytes(MODEL, Batch(((batch, CONTEXT),)), KV_FORMATS["bf16"].bits) / bandwidth
    for product in (*linear(MODEL, batch), last):
        size = product.matrix * 2 if product is last else weights.bytes_of(product.matrix)
        total += max(size / bandwidth, product.macs / (matrix * TILE_MACS))
    return total


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    found = rows()
    if parser.parse_args().json:
        print(json.dumps([asdict(row) for row in found], indent=2))
        return
    print_table(
        ("MODEL", "BATCH", "MEASURED MS", "OURS MS", "%", "ROOFLINE MS", "%"),
        [
            (
                row.model,
                row.batch,
                f"{row.measured_ms:.1f}",
                f"{row.ours_ms:.1f}",
                f"{row.ours_percent:+.0f}",
                f"{row.roofline_ms:.1f}",
                f"{row.roofline_percent:+.0f}",
            )
            for row in found
        ],
    )


if __name__ == "__main__":
    main()
