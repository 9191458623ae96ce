"""The performance model beside whole models that were measured, beside rooflines and other tools.

    python -m benchmarks.whole_model_bench [--json] [--genz PYTHON] [--llm-viewer FOLDER]

The rows are those of :mod:`tilewright.sim.whole_models`. ``--genz`` asks GenZ itself, with a Python
that has it (``pip install genz-llm``), for the formats that it knows; ``--llm-viewer`` asks
LLM-Viewer itself, of which FOLDER is a checkout.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
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


def ask_genz(row: MeasuredModel, python: str) -> float | None:
    """Return what GenZ says on the same rate and bandwidth, where it has the format."""
    bits = GENZ_BITS.get(row.model)
    return None if bits is None else _ask(python, "genz_peer", row, bits)


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
    found = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | ({"PYTHONPATH": path} if path else {}),
    )
    return float(found.stdout.split()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--genz", metavar="PYTHON", help="a Python that has GenZ, to ask it too")
    parser.add_argument("--llm-viewer", metavar="FOLDER", help="a checkout of it, to ask it too")
    args = parser.parse_args()
    found, asked = measured_models(), dict[str, list[float | None]]()
    if args.genz is not None:
        asked["genz"] = [ask_genz(row, args.genz) for row in found]
    if args.llm_viewer is not None:
        asked["llm_viewer"] = [ask_viewer(row, args.llm_viewer) for row in found]
    if args.json:
        rows = [
            asdict(row) | {f"{name}_ms": values[k] for name, values in asked.items()}
            for k, row in enumerate(found)
        ]
        print(json.dumps(rows, indent=2))
        return
    header = ("MODEL", "BATCH", "MEASURED MS", "OURS MS", "%", "ROOFLINE MS", "%")
    formula = ("LLM-VIEWER'S FORMULA MS", "%")
    print_table(
        (*header, *formula, *(f"{name.upper()} MS" for name in asked)),
        [
            (
                row.model,
                row.batch,
                f"{row.measured_ms:.1f}",
                *(
                    text
                    for ms in (row.ours_ms, row.roofline_ms, row.viewer_ms)
                    for text in (f"{ms:.1f}", f"{row.percent(ms):+.0f}")
                ),
                *("-" if v[k] is None else f"{v[k]:.1f}" for v in asked.values()),
            )
            for k, row in enumerate(found)
        ],
    )


if __name__ == "__main__":
    main()
