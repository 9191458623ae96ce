"""From a model file to a memory image with programs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import __version__
from tilewright.base.cache import get_or_make_folder, source_of
from tilewright.base.errors import CommandError
from tilewright.base.files import replace_directory
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.on_anda import mantissas_of
from tilewright.golden.llm.tokenizer_file import tokenizer_data
from tilewright.golden.machine.stream import program_lines
from tilewright.studies.compiled.folder import (
    FORMAT,
    IMAGE,
    LISTING,
    MANIFEST,
    TOKENIZER,
    instruction_set,
    sha256,
    sha256_of_file,
)
from tilewright.studies.compiled.image_file import ImageFile
from tilewright.studies.compiled.recipes import (
    mantissas_of_recipe,
    read_recipe,
    smoothed_model,
    target_of_recipe,
)
from tilewright.studies.compiled.systems import system_of, target_params
from tilewright.torch.config import AndaConfig, HarmoniaConfig

__all__ = ["CONTEXT", "GROUP", "CompiledModel", "Options", "compile_model", "compiled_folder"]

CONTEXT = 256  # tokens
GROUP = 64  # weights that share a scale
Tick = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a model is compiled."""

    target: str = "harmonia"
    context: int | None = None  # tokens; by default CONTEXT, or what the model has
    weight_bits: int = 8
    head_bits: int = 8
    group: int = GROUP
    mantissas: str | None = None  # of Anda's activations: qkv, o, u, d, such as 8,5,7,6
    single_tokens: bool = False  # on Anda, no steps of several tokens
    recipe: Path | None = None  # bits, group, windows, offsets and factors; see ``recipes``


@dataclass(frozen=True)
class CompiledModel:
    """A folder that was written, and how large its parts are."""

    path: Path
    model: str
    block: str
    layers: int
    context: int
    weight_bits: int
    head_bits: int
    image_bytes: int
    constant_bytes: int  # of them: weights, norms, rotations
    program_bytes: int
    programs: int
    decode_instructions: int  # of one decode step, its loop over the layers counted once


def compile_model(
    source: str | Path, folder: Path, options: Options | None = None, tick: Tick = lambda _: None
) -> CompiledModel:
    """Compile the model that ``source`` names into ``folder``, which is replaced as a whole."""
    model, options = _read(str(source), options or Options())
    with replace_directory(folder) as fresh:
        done = _write(fresh, model, str(source), options, tick)
    return CompiledModel(folder, *done)


def compiled_folder(source: str, options: Options, tick: Tick = lambda _: None) -> Path:
    """The folder of a compiled model in the user's cache, made where it is not there."""
    system = system_of(target_params(options.target))
    ingredients = [
        json.dumps(asdict(options), default=str),
        *([] if options.recipe is None else _identity(options.recipe)),
        __version__,
        str(FORMAT),
        instruction_set(system),
        source_of(*system.sources),
        source,
        *_identity(Path(source)),
    ]

    def make(fresh: Path) -> None:
        model, chosen = _read(source, options)
        _write(fresh, model, source, chosen, tick)

    return get_or_make_folder("models", ingredients, make)


def _read(source: str, options: Options) -> tuple[Model, Options]:
    """The model, and what a recipe makes of both."""
    recipe, path = None, options.recipe
    if path is not None:
        recipe = read_recipe(path, target_params(options.target).block)
        config = recipe.config
        assert isinstance(config, HarmoniaConfig | AndaConfig)
        options = replace(
            options,
            target=target_of_recipe(options.target, recipe, path),
            mantissas=mantissas_of_recipe(recipe),
            weight_bits=config.weight_bits or options.weight_bits,
            group=config.weight_group if config.weight_bits else options.group,
        )
    try:
        model = load_model(source, lazy=True)
    except ModelError as error:
        raise CommandError(str(error)) from None
    if recipe is not None and path is not None:
        model = smoothed_model(model, recipe, path)
    return model, options


def _identity(path: Path) -> Iterator[str]:
    """What changes with a file or with the files of a folder."""
    for file in sorted(path.glob("*")) if path.is_dir() else [path]:
        if file.is_file():
            status = file.stat()
            yield f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"


def _plan(model: Model, options: Options) -> Any:
    params = target_params(options.target)
    longest = model.config.max_position_embeddings
    if options.group % params.group:
        raise CommandError(
            f"--group must be a multiple of {params.group}, the group of {params.slug}, not"
            f" {options.group}"
        )
    own: dict[str, Any] = {}
    if options.mantissas is not None:
        if params.block != "anda":
            raise CommandError(f"--mantissas are those of Anda's activations, not {params.block}'s")
        own["mantissas"] = mantissas_of(options.mantissas)
    if options.single_tokens:
        if params.block != "anda":
            raise CommandError(f"--single-tokens is an option of Anda, not of {params.block}")
        own["single_tokens"] = True
    return system_of(params).plan(
        params=params,
        **own,
        config=model.config,
        context=min(CONTEXT, longest) if options.context is None else options.context,
        weight_bits=options.weight_bits,
        head_bits=options.head_bits,
    )


