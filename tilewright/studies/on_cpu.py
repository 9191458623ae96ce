"""A prompt and its continuation on a CPU with AMX and a DECA at every core."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.errors import CheckError, CommandError
from tilewright.compiler.text import check_temperature, chosen, decoded
from tilewright.golden.bits import encode
from tilewright.golden.deca.matrix import CompressedMatrix
from tilewright.golden.deca.stream import stream_by_tepls
from tilewright.golden.deca.tile_timing import tiles_in_order
from tilewright.golden.deca.tiles import tile_columns
from tilewright.golden.formats import is_own
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.on_deca import HEAD, DecaFormat, Storage, compressed_model, read_packed
from tilewright.golden.params.deca import TILE_ROWS, DecaParams
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.resolve import resolve_as
from tilewright.sim.deca_stream import Integration
from tilewright.sim.on_server import steps_on_server
from tilewright.sim.scheme import scheme_and_density
from tilewright.sim.system import Server
from tilewright.sim.target import resolve_target
from tilewright.sim.workload import Batch, Pass, Step
from tilewright.studies.runs.deca_gemm import run_matrix
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.studies.sessions import encoder

FOLLOWED = 160  # tiles of a matrix that the stream model follows


@dataclass(frozen=True)
class MatrixTiles:
    """Matrices of one kind, of all layers; cycles are predicted by the stream model."""

    name: str
    matrices: int
    tiles: int  # of all of them
    bytes: int
    followed: int  # tiles of the first layer that the stream model followed
    cycles_per_tile: float  # of a core, between the ends of two products

    @property
    def bytes_per_tile(self) -> float:
        return self.bytes / self.tiles


def matrix_tiles(
    params: DecaParams, machine: Server, name: str, matrices: list[CompressedMatrix]
) -> MatrixTiles:
    """Follow the first tiles of the first of these matrices, as one core of ``machine`` does."""
    how = Integration()
    first = matrices[0].tiles.first(FOLLOWED)
    times = stream_by_tepls(
        params,
        tiles_in_order(params, first),
        how.memory(machine.bytes_per_cycle(machine.cores)),
        how.core(machine.matrix_cycles),
        how.degree,
    )
    # A stream too short for a steady state counts as a whole.
    steady = len(first) >= 24
    return MatrixTiles(
        name=name,
        matrices=len(matrices),
        tiles=sum(len(matrix.tiles) for matrix in matrices),
        bytes=sum(matrix.size for matrix in matrices),
        followed=len(first),
        cycles_per_tile=times.interval if steady else times.product_ends[-1] / len(first),
    )


PACKED = ".safetensors"  # what tilewright pack writes
RTL_TILES = 32  # of every matrix of the first layer
PRODUCTS = ("q", "k", "v", "o", "gate", "up", "down")  # of a step, as the model of a server has it
Tick = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class CpuOptions:
    """The CPU, its DECA, and how weights lie in memory."""

    block: str = "deca"
    system: str | None = None  # of ``tilewright list systems``; by default spr-hbm
    scheme: str | None = None  # NAME[,OPTION=VALUE]...[_DENSITY%]; by default mxfp4
    head: str | None = None  # of the vocabulary head; by default bf16


@dataclass(frozen=True)
class CpuCost:
    """Steps of one kind, together, as the performance model of the server predicts them."""

    tokens: int
    milliseconds: float
    milliseconds_of_products: float  # of them: what decompression and matrix units decide
    bytes_read: int  # weights and cache
    joules: dict[str, float]
    bound: str

    @property
    def tokens_per_second(self) -> float:
        return 1e3 * self.tokens / self.milliseconds


RtlTiles = dict[str, Any]  # tiles of a matrix that the simulated RTL gave as golden does


@dataclass(frozen=True)
class CpuGeneration:
    """Generated tokens, which are exact, with predicted times and energies."""

    model: str
    block: str
    system: str
    clock_ghz: float
    scheme: str
    head: str
    prompt: list[int]
    tokens: list[int]
    text: str
    matrices: list[MatrixTiles]
    core_cycles_per_token: int  # of products with compressed tiles, all cores together
    prefill: CpuCost
    decode: CpuCost | None
    rtl: list[RtlTiles] | None
    remarks: tuple[str, ...]


class CpuSession:
    """One prompt on one socket; every weight is read through its compressed tile.

    ``source`` names a model, whose weights are compressed, or a file of ``tilewright pack``.
    ``tokens`` that exceed the model's context are refused before anything is compressed. With
    ``chat`` the model's template lays the prompt out.
    """

    def __init__(
        self,
        source: str,
        prompt: str,
        options: CpuOptions,
        tick: Tick = lambda _: None,
        tokens: int = 1,
        chat: bool = False,
    ):
        params = resolve_as(DecaParams, options.block)
        self.params, self.block = params, options.block
        self.target = resolve_target(options.system, block=params)
        if self.target.server is None:
            raise CommandError(f"--system of a DECA is a server, not {options.system}")
        tick("reading")
        packed = Path(source).suffix == PACKED
        if packed:
            if options.scheme or options.head:
                raise CommandError(f"--scheme and --head-scheme are those of {source}")
            self.model, self.matrices = read_packed(Path(source), tick)
            self.scheme, self.head = _schemes_of(self.matrices, params)
        else:
            self.scheme, self.head = options.scheme or "mxfp4", options.head or "bf16"
            layers, head = _storage(self.scheme, params), _storage(self.head, params)
            self.model = load_model(source)
        model = self.model
        self.prompt = encoder(model, model.config.vocab_size, chat=chat)(prompt)
        self.check(tokens)
        if not packed:
            self.matrices = compressed_model(self.model, layers, head, tick)
        tick("decompressing")
        self.session = Session(self.model, DecaFormat(self.model, self.matrices))

    def check(self, tokens: int) -> None:
        """Refuse tokens beyond the model's context."""
        if tokens < 1:
            raise CommandError(f"tokens must be at least 1, not {tokens}")
        end, longest = len(self.prompt) + tokens - 1, self.model.config.max_position_embeddings
        if end > longest:
            raise CommandError(f"{end} tokens exceed the model's context of {longest}")

    def check_on_rtl(
        self, simulation: Simulation = DEFAULT, tick: Tick = lambda _: None
    ) -> list[RtlTiles]:
        """Send the first tiles of every matrix of the first layer through the simulated RTL."""
        found = []
        for name in self.model.layers[0].linears:
            matrix = self.matrices[f"layers.0.{name}"]
            tick(name)
            # Tiles of the upper row, at most as many as a matrix of that shape has.
            width = tile_columns(matrix.scheme.config)
            count = min(RTL_TILES, -(-matrix.shape[1] // width))
            part = CompressedMatrix(
                matrix.scheme, (TILE_ROWS, count * width), matrix.tiles.first(count)
            )
            rng = np.random.default_rng(simulation.seed)
            values = encode(BF16, rng.normal(0, 1, (part.shape[1], 1)))
            run = run_matrix(self.block, part, values, simulation=simulation)
            if not run.equal:
                raise CheckError(
                    f"layers.0.{name}: {run.wrong} products with tiles of the RTL differ from"
                    " golden's"
                )
            each = {"tiles": count, "cycles_per_tile": run.cycles_per_tile}
            found.append({"matrix": f"layers.0.{name}"} | each)
        return found

    def generate(
        self,
        tokens: int,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        ends: Collection[int] = (),
        rtl: list[RtlTiles] | None = None,
        tell: Callable[[int], None] = lambda token: None,
    ) -> CpuGeneration:
        """Feed the prompt, then token after token, up to one of ``ends``.

        ``tell`` is called with each token as it is chosen, except the end.
        """
        self.check(tokens)
        check_temperature(temperature)
        found: list[int] = []
        while len(found) < tokens:
            logits = self.session.feed(found[-1:] or self.prompt)[-1]
            found.append(chosen(logits, temperature, np.random.default_rng((seed, len(found)))))
            if found[-1] in ends:
                return self._result(found, found[:-1], rtl)
            tell(found[-1])
        return self._result(found, found, rtl)

    def _result(
        self, found: list[int], shown: list[int], rtl: list[RtlTiles] | None
    ) -> CpuGeneration:
        machine = self.target.server
        assert machine is not None
        prompt = len(self.prompt)
        layers = range(len(self.model.layers))
        matrices = {
            name: [self.matrices[f"layers.{number}.{name}"] for number in layers]
            for name in self.model.layers[0].linears
        } | {HEAD: [self.matrices[HEAD]]}
        kinds = [matrix_tiles(self.params, machine, *some) for some in matrices.items()]
        passes = [
            Pass(Batch(((1, prompt),)), None),
            *(Pass(Batch(((1, prompt + k),))) for k in range(1, len(found))),
        ]
        steps = steps_on_server(self.model.config, self.target, self.scheme, passes, None)
        return CpuGeneration(
            model=self.model.name,
            block=self.params.slug,
            system=machine.name,
            clock_ghz=machine.clock / 1e9,
            scheme=self.scheme,
            head=self.head,
            prompt=self.prompt,
            tokens=found,
            text=decoded(self.model.tokenizer, shown),
            matrices=kinds,
            core_cycles_per_token=round(sum(m.tiles * m.cycles_per_tile for m in kinds)),
            prefill=self._cost(steps[:1], prompt),
            decode=self._cost(steps[1:], len(steps) - 1) if len(steps) > 1 else None,
            rtl=rtl,
            remarks=steps[-1].remarks,
        )

    def _cost(self, steps: list[Step], tokens: int) -> CpuCost:
        weights = sum(matrix.size for matrix in self.matrices.values())
        joules: dict[str, float] = {}
        for name, value in (part for step in steps for part in step.joules_by_part.items()):
            joules[name] = joules.get(name, 0.0) + value
        return CpuCost(
            tokens=tokens,
            milliseconds=1e3 * sum(step.seconds for step in steps),
            milliseconds_of_products=sum(
                step.ms_by_part.get(n, 0.0) for step in steps for n in PRODUCTS
            ),
            bytes_read=round(sum(weights + step.memory_bytes.cache for step in steps)),
            joules=joules,
            bound=steps[-1].bound,
        )


def _schemes_of(matrices: dict[str, CompressedMatrix], params: DecaParams) -> tuple[str, str]:
    found = []
    for some in ([m for name, m in matrices.items() if name != HEAD], [matrices[HEAD]]):
        config, name = some[0].scheme.config, some[0].scheme.name
        if not params.supports(config):
            raise CommandError(f"{params.slug} cannot scale groups of {config.group} elements")
        if is_own(name):  # in words for tiles of that size: the class's file may be elsewhere
            name = f"int{config.code_bits},group={config.group},scale={config.scale.value}"
        if config.sparse:
            stored = sum(int(np.bitwise_count(m.tiles.masks).sum()) for m in some)
            share = 100 * stored / sum(prod(m.shape) for m in some)
            name = f"{name}_{share:.4g}%"
        found.append(name)
    return found[0], found[1]


def _storage(text: str, params: DecaParams) -> Storage:
    """A scheme as ``tilewright llm`` writes it: NAME[,OPTION=VALUE]...[_DENSITY%]."""
    scheme, density = scheme_and_density(text)
    if not params.supports(scheme.config):
        raise CommandError(f"{params.slug} cannot scale groups of {scheme.config.group} elements")
    return Storage(scheme=scheme, density=float(density) if density < 1 else None)
