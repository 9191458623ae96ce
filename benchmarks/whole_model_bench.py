"""GenZ and LLM-Viewer themselves on the whole models that were measured.

    python -m benchmarks.whole_model_bench [--genz PYTHON] [--llm-viewer FOLDER]

The rows are those of :mod:`tilewright.sim.whole_models`, whose own predictions are on the report's
page *Explore*. PYTHON has GenZ (``pip install genz-llm``), which knows some of the formats; FOLDER
is a checkout of LLM-Viewer.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tilewright.base.console import print_table
from tilewright.sim.measured import record
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.whole_models import (
    CONTEXT,
    MODEL,
    SCHEMES,
    TILE_MACS,
    MeasuredModel,
    measured_models,
)

GENZ_BITS = {"stock bf16": "bf16", "dense int8": "int8", "dense mxfp4": "int4"}  # without scales
SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "vocab_size"),
)


def ask_viewer(row: MeasuredModel, folder: str) -> float:
    """Return what LLM-Viewer says on the same rate and bandwidth."""
    bits = 8 * resolve_weight_scheme(SCHEMES[row.model]).bytes_of(1)
    shape = json.dumps({name: getattr(MODEL, name) for name in SHAPE})
    return _ask(sys.executable, "llm_viewer_peer", row, str(bits), shape, path=folder)


def _ask(
    python: str, peer: str, row: MeasuredModel, bits: str, *words: str, path: str = ""
) -> float:
    roofs = record()["roofs"]
    rate, bandwidth = 2 * roofs["matrix"] * TILE_MACS, roofs["read_bytes"]
    numbers = (bits, row.batch, CONTEXT, rate, bandwidth)
    file = str(Path(__file__).with_name(f"{peer}.py"))
    command = [python, "-W", "ignore", file, *map(str, numbers), *words]
    environment = os.environ | ({"PYTHONPATH": path} if path else {})
    return float(subprocess.check_output(command, text=True, env=environment).split()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--genz", metavar="PYTHON", help="a Python that has GenZ")
    parser.add_argument("--llm-viewer", metavar="FOLDER", help="a checkout of it")
    args = parser.parse_args()
    rows = []
    for row in measured_models():
        cells = [row.model, str(row.batch), f"{row.measured_ms:.1f}"]
        if args.genz is not None:
            bits = GENZ_BITS.get(row.model)
            cells.append(f"{_ask(args.genz, 'genz_peer', row, bits):.1f}" if bits else "-")
        if args.llm_viewer is not None:
            cells.append(f"{ask_viewer(row, args.llm_viewer):.1f}")
        rows.append(cells)
    asked = [n for n, given in (("GENZ", args.genz), ("LLM-VIEWER", args.llm_viewer)) if given]
    print_table(("MODEL", "BATCH", "MEASURED MS", *(f"{name} MS" for name in asked)), rows)


if __name__ == "__main__":
    main()