def _steps(plan: Any) -> Iterator[tuple[int, int]]:
    """Steps that programs are written for: any first one, whole ones, and single tokens."""
    size = plan.step_tokens
    yield from ((0, count) for count in range(2, min(size, plan.context) + 1))
    yield from ((first, size) for first in range(size, plan.context - size + 1, size))
    yield from ((first, 1) for first in range(plan.context))


def _write(folder: Path, model: Model, source: str, options: Options, tick: Tick) -> tuple:
    plan = _plan(model, options)
    params = plan.params
    system = system_of(params)
    tick("programs")
    reserved = _reserve(plan)
    lines = system.lines(plan, reserved)
    tick("weights")
    quantised, head = quantised_model(model, plan, group=options.group, lazy=True)
    with ImageFile(folder / IMAGE, lines.end, params.line_bytes) as image:
        for name, line, data in system.constants(plan, lines, quantised, head):
            tick(name)
            image.put(name, line, data)
        constant_bytes = sum(tensor["bytes"] for tensor in image.tensors)
        tick("programs")
        steps, heads, code = _programs(plan, lines)
        image.put("programs", lines.programs, code)
        image.zeros("state", lines.state)
    (folder / TOKENIZER).write_text(json.dumps(tokenizer_data(model.tokenizer)))
    (folder / LISTING).write_text(_listing(plan, lines))
    manifest = {
        "format": FORMAT,
        "tilewright": __version__,
        "model": model.config.name,
        "source": source,
        "target": options.target,
        "block": params.slug,
        "instruction_set": instruction_set(system),
        "context": plan.context,
        "step_tokens": plan.step_tokens,
        "weight_bits": plan.weight_bits,
        "head_bits": plan.head_bits,
        "scale_group": options.group,
        "recipe": None if options.recipe is None else sha256(options.recipe.read_bytes()),
        "activations": system.activations(plan),
        "choice": "machine" if system.chooses(plan) else "host",
        **system.about(plan),
        "start": model.start,
        "shape": asdict(model.config),
        "line_bytes": params.line_bytes,
        "program_lines": lines.program_lines,
        "lines": {
            name: getattr(lines, name)
            for name in (
                *("layers", "layer", "head", "programs", "state", "choice", "logits", "caches"),
                *("cache", "end"),
            )
            if hasattr(lines, name)
        },
        "files": {name: sha256_of_file(folder / name) for name in (TOKENIZER, LISTING)},
        "steps": steps,
        "heads": heads,
        "tensors": image.tensors,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return (
        model.config.name,
        params.slug,
        model.config.num_hidden_layers,
        plan.context,
        plan.weight_bits,
        plan.head_bits,
        image.size,
        constant_bytes,
        len(code),
        len(steps) + len(heads),
        steps[-1]["instructions"],
    )


def _reserve(plan: Any) -> int:
    """Lines that all programs take: their lengths do not depend on where anything lies."""
    system = system_of(plan.params)
    lines = system.lines(plan)
    each = plan.params.line_instructions
    sizes = [len(system.step_program(plan, lines, *step)) for step in _steps(plan)]
    sizes += [len(system.head_program(plan, lines, tile)) for tile in range(plan.step_tiles)]
    return sum(-(-size // each) for size in sizes)


def _programs(plan: Any, lines: Any) -> tuple[list[dict], list[dict], np.ndarray]:
    """Entries of the manifest, and the programs one after the other."""
    params, line, pieces = plan.params, lines.programs, []
    system = system_of(params)

    def place(program: list) -> dict[str, int]:
        nonlocal line
        data = program_lines(params, program)
        entry = {"line": line, "instructions": len(program)}
        line += len(data) // params.line_bytes
        pieces.append(data)
        return entry

    steps = [
        {"first": first, "tokens": count} | place(system.step_program(plan, lines, first, count))
        for first, count in _steps(plan)
    ]
    heads = [place(system.head_program(plan, lines, tile)) for tile in range(plan.step_tiles)]
    _refuse_hazards(plan, lines)
    return steps, heads, np.concatenate(pieces)


def _refuse_hazards(plan: Any, lines: Any) -> None:
    """No program's result depends on timing: looked at where the kinds of steps differ."""
    last, system = plan.context - 1, system_of(plan.params)
    programs = [
        system.step_program(plan, lines, first, 1, layers=2) for first in {0, min(1, last), last}
    ]
    size = min(plan.step_tokens, plan.context)
    programs.append(system.step_program(plan, lines, 0, size, layers=2))
    programs.append(system.head_program(plan, lines, parts=4))
    for program in programs:
        hazard = system.first_hazard(plan.params, program)
        if hazard:
            raise CommandError(f"a program of this model depends on timing: {hazard}")


def _listing(plan: Any, lines: Any) -> str:
    system = system_of(plan.params)
    size, last = min(plan.step_tokens, plan.context), plan.context - 1
    pieces = {
        f"the first step, {size} tokens": system.step_program(plan, lines, 0, size),
        f"a decode step, token {last}": system.step_program(plan, lines, last, 1),
        "the head, of the first token tile": system.head_program(plan, lines),
    }
    return "\n".join(
        f"; {name}: {len(program)} instructions\n{system.disassemble(program)}"
        for name, program in pieces.items()
    )
