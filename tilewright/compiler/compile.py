"""From a model file to a memory image; programs are written when their steps are due."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tilewright import __version__
from tilewright.base.cache import get_or_make_folder, sources_of
from tilewright.base.errors import CommandError
from tilewright.base.files import replace_directory
from tilewright.compiler.folder import (
    FORMAT,
    IMAGE,
    LISTING,
    MANIFEST,
    TOKENIZER,
    instruction_set,
    machine_for,
    sha256,
    sha256_of_file,
)
from tilewright.compiler.image import Lines, constants
from tilewright.compiler.plan import Plan, step_sizes
from tilewright.compiler.program import Program, head_program, step_program
from tilewright.compiler.quantise import quantised_model
from tilewright.compiler.sizes import Step
from tilewright.golden.formats import NumberFormat
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.tokenizer import tokenizer_data
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.llm import LlmShape

CONTEXT = 256  # tokens
GROUP = 64  # weights that share a scale
MARGIN = 1.25  # instructions that there is room for, to those of the longest program
Tick = Callable[[str], None]
_ZEROS = 1 << 22  # bytes of zeros that are hashed at a time
_SIZES = ("context", "sequences", "weight_bits", "head_bits")  # of a plan and a manifest


class Recipe(Protocol):
    """Formats that were chosen for one model, and changes of its weights."""

    digest: str  # of its content

    def options(self, options: "Options") -> "Options":
        """Options with the recipe's target, bits and group."""

    def model(self, model: Model) -> Model:
        """The model with the recipe's factors, refused if the recipe is for another one."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a model is compiled."""

    target: str = "harmonia"
    context: int | None = None  # tokens; by default CONTEXT, or the model's where that is less
    sequences: int = 1
    weight_bits: int = 8
    head_bits: int = 8
    group: int = GROUP
    mantissas: str | None = None  # of Anda's activations: qkv, o, u, d, such as 8,5,7,6
    recipe: Recipe | None = None
    weight_format: NumberFormat | None = None  # of the user's own; it has bits and group

    def __post_init__(self) -> None:
        if self.weight_format is not None:
            object.__setattr__(self, "weight_bits", self.weight_format.bits)
            object.__setattr__(self, "group", self.weight_format.group)


@dataclass(frozen=True)
class CompiledModel:
    """A folder that was written, and the sizes of its parts."""

    path: Path
    model: str
    block: str
    layers: int
    context: int
    sequences: int
    weight_bits: int
    head_bits: int
    image_bytes: int
    constant_bytes: int  # weights, embeddings, norms, rotations
    program_bytes: int  # reserved for the program of a step
    state_bytes: int  # caches, logits
    decode_instructions: int  # of the longest decode step, a loop over the layers counted once


