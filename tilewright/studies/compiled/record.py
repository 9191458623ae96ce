"""Records of a real model on the hardware: text, cycles, energy, and what they are held against.

    python -m tilewright.studies.compiled.record [harmonia|anda] \
        [generation|cycles|agreement|rounding]...

makes the record of one accelerator, by default Harmonia, all of it or these sections; all of it
takes a quarter of an hour on two cores. The report and the documentation show what is in the
records, and need no weights.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import __version__
from tilewright.golden.anda_model.plan import MANTISSA
from tilewright.golden.anda_model.reference import Reference as AndaReference
from tilewright.golden.anda_model.same_rounding import SameRounding
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.harmonia_model.reference import Reference as HarmoniaReference
from tilewright.golden.llm.engine import logits as plain_logits
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.text import default_text
from tilewright.golden.params.block import require
from tilewright.golden.params.resolve import resolve
from tilewright.sim.models import resolve_model
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass
from tilewright.studies.compiled.compiling import Options, compile_model, compiled_folder
from tilewright.studies.compiled.counting import counted_prompt
from tilewright.studies.compiled.folder import open_folder
from tilewright.studies.compiled.generating import generate
from tilewright.studies.compiled.runner import Runner
from tilewright.studies.compiled.timing import Timing
from tilewright.studies.measured import load_measured, write_measured

__all__ = ["COMMAND", "CONTEXTS", "FAR", "NAMES", "SECTIONS", "perplexity", "predicted_cycles"]

NAMES = {"harmonia": "model_on_harmonia", "anda": "model_on_anda"}  # of records
COMMAND = "python -m tilewright.studies.compiled.record"
REFERENCES: dict[str, Any] = {"harmonia": HarmoniaReference, "anda": AndaReference}
PHASES = ("decode", "prefill")
MODEL, SHAPE = "smollm2", "smollm2-135m"
PROMPT = "The capital of France is"
TOKENS = 16  # of the text that is shown
CONTEXTS = (16, 64, 256, 1024)
LONGEST_RUN = {"harmonia": 1024, "anda": 64}  # tokens of a prompt that the golden machine runs
COMPARED = 64  # tokens that are compared with the engine's
SCORED = 512  # tokens of text whose perplexity is measured
SHOWN_LAYER = 15  # of the timeline
EXACT = 37  # tokens whose logits are compared in every bit: two steps of a prompt, and single ones
NUDGED = 8  # engines whose embeddings are moved by a last place, for the noise of perplexities
FAR = 100  # cycles of the memory in this record and in that of tokens on the RTL
Record = dict[str, Any]


def predicted_cycles(context: int, phase: str, on: str = "harmonia") -> int:
    """What ``tilewright llm`` answers for one sequence, with weights and head of 4 bits."""
    work = Pass(Batch(((1, context),)), None if phase == "prefill" else 1)
    lengths = dict.fromkeys(("qkv", "o", "u", "d"), MANTISSA) if on == "anda" else None
    params: Any = resolve(on)
    time = step_time(params, resolve_model(SHAPE), work, latency=FAR, lengths=lengths)
    return round(time.cycles)


def generation(on: str) -> Record:
    """A prompt and what follows it, with its cost, the layers of a step and one on the clock."""
    folder = open_folder(compiled_folder(MODEL, Options(target=on)), check=False)
    runner = Runner(folder, latency=FAR)
    timing = Timing(runner)
    prompt = [int(k) for k in folder.tokenizer.encode(PROMPT)] if folder.tokenizer else []
    done = generate(runner, prompt, TOKENS)
    kept = asdict(done)
    programs = [(run.kind, run.first, run.tokens, run.cycles) for run in done.programs]
    for name in ("prefill", "decode"):
        cost = getattr(done, name)
        kept[name] |= {"tokens_per_second": cost.tokens_per_second}
    return kept | {
        "text_of_prompt": PROMPT,
        "context": folder.plan.context,
        "weight_bits": folder.plan.weight_bits,
        "head_bits": folder.plan.head_bits,
        "programs": programs,
        "layers": [asdict(layer) for layer in timing.layers],
        "timeline": _one_layer(timing),
    }


def _one_layer(timing: Timing) -> Record:
    """What every unit does in one layer of the last step: number, unit, begin, end, opcode."""
    last = timing.last
    assert last is not None
    run, work = last
    runner = timing.runner
    parts = runner.system.layer_parts(runner.plan, runner.lines, run.first, run.tokens)
    begins = [w.begin for w in work if w.number == parts["projections"]]
    first, end = begins[SHOWN_LAYER], begins[SHOWN_LAYER + 1]
    return {
        "layer": SHOWN_LAYER,
        "token": run.first,
        "begin": first,
        "end": end,
        "work": [
            [w.number, int(w.unit), w.begin, w.end, int(w.instruction.opcode)]
            for w in work
            if first <= w.begin < end
        ],
    }


def cycles(on: str) -> Record:
    """Cycles of prompts and of single tokens, predicted and of a run, with weights of 4 bits.

    The golden machine runs the programs; those of a long prompt on Anda, whose values take it
    long, are counted without values, and their ``kind`` says so.
    """
    rows = []
    for context in CONTEXTS:
        options = Options(target=on, context=context, weight_bits=4, head_bits=4)
        with TemporaryDirectory() as name:
            folder = Path(name) / "model"
            compile_model(MODEL, folder, options)
            compiled = open_folder(folder, check=False)
            for phase in PHASES:
                kind = "run"
                if phase == "prefill" and context > LONGEST_RUN[on]:
                    found, kind = counted_prompt(compiled, context, FAR), "counted"
                else:
                    runner = Runner(compiled, latency=FAR)
                    if phase == "decode":  # no cycle depends on what the cache holds
                        runner.position = context - 1
                    runner.feed([1] if phase == "decode" else [1] * context)
                    found = sum(run.cycles for run in runner.runs)
                about = {"context": context, "phase": phase, "kind": kind}
                rows.append(
                    about | {"predicted": predicted_cycles(context, phase, on), "run": found}
                )
                print(rows[-1], flush=True)
    return {"latency": FAR, "weight_bits": 4, "head_bits": 4, "rows": rows}


def agreement(on: str) -> Record:
    """The machine beside the engine, which knows no machine: tokens, logits, perplexity."""
    model = load_model(MODEL)
    assert model.tokenizer is not None
    options = Options(target=on, context=SCORED + 16)
    folder, engine = open_folder(compiled_folder(MODEL, options), check=False), REFERENCES[on]
    quantised, _ = quantised_model(model, folder.plan, group=64)
    tokens = [int(k) for k in model.tokenizer.encode(PROMPT)]
    runner, reference = Runner(folder, latency=FAR), engine(folder.plan, quantised, len(tokens))
    equal, errors, ties = 0, [], []
    for place in range(COMPARED):
        got, want = runner.feed(tokens), reference.feed(tokens)[-1]
        errors.append(float(np.sqrt(np.mean((got - want) ** 2)) / want.std()))
        tokens = [int(want.argmax())]
        if runner.choice == tokens[0]:
            equal += 1
            continue
        other = int(runner.choice or 0)
        ties.append(
            {
                "place": place,
                "engine": [tokens[0], float(want[tokens[0]]), float(want[other])],
                "machine": [other, float(got[other]), float(got[tokens[0]])],
            }
        )
    text = [int(k) for k in model.tokenizer.encode(default_text()[:8000])[:SCORED]]
    scores = Runner(folder, latency=FAR).score(text)
    formats = {
        "full precision": plain_logits(model, text),
        "engine, 8 bits": engine(folder.plan, quantised, len(text)).feed(text),
    }
    if on == "harmonia":  # whose array takes groups of 32
        four = replace(folder.plan, weight_bits=4, head_bits=4)
        small, _ = quantised_model(model, four, group=32)
        formats["engine, 4 bits, a scale for 32"] = engine(four, small, len(text)).feed(text)
    found = {name: perplexity(values, text) for name, values in formats.items()}
    return {
        "tokens": COMPARED,
        "equal": equal,
        "near_ties": ties,
        "logit_error": {"least": min(errors), "most": max(errors)},
        "scored": SCORED,
        "perplexity": {"machine, 8 bits": perplexity(scores, text)} | found,
    }


def rounding(on: str) -> Record:
    """On Anda: an engine that rounds where the machine rounds, and what rounding alone does."""
    require(on == "anda", f"no engine rounds as {on} does: that section is Anda's")
    model = load_model(MODEL)
    assert model.tokenizer is not None
    folder = open_folder(compiled_folder(MODEL, Options(target=on)), check=False)
    quantised, head = quantised_model(model, folder.plan, group=64)
    text = [int(k) for k in model.tokenizer.encode(default_text()[:8000])[:SCORED]]
    exact = SameRounding(folder.plan, quantised, head).feed(text)
    scores = Runner(folder, latency=FAR).score(text[:EXACT])
    return {
        "compared": EXACT,
        "equal": int((scores == exact[:EXACT]).all(axis=1).sum()),
        "scored": SCORED,
        "perplexity": perplexity(exact, text),
        "nudged": [
            perplexity(AndaReference(folder.plan, _nudged(quantised, seed)).feed(text), text)
            for seed in range(NUDGED)
        ],
    }


def _nudged(model: Model, seed: int) -> Model:
    """The model with embeddings in fp16, each at random as it is, a place below or a place above.

    What its perplexity differs by is what rounding alone does: nothing is better or worse.
    """
    halves = model.embedding.astype(np.float16)
    places = np.random.default_rng(seed).integers(-1, 2, halves.shape, dtype=np.int16)
    moved = halves.view(np.int16) + places
    kept = (moved ^ halves.view(np.int16)) >= 0  # not across zero
    values = np.where(kept, moved.view(np.float16), halves)
    return replace(model, embedding=values.astype(np.float32))


def perplexity(logits: NDArray[np.float32], tokens: list[int]) -> float:
    """exp of the mean negative log likelihood of all tokens but the first."""
    scores = logits[:-1].astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    chosen = scores[np.arange(len(scores)), tokens[1:]]
    return float(np.exp(np.mean(np.log(np.exp(scores).sum(axis=1)) - chosen)))


SECTIONS: dict[str, Callable[[str], Record]] = {
    "generation": generation,
    "cycles": cycles,
    "agreement": agreement,
    "rounding": rounding,
}


def main(*words: str) -> None:
    """Make the sections that are named, or all, and keep the others."""
    on, *names = words if words and words[0] in NAMES else ("harmonia", *words)
    for name in names or SECTIONS:
        require(name in SECTIONS, f"a section is one of {', '.join(SECTIONS)}, not {name!r}")
    command = COMMAND if on == "harmonia" else f"{COMMAND} {on}"
    for name in names or [name for name in SECTIONS if name != "rounding" or on == "anda"]:
        section = SECTIONS[name](on)
        record = load_measured(NAMES[on]) or {}
        about = {"command": command, "tilewright": __version__, "model": MODEL}
        write_measured(NAMES[on], record | about | {name: section})


if __name__ == "__main__":
    main(*sys.argv[1:])
