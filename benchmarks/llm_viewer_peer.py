"""``python benchmarks/llm_viewer_peer.py BITS BATCH CONTEXT OPERATIONS BANDWIDTH SHAPE``.

The milliseconds of a decoded token that LLM-Viewer gives, of which a checkout is in PYTHONPATH, for
a model like Llama with the fields of SHAPE, on a system of so many operations and bytes a second.
Run by ``benchmarks.whole_model_bench``; nothing of Tilewright is needed.
"""

import contextlib
import io
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any


def without_transformers(shape: dict[str, int]) -> ModuleType:
    """Return a module in place of Transformers, which it asks for nothing but the shape."""
    found: Any = ModuleType("transformers")
    found.AutoConfig = SimpleNamespace(
        from_pretrained=lambda *words, **named: SimpleNamespace(**shape)
    )
    found.AutoTokenizer = found.AutoModelForCausalLM = None
    return found


def main() -> None:
    """Print the latency that LLM-Viewer gives."""
    bits, batch, context, rate, bandwidth, shape = sys.argv[1:]
    sys.modules["transformers"] = without_transformers(json.loads(shape))
    from hardwares.hardware_params import hardware_params
    from model_analyzer import ModelAnalyzer

    rates = dict.fromkeys(("FP16", "INT8"), float(rate))
    hardware_params["here"] = {"bandwidth": float(bandwidth), "onchip_buffer": 1e6, **rates}
    with contextlib.redirect_stdout(io.StringIO()):
        model = ModelAnalyzer("Llama", "here", config_file="configs/Llama.py")
        found = model.analyze(seqlen=int(context), batchsize=int(batch), w_bit=float(bits))
    print(1e3 * found["total_results"]["decode"]["inference_time"])


if __name__ == "__main__":
    main()
