"""Records of a real model on the hardware: text, cycles, energy, agreement with engines.

    python -m tilewright.studies.model_record [harmonia|anda] \
        [generation|cycles|agreement|rounding|larger]...

makes the record of one accelerator, by default Harmonia: all sections or those that are named. All
of SmolLM2 take a quarter of an hour on two cores; ``larger``, a model of 1.5 billion weights whose
layers exceed the chip, takes about as long and 10 GB of memory. The report and the documentation
show the records and need no weights.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import __version__
from tilewright.compiler.anda.machine import AndaMachine
from tilewright.compiler.compile import GROUP, Options, compile_model, compiled_folder
from tilewright.compiler.count import PARTS, program_time, prompt_steps
from tilewright.compiler.folder import ModelFolder, machine_for, open_folder
from tilewright.compiler.generate import Session
from tilewright.compiler.host import Runner
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import head_program, step_program
from tilewright.compiler.quantise import quantised_model
from tilewright.compiler.timing import LayerTime, Timing, work_by_layer
from tilewright.golden.anda_machine.reference import RoundedModel
from tilewright.golden.anda_machine.reference import reference as anda_reference
from tilewright.golden.harmonia_machine.reference import reference as harmonia_reference
from tilewright.golden.llm.engine import Session as EngineSession
from tilewright.golden.llm.engine import logits as plain_logits
from tilewright.golden.llm.engine import losses
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.text import default_text
from tilewright.golden.params.block import require
from tilewright.golden.weights import Weights
from tilewright.sim.models import resolve_model
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass
from tilewright.studies.accuracy.checkpoints import model_path
from tilewright.studies.measured import load_measured, write_measured
from tilewright.studies.rtl_token import FAR, MODEL
from tilewright.studies.sessions import accelerator_of, chat_tokens

NAMES = {"harmonia": "model_on_harmonia", "anda": "model_on_anda"}  # of records
COMMAND = "python -m tilewright.studies.model_record"
PHASES = ("decode", "prefill")
SHAPE = "smollm2-135m"
PROMPT = "The capital of France is"
QUESTION = "Why is the sky blue? Answer in one sentence."  # whose answer is shown
TOKENS = 24  # of the answer, which then ends with a sentence
CONTEXTS = (16, 64, 256, 1024)
LONGEST_RUN = {"harmonia": 1024, "anda": 64}  # tokens of a prompt that the golden machine runs
COMPARED = 64  # tokens that are compared with the engine's
SCORED = 512  # tokens of text whose perplexity is measured
SHOWN_LAYER = 15  # of the timeline
EXACT = 37  # tokens whose logits are compared in every bit
NUDGED = 8  # engines whose embeddings are moved by a last place, for the noise of perplexities
LARGER = "qwen2.5-coder-1.5b"
LARGER_SCORED = 128  # tokens of text
LARGER_TOKENS = 8  # that follow the prompt
_PART_OF = {operation: part for part, operations in PARTS.items() for operation in operations}
Record = dict[str, Any]


def predicted_cycles(context: int, phase: str, on: str = "harmonia") -> int:
    """The prediction of ``tilewright llm`` for one sequence, weights and head of 4 bits."""
    work = Pass(Batch(((1, context),)), None if phase == "prefill" else 1)
    machine = machine_for(on)
    lengths = machine.about().get("mantissas")
    time = step_time(
        machine.params, resolve_model(SHAPE), work, latency=FAR, lengths=lengths, every_step=True
    )
    return round(time.cycles)


def generation(on: str) -> Record:
    """The answer of ``tilewright run --chat``, its costs, and one layer on the clock."""
    folder = _compiled(MODEL, Options(target=on))
    runner = Runner(folder)
    encode = partial(chat_tokens, folder.chat, folder.tokenizer)
    session = Session(runner, QUESTION, accelerator_of(runner.machine), encode=encode)
    timing = session.timing()
    (done,) = session.generate(TOKENS, ends=folder.chat.ends)
    section = asdict(done)
    for name in ("prefill", "decode"):
        section[name] |= {"tokens_per_second": getattr(done, name).tokens_per_second}
    return section | {
        "text_of_prompt": QUESTION,
        "context": folder.plan.context,
        "weight_bits": folder.plan.weight_bits,
        "head_bits": folder.plan.head_bits,
        "programs": [(run.kind, run.first, run.tokens, run.cycles) for run in done.programs],
        "layers": [_by_part(layer) for layer in timing.layers],
        "timeline": _one_layer(timing),
    }


def _compiled(model: str, options: Options) -> ModelFolder:
    return open_folder(compiled_folder(model, options), check=False)


def _by_part(time: LayerTime) -> Record:
    found = {part: 0 for part in PARTS if part != "head"}
    for operation, count in time.by_part.items():
        found[_PART_OF.get(operation, "projections")] += count
    return {"layer": time.layer, "cycles": time.cycles, "by_part": found}


def _one_layer(timing: Timing) -> Record:
    """The work of every unit during one layer: number, unit, begin, end, opcode."""
    assert timing.last is not None
    run, program = timing.last
    work = timing.work(program)
    layers = work_by_layer(program, work)[SHOWN_LAYER:]
    first, end = (min(w.begin for w in own) for own in layers[:2])
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

    The golden machine runs the programs, except those of long prompts on Anda: their cycles are
    counted without values, and their ``kind`` says so.
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
                    found, kind = _counted_prompt(compiled, context), "counted"
                else:
                    runner = Runner(compiled, latency=FAR)
                    if phase == "decode":  # no cycle depends on the content of the cache
                        runner.positions[0] = context - 1
                    runner.feed([0] if phase == "decode" else [0] * context)
                    found = sum(run.cycles for run in runner.runs)
                about = {"context": context, "phase": phase, "kind": kind}
                rows.append(
                    about | {"predicted": predicted_cycles(context, phase, on), "run": found}
                )
                print(rows[-1], flush=True)
    return {"latency": FAR, "weight_bits": 4, "head_bits": 4, "rows": rows}


def _counted_prompt(folder: ModelFolder, tokens: int) -> int:
    lines, machine = folder.lines, folder.plan.machine
    steps = prompt_steps(folder.plan, tokens)
    tile = len(machine.tiles(steps[-1])) - 1
    programs = (step_program(lines, step, latency=FAR) for step in steps)
    head = head_program(lines, tile, latency=FAR)
    return sum(program_time(machine, program, FAR).cycles for program in (*programs, head))


def _reference(plan: Plan, model: Model, prompt: int) -> EngineSession:
    """The engine in the machine's formats, for a text that begins with so many tokens."""
    machine: Any = plan.machine
    if isinstance(machine, AndaMachine):
        return anda_reference(machine.params, machine.mantissas, model)
    # Offsets of keys are those of the first step.
    return harmonia_reference(machine.params, model, min(prompt, machine.step_tokens))


