"""Our exports are read by the tools that they are for, where those are installed (`nox -s peers`).

LLMServingSim is no package: ``LLMSERVINGSIM`` is the folder of a checkout of it.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.target import resolve_target
from tilewright.studies.exports import serving_sim_files

pytestmark = pytest.mark.full


def written(files, folder):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("system", "name", "sequences", "chosen"),
    [
        ("spr-hbm", "llama-3.1-8b", 16, 0),
        ("harmonia", "llama-3.1-8b", 16, 0),
        # One token chooses as many experts as a token does: nothing is expected on average.
        ("spr-hbm", "mixtral-8x7b", 1, 2),
        ("harmonia", "qwen3-30b-a3b", 1, 8),
    ],
)
def test_llmservingsim_adds_up_to_our_step(system, name, sequences, chosen, tmp_path, monkeypatch):
    """Layers, head and attention as its trace looks them up, for sequences of 1024 tokens."""
    checkout = os.environ.get("LLMSERVINGSIM")
    if not checkout:
        pytest.skip("LLMSERVINGSIM names no checkout of LLMServingSim 2")
    shutil.copytree(Path(checkout) / "profiler" / "models", tmp_path / "profiler" / "models")
    (tmp_path / "serving").mkdir()
    model = resolve_model(name)
    written(serving_sim_files(resolve_target(system), model), tmp_path / "profiler" / "perf")
    monkeypatch.setattr(sys, "path", [checkout, *sys.path])
    monkeypatch.chdir(tmp_path / "serving")  # from where it looks for profiles
    from serving.core import trace_generator as trace

    data = trace._load_perf_db(system, model.name, "bf16", {1}, model.model_type)

    def time(layer):
        kind = trace._layer_category(data, layer)
        if kind == "attention":
            return trace._lookup_attention(data, 1, 0, 0, sequences, 1024)
        if kind == "moe":
            return trace._lookup_moe(data, sequences, chosen)
        look = trace._lookup_per_sequence if kind == "per_sequence" else trace._lookup_dense
        return look(data, layer, 1, sequences)

    order = data["architecture"]["sequence"]
    parts = ("pre_attn", "post_attn", "mlp_moe" if chosen else "mlp_dense")
    layer = sum(time(n) for part in parts for n in order[part])
    once = sum(time(n) for part in ("prologue", "head") for n in order[part])
    ours = answer(model, system, batch=sequences).latency_ms
    assert (model.num_hidden_layers * layer + once) / 1e6 == pytest.approx(ours, rel=1e-4)
