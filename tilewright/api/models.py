"""Language models: performance on any system, and programs that run on an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tilewright.api.blocks import Block
from tilewright.base.console import progress
from tilewright.base.table import Reported, Table

if TYPE_CHECKING:
    from tilewright.api.weights import PackedWeights
    from tilewright.compiler.compile import Recipe
    from tilewright.compiler.folder import ModelFolder
    from tilewright.compiler.generate import Cost, Generation
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult
    from tilewright.torch.recipe import Recipe as TorchRecipe


def llm(
    model: str,
    system: str | None = None,
    *,
    block: Block | str | None = None,
    set: dict[str, str] | None = None,
    **question: Any,
) -> Predicted:
    """Predict latency, tokens a second, energy and memory of a model on a system.

    Parameters
    ----------
    model
        A published model (:func:`models`) or the path of a ``config.json``.
    system
        A name (:func:`systems`) or the TOML file of a server or an accelerator.
    block
        A DECA in every core of a server, or the accelerator itself, of this size.
    set
        Fields of the system and their values, such as ``{"bandwidth": "400GB/s"}``.
    question
        Fields of :class:`tilewright.sim.serving.Question`: ``scheme``, ``engine``, ``batch``,
        ``context``, ``phase``, ``prompt``, ``tokens``, ``draft``, ``memory`` and others.

    Examples
    --------
    >>> import tilewright as tw
    >>> step = tw.llm("llama-2-70b", "spr-hbm", scheme="mxfp4", batch=1)
    >>> step.bound
    'memory'
    """
    from tilewright.golden.params.names import unknown
    from tilewright.sim.serving import Question, ask

    known = Question.__dataclass_fields__
    for name in question:
        if name not in known:
            raise TypeError(unknown("argument of llm", name, known))
    if isinstance(block, str):
        from tilewright.api.blocks import block as block_named

        block = block_named(block)
    params = None if block is None else block.params
    asked = Question(model=model, system=system, block=params, settings=set, **question)
    return Predicted(ask(asked))


def models() -> Table:
    """Return a table of the published models: name, parameters, layers, width."""
    from tilewright.sim.models import model_names, resolve_model

    rows = []
    for name in model_names():
        shape = resolve_model(name)
        layers, width = shape.num_hidden_layers, shape.hidden_size
        rows.append((name, f"{shape.parameters / 1e9:.2f}", layers, width))
    return Table(("MODEL", "BILLION PARAMETERS", "LAYERS", "WIDTH"), rows)


def systems() -> list[str]:
    """Return the names of all modelled systems: servers, then accelerators."""
    from tilewright.sim.target import system_names

    return system_names()


@dataclass(frozen=True)
class Predicted(Reported):
    """A prediction of the performance model; other figures are fields of ``result``."""

    result: LlmResult | GenerationResult

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result, name)

    @property
    def title(self) -> str:
        """Model, system and scheme."""
        engine = f" with {self.result.engine}" if self.result.engine else ""
        return f"{self.result.model} on {self.result.system}{engine}, {self.result.scheme}"

    @property
    def metrics(self) -> dict[str, float]:
        """Figures to compare with those of another system or model."""
        result, memory = self.result, self.result.memory_bytes
        return {
            "ms": result.latency_ms if hasattr(result, "latency_ms") else result.total_ms,
            "tokens/s": result.tokens_per_second,
            "J/token": result.joules_per_token,
            "memory (GB)": (memory.weights + memory.cache) / 1e9,
        }

    @property
    def report(self) -> Table:
        """The output of ``tilewright llm``: latency, rate, energy, memory, bounds and remarks."""
        told = self.result.report
        remarks = [("remark", remark) for remark in self.result.remarks]
        return Table(told.header, [*told.rows, *remarks])


def compile(
    model: str | Path,
    on: str = "harmonia",
    *,
    to: str | Path | None = None,
    context: int | None = None,
    sequences: int = 1,
    weights: int | str = 8,
    head: int = 8,
    mantissas: str | None = None,
    recipe: str | Path | None = None,
) -> CompiledLLM:
    """Compile a language model into a memory image and programs of an accelerator.

    Parameters
    ----------
    model
        ``smollm2``, ``tiny-llama``, a GGUF file or a Hugging Face folder of the LLaMA family.
    on
        The accelerator: ``anda``, ``harmonia:small``, ``harmonia,operand_rows=4096``.
    to
        A folder to write; by default one in the user's cache, which the next call reuses.
    context, sequences
        Tokens of a sequence in the cache, and sequences at a time.
    weights, head
        Bits of the layers' weights and of the vocabulary head: 4 or 8; or for weights a format of
        your own, ``FILE.py:CLASS``, if it is integers times fp16 scales.
    mantissas
        Bits of Anda's activations before QKV, O, U and D, such as ``8,5,7,6``.
    recipe
        A recipe of ``tilewright search`` or :mod:`tilewright.torch`.

    Examples
    --------
    >>> import tilewright as tw
    >>> tiny = tw.compile("tiny-llama", on="harmonia:small", context=32)
    >>> tiny.generate("Hi", tokens=3).tokens_per_second > 0
    True
    """
    from tilewright.compiler.compile import Options, compile_model, compiled_folder
    from tilewright.compiler.folder import open_folder
    from tilewright.golden.formats import resolve_format

    chosen: Recipe | None = None
    if recipe is not None:
        from tilewright.studies.recipes import RecipeFile

        chosen = cast("Recipe", RecipeFile(Path(recipe)))
    stored: dict[str, Any] = {"weight_bits": weights}
    if isinstance(weights, str):
        stored = {"weight_format": resolve_format(weights)}
    options = Options(
        target=on,
        context=context,
        sequences=sequences,
        **stored,
        head_bits=head,
        mantissas=mantissas,
        recipe=chosen,
    )
    with progress("compiling") as tick:
        if to is None:
            folder = compiled_folder(str(model), options, lambda doing: tick(doing, steps=0))
        else:
            folder = Path(to)
            compile_model(str(model), folder, options, lambda doing: tick(doing, steps=0))
    return CompiledLLM(open_folder(folder))


@dataclass(frozen=True, eq=False)
class CompiledLLM(Reported):
    """A compiled model in its folder."""

    folder: ModelFolder

    def generate(
        self,
        prompt: str | Sequence[str],
        tokens: int = 16,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        chat: bool = False,
        ignore_end: bool = False,
        latency: int | None = None,
        memory: str | None = None,
        rtl: bool = False,
        stream: Callable[[str], None] | None = None,
    ) -> Generated:
        """Continue one prompt or several on the golden machine.

        Its bits and cycles are the Verilog's; ``rtl`` runs every program on the simulated Verilog
        too and compares both.

        Parameters
        ----------
        prompt
            A text, or several for a batch.
        tokens
            New tokens of each sequence at the most.
        temperature
            0 takes the most likely token; more chooses at random, by ``seed``.
        chat
            Take the prompt as a user's message and lay it out by the model's chat template.
        ignore_end
            Go on after the token that ends an answer.
        latency
            Cycles of a flat external memory.
        memory
            ``flat`` (the default), ``hbm2``, ``lpddr5`` or ``ddr4``, which have rows and refresh.
        stream
            Called with each piece of the text of the first sequence, such as ``print``.
        """
        from tilewright.compiler.text import Text
        from tilewright.studies.sessions import session_of

        session = session_of(
            self.folder, prompt, latency=latency, memory=memory, rtl=rtl, chat=chat
        )
        ends = () if ignore_end else self.folder.chat.ends
        text = Text(self.folder.tokenizer)

        def tell(sequence: int, token: int) -> None:
            if sequence == 0 and stream is not None:
                stream(text.add(token))

        done = session.generate(tokens, temperature=temperature, seed=seed, ends=ends, tell=tell)
        return Generated(tuple(done))

    def show(self, view: str = "schedule") -> str:
        """Return a decoder layer as text: ``graph``, ``schedule`` or ``program``."""
        from tilewright.compiler.show import show

        return show(self.folder.plan, view)

    @property
    def report(self) -> Table:
        """The compiled model and its accelerator."""
        manifest = self.folder.manifest
        names = ("model", "target", "context", "sequences", "weight_bits", "head_bits")
        rows = [(name.replace("_", " "), manifest[name]) for name in names]
        rows.append(
            ("image (MB)", f"{manifest['lines']['end'] * manifest['line_bytes'] / 1e6:.2f}")
        )
        return Table(("FIELD", "VALUE"), rows, str(self.folder.path))


@dataclass(frozen=True)
class Generated(Reported):
    """Generated text and what it cost on the accelerator, from the cycles of its programs."""

    sequences: tuple[Generation, ...]

    @property
    def text(self) -> str:
        """The text of the first sequence, without its prompt."""
        return self.sequences[0].text

    @property
    def texts(self) -> list[str]:
        """The text of every sequence."""
        return [own.text for own in self.sequences]

    @property
    def tokens_per_second(self) -> float:
        """New tokens a second after the first one, of all sequences, at the published clock."""
        decode = self.sequences[0].decode or self.sequences[0].prefill
        return 0.0 if decode is None else decode.tokens_per_second

    @property
    def title(self) -> str:
        """Model, accelerator and clock."""
        first = self.sequences[0]
        return f"{first.model} on {first.block} at {first.clock_mhz:g} MHz"

    @property
    def metrics(self) -> dict[str, float]:
        """Figures to compare with those of another accelerator."""
        figures = {}
        for phase, cost in self._phases.items():
            figures[f"{phase} cycles"] = float(cost.cycles)
            figures[f"{phase} tokens/s"] = cost.tokens_per_second
            figures[f"{phase} mJ"] = sum(cost.millijoules.values())
        return figures

    @property
    def report(self) -> Table:
        """Tokens, cycles, rate, traffic and energy of the prompt and of the tokens after it."""
        rows = [
            (
                phase,
                f"{cost.tokens}",
                f"{cost.cycles:,}",
                f"{cost.milliseconds:.3f}",
                f"{cost.tokens_per_second:.1f}",
                f"{cost.bytes_read / 1e6:.3f}",
                f"{sum(cost.millijoules.values()):.4f}",
                cost.bound,
            )
            for phase, cost in self._phases.items()
        ]
        header = ("PHASE", "TOKENS", "CYCLES", "MS", "TOKENS/S", "MB READ", "MJ", "BOUND BY")
        return Table(header, rows, self.title)

    @property
    def _phases(self) -> dict[str, Cost]:
        first = self.sequences[0]
        phases = {"prefill": first.prefill, "decode": first.decode}
        return {name: cost for name, cost in phases.items() if cost is not None}


def load(path: str | Path) -> CompiledLLM | PackedWeights | TorchRecipe:
    """Open a compiled model's folder, a packed ``.safetensors`` file or a ``.toml`` recipe.

    Examples
    --------
    >>> import tilewright as tw
    >>> tiny = tw.compile("tiny-llama", on="harmonia:small", context=32)
    >>> tw.load(tiny.folder.path).folder.manifest["target"]
    'harmonia:small'
    """
    path = Path(path)
    if (path / "manifest.json").is_file():
        from tilewright.compiler.folder import open_folder

        return CompiledLLM(open_folder(path))
    if path.suffix == ".safetensors":
        from tilewright.api.weights import PackedWeights
        from tilewright.golden.deca.packed import PackedModel

        return PackedWeights(path, PackedModel(path))
    if path.suffix == ".toml":
        from tilewright.torch.recipe import Recipe

        return Recipe.load(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    raise ValueError(
        f"{path} is no folder of tilewright compile, packed .safetensors file or .toml recipe"
    )