def _quantised(model: Model, plan: Plan, group: int = GROUP) -> tuple[Model, Weights]:
    return quantised_model(
        model, weight_bits=plan.weight_bits, head_bits=plan.head_bits, group=group
    )


def agreement(on: str) -> Record:
    """Tokens, logits and perplexity of the machine and of the engine, which models no machine."""
    model = load_model(MODEL)
    assert model.tokenizer is not None
    folder = _compiled(MODEL, Options(target=on, context=SCORED + 16))
    plan = folder.plan
    quantised, _ = _quantised(model, plan)
    tokens = [int(k) for k in model.tokenizer.encode(PROMPT)]
    runner, reference = Runner(folder, latency=FAR), _reference(plan, quantised, len(tokens))
    equal, errors, ties = 0, [], []
    for place in range(COMPARED):
        got, want = runner.feed(tokens), reference.feed(tokens)[-1]
        errors.append(float(np.sqrt(np.mean((got - want) ** 2)) / want.std()))
        tokens, other = [int(want.argmax())], runner.choice
        if other == tokens[0]:
            equal += 1
            continue
        ties.append(
            {
                "place": place,
                "engine": [tokens[0], float(want[tokens[0]]), float(want[other])],
                "machine": [other, float(got[other]), float(got[tokens[0]])],
            }
        )
    text = _scored_text(model, SCORED)
    scores = Runner(folder, latency=FAR).score(text)
    formats = {
        "full precision": plain_logits(model, text),
        "engine, 8 bits": _reference(plan, quantised, len(text)).feed(text),
    }
    if on == "harmonia":  # its array has groups of 32
        four = replace(plan, weight_bits=4, head_bits=4)
        small, _ = _quantised(model, four, group=32)
        name = "engine, 4 bits, a scale for 32"
        formats[name] = _reference(four, small, len(text)).feed(text)
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
    """On Anda: an engine that rounds where the machine rounds, and the effect of rounding alone."""
    require(on == "anda", f"no engine rounds as {on} does: that section is Anda's")
    model, folder = load_model(MODEL), _compiled(MODEL, Options(target=on))
    machine = folder.plan.machine
    assert isinstance(machine, AndaMachine)
    quantised, head = _quantised(model, folder.plan)
    text = _scored_text(model, SCORED)
    exact = RoundedModel(machine.params, machine.mantissas, quantised, head).feed(text)
    # Token by token: the formulas add in the order of decode steps, not in that of a prompt's.
    runner = Runner(folder, latency=FAR)
    scores = np.array([runner.feed([token]) for token in text[:EXACT]])
    return {
        "compared": EXACT,
        "equal": int((scores == exact[:EXACT]).all(axis=1).sum()),
        "scored": SCORED,
        "perplexity": perplexity(exact, text),
        "nudged": [
            perplexity(
                _reference(folder.plan, _nudged(quantised, seed), len(text)).feed(text), text
            )
            for seed in range(NUDGED)
        ],
    }


