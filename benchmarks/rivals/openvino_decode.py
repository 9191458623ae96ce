"""Milliseconds a token of a GGUF model under OpenVINO's CPU plugin.

python openvino_decode.py MODEL BATCH TOKENS. Needs openvino with its GGUF frontend.
"""

import statistics
import sys
from time import perf_counter

import numpy as np
import openvino as ov


def main(path: str, batch: int, tokens: int) -> None:
    """Load, warm up, and time tokens one by one."""
    core = ov.Core()
    model = core.read_model(path)
    names = {port.get_any_name() for port in model.inputs}
    print("inputs", sorted(names), file=sys.stderr)
    compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    times = []
    for i in range(tokens + 3):
        feed: dict[str, np.ndarray] = {
            "input_ids": np.full((batch, 1), 1 + i, np.int64),
            "attention_mask": np.ones((batch, i + 1), np.int64),
            "position_ids": np.full((batch, 1), i, np.int64),
            "beam_idx": np.arange(batch, dtype=np.int32),
        }
        start = perf_counter()
        request.infer({name: value for name, value in feed.items() if name in names})
        if i >= 3:
            times.append(1e3 * (perf_counter() - start))
    print(f"{statistics.median(times):.3f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
