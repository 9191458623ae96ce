"""A prompt and what follows it on a CPU with AMX and a DECA beside every core."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.base.errors import CheckError, CommandError
from tilewright.compiler.text import chosen, prompt_tokens
from tilewright.golden.bits import encode
from tilewright.golden.deca.matrix import CompressedMatrix
from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.golden.deca.stream import stream_by_tepls
from tilewright.golden.deca.tile_timing import tiles_in_order
from tilewright.golden.deca.tiles import tile_columns
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.on_deca import HEAD, DecaSession, Storage, compressed_model
from tilewright.golden.params.deca import TILE_ROWS, DecaParams
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.resolve import resolve_as
from tilewright.sim.deca_stream import Integration
from tilewright.sim.on_server import step_on_server
from tilewright.sim.scheme import OTHER_NAMES, WITH_DENSITY, resolve_weight_scheme
from tilewright.sim.system import Server
from tilewright.sim.target import Target, resolve_target
from tilewright.sim.workload import Batch, Pass, Step
from tilewright.studies.runs.deca_gemm import run_matrix
from tilewright.studies.runs.simulation import DEFAULT, Simulation

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
    params: DecaParams,
    machine: Server,
    name: str,
    matrices: list[CompressedMatrix],
    integration: Integration | None = None,
) -> MatrixTiles:
    """Follow the first tiles of the first of these matrices, as one core of ``machine`` does."""
    how = integration or Integration()
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


RTL_TILES = 32  # of every matrix of the first layer
PRODUCTS = ("q", "k", "v", "o", "gate", "up", "down")  # of a step, as the model of a server has it
Tick = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class CpuOptions:
    """The CPU, its DECA, and how weights lie in memory."""

    block: str = "deca"
    system: str | None = None  # of ``tilewright list systems``; by default spr-hbm
    scheme: str = "mxfp4"  # NAME[,OPTION=VALUE]...[_DENSITY%]
    head: str = "bf16"  # of the vocabulary head


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


@dataclass(frozen=True)
class RtlTiles:
    """Tiles of the model that the simulated RTL has decompressed, each equal to golden's."""

    matrix: str
    tiles: int
    cycles_per_tile: float


