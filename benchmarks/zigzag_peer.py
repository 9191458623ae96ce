"""``python -m benchmarks.zigzag_peer MODEL TOKENS``: a prefill's distinct products on ZigZag.

Run by ``benchmarks.model_bench`` where ZigZag is installed, on the TPU-like machine and mapping
that come with it, in 8-bit integers, which is what that machine's registers hold.
"""

import logging
import sys
import tempfile
from pathlib import Path

import zigzag
from zigzag.api import get_hardware_performance_zigzag

from tilewright.sim.models import resolve_model
from tilewright.sim.workload import prefill

PRECISION = {"W": 8, "I": 8, "O": 16, "O_final": 8}
INPUTS = Path(zigzag.__file__).parent / "inputs"


def layers(model: str, tokens: int) -> list[dict]:
    shapes = {(p.rows, p.inner, p.outer): p.name for p in prefill(resolve_model(model), 1, tokens)}
    return [
        {
            "id": index,
            "name": name,
            "operator_type": "Gemm",
            "equation": "O[b][k]+=W[k][c]*I[b][c]",
            "dimension_relations": [],
            "loop_dims": ["B", "K", "C"],
            "loop_sizes": [rows, outer, inner],
            "operand_precision": PRECISION,
            "operand_source": {"I": index, "W": index},
        }
        for index, ((rows, inner, outer), name) in enumerate(shapes.items())
    ]


def main() -> None:
    model, tokens = sys.argv[1], int(sys.argv[2])
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        energy_pj, cycles, *_ = get_hardware_performance_zigzag(
            layers(model, tokens),
            str(INPUTS / "hardware" / "tpu_like.yaml"),
            str(INPUTS / "mapping" / "tpu_like.yaml"),
            opt="latency",
            dump_folder=folder,
            pickle_filename=f"{folder}/found.pickle",
            loma_show_progress_bar=False,
        )
    print(f"{cycles:.4g} cycles, {energy_pj:.4g} pJ")


if __name__ == "__main__":
    main()
