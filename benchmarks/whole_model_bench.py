"""The performance model beside whole models that were measured, and beside a plain roofline.

    python -m benchmarks.whole_model_bench [--json] [--genz PYTHON]

Llama 3 8B decodes on the processor of ``tilewright/kernels/records/models``, whose bandwidth and
matrix rate are those of the kernels' record. The roofline is that of GenZ and LLM-Viewer on the
same inputs: each product takes the longer of its bytes and its multiply-adds, and nothing else
counts. Nothing of the model was fitted to these measurements. ``--genz`` asks GenZ itself, with a
Python that has it (``pip install genz-llm``), for the formats that it knows; LLM-Viewer is not a
package.
"""

import argparse
import json
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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
GENZ_BITS = {"stock bf16": "bf16", "dense int8": "int8", "dense mxfp4": "int4"}  # without scales
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
    genz_ms: float | None = None  # where it was asked, and has the format


def with_genz(found: list[Row], python: str) -> list[Row]:
    """Return the rows with what GenZ says on the same rate and bandwidth."""
    roofs = record()["roofs"]
    peer = str(Path(__file__).with_name("genz_peer.py"))
    flops = 2 * roofs["matrix"] * TILE_MACS

    def ask(row: Row) -> Row:
        bits = GENZ_BITS.get(row.model)
        if bits is None:
            return row
        words = (bits, row.batch, CONTEXT, flops, roofs["read_bytes"])
        command = [python, "-W", "ignore", peer, *map(str, words)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return replace(row, genz_ms=float(printed.split()[-1]))

    return [ask(row) for row in found]


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
    parser.add_argument("--genz", metavar="PYTHON", help="a Python that has GenZ, to ask it too")
    args = parser.parse_args()
    found = rows() if args.genz is None else with_genz(rows(), args.genz)
    if args.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
        return
    print_table(
        ("MODEL", "BATCH", "MEASURED MS", "OURS MS", "%", "ROOFLINE MS", "%", "GENZ MS"),
        [
            (
                row.model,
                row.batch,
                f"{row.measured_ms:.1f}",
                f"{row.ours_ms:.1f}",
                f"{row.ours_percent:+.0f}",
                f"{row.roofline_ms:.1f}",
                f"{row.roofline_percent:+.0f}",
                "-" if row.genz_ms is None else f"{row.genz_ms:.1f}",
            )
            for row in found
        ],
    )


if __name__ == "__main__":
    main()
