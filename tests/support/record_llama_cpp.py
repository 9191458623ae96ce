"""Records what llama.cpp makes of a model: tokens of a text, and its perplexity on them.

    python -m tests.support.record_llama_cpp MODEL.gguf tests/golden/llm/llama_cpp.json

Needs the package llama-cpp-python, which builds llama.cpp, and gguf. The engine is compared with
the record, so that nobody else needs them.

llama.cpp rounds activations to 8 bits where it multiplies them with quantised weights. So the
perplexity of the same weights in a file of float32 is recorded too, where it does not.
"""

import json
import sys
import tempfile
from hashlib import sha256
from math import exp
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np

from tilewright.golden.llm.text import default_text

WINDOW, WINDOWS = 512, 4
SAMPLES = (
    "Hello, world! It's 2024; we've 1,234 apples.",
    "  two spaces,\ttabs\n\n\nand  newlines \n at the end   ",
    "na\u00efve caf\u00e9 \u2014 \u4f60\u597d \U0001f600 \u0661\u0662\u0663 \u00bd \u2167",
    "def f(x):\n    return x**2  # x_1 >= 10\n",
    "<|im_start|>user\nI'LL don't'd<|im_end|>",
    "",
)


def open_model(path: Path) -> llama_cpp.Llama:
    return llama_cpp.Llama(
        str(path), n_ctx=WINDOW, n_batch=WINDOW, logits_all=True, n_threads=2, verbose=False
    )


def perplexities(model: llama_cpp.Llama, ids: list[int]) -> dict[str, Any]:
    losses = []
    for start in range(0, len(ids), WINDOW):
        piece = ids[start : start + WINDOW]
        model.reset()
        model.eval(piece)
        scores = np.array(model.scores[:WINDOW], np.float64)[:-1]
        wanted = scores[np.arange(WINDOW - 1), piece[1:]]
        losses.append(float((np.log(np.exp(scores).sum(axis=1)) - wanted).mean()))
    return {"perplexity": exp(sum(losses) / len(losses)), "windows": [exp(loss) for loss in losses]}


def write_float32(source: Path, target: Path) -> None:
    """The same model with every tensor as float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, *sub = field.types
        writer.add_key_value(name, field.contents(), kind, sub[-1] if sub else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def record(path: Path) -> dict[str, Any]:
    model = open_model(path)

    def tokens(text: str) -> list[int]:
        return model.tokenize(text.encode(), add_bos=False, special=False)

    ids = tokens(default_text())[: WINDOW * WINDOWS]
    with tempfile.TemporaryDirectory() as folder:
        wide = Path(folder) / "float32.gguf"
        write_float32(path, wide)
        return {
            "model": path.name,
            "sha256": sha256(path.read_bytes()).hexdigest(),
            "llama_cpp_python": llama_cpp.__version__,
            "window": WINDOW,
            "as_it_is": perplexities(model, ids),
            "as_float32": perplexities(open_model(wide), ids),
            "tokens": ids,
            "samples": [{"text": text, "tokens": tokens(text)} for text in SAMPLES],
        }


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(json.dumps(record(source)) + "\n")