class ImageFile:
    """``lines`` lines of external memory, zero where nothing is put."""

    def __init__(self, path: Path, lines: int, line_bytes: int):
        self.size, self._line_bytes = lines * line_bytes, line_bytes
        self.tensors: list[dict[str, Any]] = []  # name, first line, bytes and hash
        self._file = path.open("wb")
        self._file.truncate(self.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def put(self, name: str, line: int, data: NDArray[np.uint8]) -> None:
        """Write the bytes of a tensor."""
        whole = np.ascontiguousarray(data)
        self._file.seek(line * self._line_bytes)
        self._file.write(whole.data)
        self._note(name, line, len(whole), sha256(whole))

    def zeros(self, name: str, line: int) -> None:
        """Note that from ``line`` on everything is zero."""
        left = count = self.size - line * self._line_bytes
        piece, digest = bytes(_ZEROS), hashlib.sha256()
        while left:
            digest.update(piece[:left])
            left -= min(left, _ZEROS)
        self._note(name, line, count, digest.hexdigest())

    def _note(self, name: str, line: int, size: int, digest: str) -> None:
        self.tensors.append({"name": name, "line": line, "bytes": size, "sha256": digest})


def compile_model(
    source: str | Path, folder: Path, options: Options | None = None, tick: Tick = lambda _: None
) -> CompiledModel:
    """Compile the model that ``source`` names into ``folder``, which is replaced as a whole."""
    model, options = _read(str(source), options or Options())
    with replace_directory(folder) as fresh:
        done = _write(fresh, model, str(source), options, tick)
    return replace(done, path=folder)


def compiled_folder(source: str, options: Options, tick: Tick = lambda _: None) -> Path:
    """The folder of a compiled model in the user's cache, made if it does not exist."""
    ingredients = [
        json.dumps(asdict(replace(options, recipe=None, weight_format=None))),
        *(own.digest for own in (options.recipe, options.weight_format) if own is not None),
        __version__,
        str(FORMAT),
        instruction_set(machine_for(options.target)),
        *sources_of("tilewright.compiler"),
        source,
        *_identity(Path(source)),
    ]

    def make(fresh: Path) -> None:
        model, chosen = _read(source, options)
        _write(fresh, model, source, chosen, tick)

    return get_or_make_folder("models", ingredients, make)


def _read(source: str, options: Options) -> tuple[Model, Options]:
    """The model and the options, with a recipe applied."""
    recipe = options.recipe
    if recipe is not None:
        options = recipe.options(options)
    try:
        model = load_model(source, lazy=True)
    except ModelError as error:
        raise CommandError(str(error)) from None
    return (model if recipe is None else recipe.model(model)), options


def _identity(path: Path) -> Iterator[str]:
    """Text that changes with a file or with the files of a folder."""
    for file in sorted(path.glob("*")) if path.is_dir() else [path]:
        if file.is_file():
            status = file.stat()
            yield f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"


def plan_of(shape: LlmShape, options: Options) -> Plan:
    """A model's shape on the machine that the options name."""
    machine = machine_for(options.target)
    params = machine.params
    if options.group < 1 or options.group % params.group:
        raise CommandError(
            f"--group must be a multiple of {params.group}, the group of {params.slug}, not"
            f" {options.group}"
        )
    if options.mantissas is not None:
        modules = machine.about().get("mantissas")
        if modules is None:
            raise CommandError(f"--mantissas: activations of {params.block} have one format")
        machine = machine.with_mantissas(_mantissas(options.mantissas, modules))
    context = options.context
    return Plan(
        machine=machine,
        shape=shape,
        context=min(CONTEXT, shape.max_position_embeddings) if context is None else context,
        sequences=options.sequences,
        weight_bits=options.weight_bits,
        head_bits=options.head_bits,
    )


def _mantissas(text: str, modules: Collection[str]) -> dict[str, int]:
    numbers = text.split(",")
    if len(numbers) != len(modules) or not all(n.strip().isdecimal() for n in numbers):
        raise CommandError(f"mantissas are four numbers such as 8,5,7,6, not {text!r}")
    return dict(zip(modules, map(int, numbers), strict=True))


def program_instructions(plan: Plan, latency: int = LATENCY) -> tuple[int, int]:
    """Instructions that the longest program has at most, and those of the longest decode step."""
    lines, last = Lines(plan), plan.context - 1
    steps = list(step_sizes(plan, 0, plan.context))
    largest = max(size for _, size in steps)
    prompt = Step.prompt(*[step for step in steps if step[1] == largest][-1])
    decode = _decode(plan)
    written = {
        step: step_program(lines, step, latency=latency, layers=1)
        for step in (prompt, Step.prompt(last, 1), decode)
    }
    more = plan.shape.num_hidden_layers - 1
    # Layers are counted one by one: the body of another step may be too long for a loop.
    lengths = [len(program) + more * len(program.body) for program in written.values()]
    longest = max(*lengths, len(head_program(lines, latency=latency)))
    own = written[decode]
    return longest, len(own) + (0 if own.looped else more * len(own.body))


def _decode(plan: Plan) -> Step:
    """The last tokens of all sequences."""
    return Step.batch(dict.fromkeys(range(plan.sequences), plan.context - 1))


def _write(folder: Path, model: Model, source: str, options: Options, tick: Tick) -> CompiledModel:
    plan = plan_of(model.config, options)
    machine, params = plan.machine, plan.machine.params
    tick("programs")
    longest, decode = program_instructions(plan)
    lines = Lines(plan, -(-int(MARGIN * longest) // params.line_instructions))
    _refuse_hazards(lines)
    (folder / LISTING).write_text(_listing(lines))
    tick("weights")
    quantised, head = quantised_model(
        model,
        weight_bits=plan.weight_bits,
        head_bits=plan.head_bits,
        group=options.group,
        form=options.weight_format,
        lazy=True,
    )
    with ImageFile(folder / IMAGE, lines.end, params.line_bytes) as image:
        for name, line, data in constants(lines, quantised, head):
            tick(f"{name} of {plan.shape.num_hidden_layers} layers")
            image.put(name, line, data)
        constant_bytes = sum(tensor["bytes"] for tensor in image.tensors)
        image.zeros("programs and state", lines.programs)
    (folder / TOKENIZER).write_text(json.dumps(tokenizer_data(model.tokenizer)))
    names = ("layer", "head", "programs", "state", "logits", "choice", "caches", "cache", "end")
    sizes = {name: getattr(plan, name) for name in _SIZES}
    manifest = {
        "format": FORMAT,
        "tilewright": __version__,
        "model": model.config.name,
        "source": source,
        "target": options.target,
        "block": params.slug,
        "instruction_set": instruction_set(machine),
        **sizes,
        "step_tokens": machine.step_tokens,
        "scale_group": options.group,
        "recipe": None if options.recipe is None else options.recipe.digest,
        "weight_format": None if options.weight_format is None else options.weight_format.name,
        "activations": machine.activations,
        "formats": machine.about(),
        "start": model.start,
        "chat": asdict(model.chat),
        "shape": asdict(model.config),
        "line_bytes": params.line_bytes,
        "program_lines": lines.program_lines,
        "lines": {name: getattr(lines, name) for name in names},
        "files": {name: sha256_of_file(folder / name) for name in (TOKENIZER, LISTING)},
        "tensors": image.tensors,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return CompiledModel(
        path=folder,
        model=model.config.name,
        block=params.slug,
        layers=model.config.num_hidden_layers,
        **sizes,
        image_bytes=image.size,
        constant_bytes=constant_bytes,
        program_bytes=lines.program_lines * params.line_bytes,
        state_bytes=(lines.end - lines.state) * params.line_bytes,
        decode_instructions=decode,
    )


def _samples(lines: Lines, layers: int | None, parts: int | None) -> Iterator[tuple[str, Program]]:
    """A program of each kind, by its description."""
    plan = lines.plan
    about: dict[str, Any] = {"latency": LATENCY, "layers": layers}
    last, size = plan.context - 1, min(plan.machine.rows, plan.machine.step_tokens, plan.context)
    decode = Step.prompt(last, 1)
    first = Step.prompt(0, size)
    yield f"a first step, tokens 0 to {size - 1}", step_program(lines, first, **about)
    yield f"a decode step, token {last}", step_program(lines, decode, **about)
    if plan.sequences > 1:
        batch = step_program(lines, _decode(plan), **about)
        yield f"a decode step of {plan.sequences} sequences", batch
    head = head_program(lines, latency=LATENCY, parts=parts)
    yield "the head, of the first token tile", head


def _refuse_hazards(lines: Lines) -> None:
    """No program's result may depend on timing: a sample of each kind is checked."""
    layers = min(2, lines.plan.shape.num_hidden_layers)
    for name, program in _samples(lines, layers, 4):
        hazard = lines.machine.first_hazard(program.instructions)
        if hazard:
            raise CommandError(f"{name} depends on timing: {hazard}")


def _listing(lines: Lines) -> str:
    pieces = []
    for name, program in _samples(lines, None, None):
        text = lines.machine.disassemble(program.instructions)
        pieces.append(f"; {name}: {len(program)} instructions\n{text}")
    return "\n".join(pieces)
