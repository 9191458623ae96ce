"""GenZ itself on the whole models that were measured.

    python -m benchmarks.whole_model_bench PYTHON

The rows are those of :mod:`tilewright.sim.whole_models`, whose own predictions are on the report's
page *Explore*. PYTHON has GenZ (``pip install genz-llm``), which knows some of the formats.
"""

import subprocess
import sys
from pathlib import Path

from tilewright.base.console import print_table
from tilewright.sim.measured import record
from tilewright.sim.whole_models import CONTEXT, TILE_MACS, MeasuredModel, measured_models

BITS = {"stock bf16": "bf16", "dense int8": "int8", "dense mxfp4": "int4"}  # without scales


def ask_genz(python: str, row: MeasuredModel) -> float:
    """Return the milliseconds that GenZ gives at the measured rate and bandwidth."""
    roofs = record()["roofs"]
    rate, bandwidth = 2 * roofs["matrix"] * TILE_MACS, roofs["read_bytes"]
    numbers = (BITS[row.model], row.batch, CONTEXT, rate, bandwidth)
    file = str(Path(__file__).with_name("genz_peer.py"))
    command = [python, "-W", "ignore", file, *map(str, numbers)]
    return float(subprocess.check_output(command, text=True).split()[-1])


if __name__ == "__main__":
    (python,) = sys.argv[1:]
    print_table(
        ("MODEL", "BATCH", "MEASURED MS", "GENZ MS"),
        [
            (row.model, row.batch, f"{row.measured_ms:.1f}", f"{ask_genz(python, row):.1f}")
            for row in measured_models()
            if row.model in BITS
        ],
    )