def _nudged(model: Model, seed: int) -> Model:
    """The model with embeddings in fp16, each at random as it is, a place below or a place above.

    Its perplexity differs by rounding alone: nothing is better or worse.
    """
    halves = model.embedding.astype(np.float16)
    places = np.random.default_rng(seed).integers(-1, 2, halves.shape, dtype=np.int16)
    moved = halves.view(np.int16) + places
    same_sign = (moved ^ halves.view(np.int16)) >= 0
    values = np.where(same_sign, moved.view(np.float16), halves)
    return replace(model, embedding=values.astype(np.float32))


def larger(on: str) -> Record:
    """Text and perplexity of a model whose layers stream through the chip, with 4-bit weights."""
    path = str(model_path(LARGER))
    options = Options(
        target=on, context=LARGER_SCORED + LARGER_TOKENS, weight_bits=4, head_bits=8, group=GROUP
    )
    found: Record = {"model": LARGER, "weight_bits": 4, "head_bits": 8, "scored": LARGER_SCORED}
    found |= _in_a_process(_larger_machine, path, options)
    found["perplexity"] |= _in_a_process(_larger_engine, path, options)
    return found


def _in_a_process(part: Callable[[str, Options], Record], path: str, options: Options) -> Record:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(part, path, options).result()


def _scored_text(model: Model, tokens: int) -> list[int]:
    assert model.tokenizer is not None
    return [int(k) for k in model.tokenizer.encode(default_text()[:8000])[:tokens]]


def _larger_machine(path: str, options: Options) -> Record:
    text, folder = (
        _scored_text(load_model(path, lazy=True), LARGER_SCORED),
        _compiled(path, options),
    )
    runner = Runner(folder, latency=FAR)
    (done,) = Session(runner, PROMPT, accelerator_of(runner.machine)).generate(LARGER_TOKENS)
    cycles = [run.cycles for run in done.programs if run.kind == "decode"]
    del runner  # its memory holds all weights
    scores = {"machine": perplexity(Runner(folder, latency=FAR).score(text), text)}
    about = {"text_of_prompt": PROMPT, "text": done.text, "decode_cycles": cycles}
    return about | {"perplexity": scores}


def _larger_engine(path: str, options: Options) -> Record:
    model = load_model(path)
    text = _scored_text(model, LARGER_SCORED)
    full = perplexity(plain_logits(model, text), text)
    plan = _compiled(path, options).plan
    quantised, _ = _quantised(model, plan)
    del model
    engine = perplexity(_reference(plan, quantised, len(text)).feed(text), text)
    return {"engine": engine, "full precision": full}


def perplexity(logits: NDArray[np.float32], tokens: list[int]) -> float:
    """exp of the mean negative log likelihood of all tokens but the first."""
    return float(np.exp(np.mean(losses(logits.astype(np.float64), tokens))))


SECTIONS: dict[str, Callable[[str], Record]] = {
    "generation": generation,
    "cycles": cycles,
    "agreement": agreement,
    "rounding": rounding,
    "larger": larger,
}
_USUAL = {"harmonia": tuple(SECTIONS)[:3], "anda": tuple(SECTIONS)[:4]}


def main(*words: str) -> None:
    """Make the sections that are named, or all; the others stay as they are."""
    on, *names = words if words and words[0] in NAMES else ("harmonia", *words)
    for name in names or SECTIONS:
        require(name in SECTIONS, f"a section is one of {', '.join(SECTIONS)}, not {name!r}")
    command = COMMAND if on == "harmonia" else f"{COMMAND} {on}"
    for name in names or _USUAL[on]:
        section = SECTIONS[name](on)
        record = load_measured(NAMES[on]) or {}
        about = {"command": command, "tilewright": __version__, "model": MODEL}
        write_measured(NAMES[on], record | about | {name: section})


if __name__ == "__main__":
    main(*sys.argv[1:])