@dataclass(frozen=True)
class CpuGeneration:
    """What was generated. Values are exact; times and energies are predictions."""

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
    """One prompt on one socket; every weight is read through its compressed tile."""

    def __init__(self, source: str, prompt: str, options: CpuOptions, tick: Tick = lambda _: None):
        params = resolve_as(DecaParams, options.block)
        self.options, self.params = options, params
        self.target = _server(options, params)
        layers, head = _storage(options.scheme, params), _storage(options.head, params)
        tick("reading")
        self.model: Model = load_model(source)
        self.matrices = compressed_model(self.model, layers, head, tick)
        self.prompt = prompt_tokens(
            prompt,
            self.model.tokenizer,
            start=self.model.start,
            vocabulary=self.model.config.vocab_size,
        )
        tick("decompressing")
        self.session = DecaSession(self.model, self.matrices)

    def text_of(self, tokens: list[int]) -> str:
        """The text of tokens; of a model without a tokenizer their numbers."""
        if self.model.tokenizer is None:
            return "".join(f" {token}" for token in tokens)
        return self.model.tokenizer.decode(tokens)

    def check_on_rtl(
        self, simulation: Simulation = DEFAULT, tick: Tick = lambda _: None
    ) -> list[RtlTiles]:
        """Send the first tiles of every matrix of the first layer through the simulated RTL."""
        found = []
        for name in self.model.layers[0].linears:
            matrix = self.matrices[f"layers.0.{name}"]
            tick(name)
            # Of the upper row of tiles as many as there are, which a matrix of that shape has.
            width = tile_columns(matrix.scheme.config)
            count = min(RTL_TILES, -(-matrix.shape[1] // width))
            part = CompressedMatrix(
                matrix.scheme, (TILE_ROWS, count * width), matrix.tiles.first(count)
            )
            rng = np.random.default_rng(simulation.seed)
            values = encode(BF16, rng.normal(0, 1, (part.shape[1], 1)))
            run = run_matrix(self.options.block, part, values, simulation=simulation)
            if not run.equal:
                raise CheckError(
                    f"layers.0.{name}: {run.wrong} products with tiles of the RTL differ from"
                    " golden's"
                )
            found.append(RtlTiles(f"layers.0.{name}", count, run.cycles_per_tile))
        return found

    def generate(
        self,
        tokens: int,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        rtl: list[RtlTiles] | None = None,
        tell: Callable[[int], None] = lambda token: None,
    ) -> CpuGeneration:
        """Feed the prompt, then token after token; ``tell`` hears of each as it is chosen."""
        if tokens < 1:
            raise CommandError(f"tokens must be at least 1, not {tokens}")
        end, longest = len(self.prompt) + tokens - 1, self.model.config.max_position_embeddings
        if end > longest:
            raise CommandError(f"{end} tokens exceed the model's context of {longest}")
        logits = self.session.feed(self.prompt)
        found: list[int] = []
        while True:
            found.append(chosen(logits, temperature, np.random.default_rng((seed, len(found)))))
            tell(found[-1])
            if len(found) == tokens:
                break
            logits = self.session.feed(found[-1:])
        return self._result(found, rtl)

    def _result(self, found: list[int], rtl: list[RtlTiles] | None) -> CpuGeneration:
        machine = self.target.server
        assert machine is not None
        prompt = len(self.prompt)
        kinds = list(self._kinds())
        first, remarks = self._cost([Pass(Batch(((1, prompt),)), None)], prompt)
        passes = [Pass(Batch(((1, prompt + k),))) for k in range(1, len(found))]
        decode = self._cost(passes, len(passes)) if passes else None
        return CpuGeneration(
            model=self.model.name,
            block=self.params.slug,
            system=machine.name,
            clock_ghz=machine.clock / 1e9,
            scheme=self.options.scheme,
            head=self.options.head,
            prompt=self.prompt,
            tokens=found,
            text=self.text_of(found),
            matrices=kinds,
            core_cycles_per_token=round(sum(m.tiles * m.cycles_per_tile for m in kinds)),
            prefill=first,
            decode=None if decode is None else decode[0],
            rtl=rtl,
            remarks=decode[1] if decode is not None else remarks,
        )

    def _kinds(self) -> Iterator[MatrixTiles]:
        assert self.target.server is not None
        names = [*self.model.layers[0].linears, HEAD]
        for name in names:
            matrices = [
                self.matrices[name if name == HEAD else f"layers.{number}.{name}"]
                for number in range(1 if name == HEAD else len(self.model.layers))
            ]
            yield matrix_tiles(self.params, self.target.server, name, matrices)

    def _cost(self, passes: list[Pass], tokens: int) -> tuple[CpuCost, tuple[str, ...]]:
        steps = [self._step(one) for one in passes]
        weights = sum(matrix.size for matrix in self.matrices.values())
        joules: dict[str, float] = {}
        for step in steps:
            for name, value in step.joules_by_part.items():
                joules[name] = joules.get(name, 0.0) + value
        cost = CpuCost(
            tokens=tokens,
            milliseconds=1e3 * sum(step.seconds for step in steps),
            milliseconds_of_products=sum(
                step.ms_by_part.get(n, 0.0) for step in steps for n in PRODUCTS
            ),
            bytes_read=round(sum(weights + step.cache for step in steps)),
            joules=joules,
            bound=steps[-1].bound,
        )
        return cost, steps[-1].remarks

    def _step(self, one: Pass) -> Step:
        return step_on_server(self.model.config, self.target, self.options.scheme, one, None)


def _server(options: CpuOptions, params: DecaParams) -> Target:
    target = resolve_target(options.system, block=params)
    if target.server is None:
        raise CommandError(f"--system of a DECA is a server, not {options.system}")
    return target


def _storage(text: str, params: DecaParams) -> Storage:
    """A scheme as ``tilewright llm`` writes it: NAME[,OPTION=VALUE]...[_DENSITY%]."""
    weights = resolve_weight_scheme(text)  # refuses what is none
    found = WITH_DENSITY.fullmatch(text)
    name, comma, rest = (found["name"] if found else text).partition(",")
    scheme = resolve_scheme(OTHER_NAMES.get(name.lower(), name.lower()) + comma + rest)
    if not params.supports(weights.config):
        raise CommandError(f"{params.slug} cannot scale groups of {weights.config.group} elements")
    return Storage(scheme=scheme, density=float(weights.density) if weights.density < 1 else None)
