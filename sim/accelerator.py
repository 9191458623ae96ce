"""Anda, Harmonia and what they are compared with: cycles, traffic and energy of whole GEMMs.

An output-stationary array of PEs computes a tile of ``rows`` by ``columns`` outputs at a time,
group after group of the inner dimension. One operand is double-buffered while the other streams
(``tilewright.golden.harmonia.traffic``), in the order that moves fewer bits. Transfers overlap with
computing, so a GEMM takes the longer of the two, after its first tile is loaded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from math import ceil
from typing import Any, Self

from tilewright.golden.anda.cycles import group_cycles
from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.harmonia.traffic import TiledShape
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params import anda_machine, harmonia_machine
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.golden.params.harmonia import ACTIVATION_BITS, HarmoniaPeParams, Mode
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams, Opcode, Operand
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.machine import MachineMemory, MachineParams
from tilewright.sim.calibration import measured
from tilewright.sim.workload import Gemm

LEAST_PARTS = 4  # of a product's weights: all but the first load while others are multiplied

MEGABYTE = 1 << 20
WEIGHT_BITS = 4 + FP16.bits / 128  # INT4 and a scale for 128 of them
REFERENCE_CYCLES = 16  # of a group of 64 in an fp16 PE of equal throughput: 4 lanes
VECTOR_LANES = 64  # Anda paper, Table III: FPUs of the vector unit, which has the attention


@dataclass(frozen=True, kw_only=True)
class Port:
    """The memory port of an accelerator as built; loads and stores are concurrent.

    Bits are those that the port could have moved in the time that it takes.
    """

    weight_bits: float  # of a weight, with a scale for every group
    activation_bits: Callable[[float], float]  # of an activation, of its bits in the formula
    result_bits: Callable[[float], float]  # of a stored result, of its bits in the formula
    last_bits: float  # of the last store, until it is answered


@dataclass(frozen=True, kw_only=True)
class Memories:
    """Where an accelerator as built has the operands and results of a product."""

    weights: MachineMemory
    weight_rows: int  # of a group of a tile's weights
    scales: MachineMemory
    groups: tuple[MachineMemory, ...]  # with a row for every group of a token tile's activations
    planes: MachineMemory | None  # with a row for every bit of these
    results: MachineMemory
    result_bits: int | None  # of a stored result; None: those of an activation
    activation_share: float  # of the activations' memory; results have the rest
    row_bits: Callable[[int], float]  # of a value in a row of activations


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """An array, its buffers and its memory; precision is per module of a layer.

    ``cycles`` gives those of one group for one output in a module, ``activation_bits`` the bits
    of one stored activation, both for the module's mantissa length. ``attention_rate`` is in
    multiply-adds a cycle of the whole machine, ``cache_bits`` the bits of ``tokens`` cached keys
    and values of one head.
    """

    name: str
    rows: int
    columns: int
    row_groups: int = 1  # that take other outputs where tokens are as few as the rows of one
    group: int
    start: Callable[[int], float]  # cycles of an instruction (a row of tiles) besides its tiles
    drain: int  # cycles in which a tile's outputs leave, while the next tile is computed
    clock: float
    cycles: Callable[[int], float]
    activation_bits: Callable[[int], float]
    lengths: dict[str, int] = field(hash=False)  # mantissa length by module
    attention_rate: Callable[[int], float]
    cache_bits: Callable[[int, int], float]
    activation_buffer: int = MEGABYTE
    weight_buffer: int = MEGABYTE
    weight_bits: float = WEIGHT_BITS  # of a stored weight, with its share of scales
    bandwidth: float = 256e9  # HBM2, bytes a second
    port: Port | None = None  # of the machine as built; else all transfers overlap with computing
    memories: Memories | None = None  # of a machine of this project
    # Least cycles of the heads that share keys, of one layer and sequence: queries, tokens that
    # there are and that are seen. None: those of the products, half of a prompt's square.
    attention_cycles: Callable[[LlmShape, int, int, int], float] | None = None
    capacity: float = 16e9  # bytes; of two stacks
    memory_pj_per_bit: float = 3.9
    buffer_pj_per_bit: float  # of the SRAM buffers
    # Watts by component during projections and during attention; empty where not known.
    power: dict[str, float] = field(hash=False, default_factory=dict)
    attention_power: dict[str, float] = field(hash=False, default_factory=dict)
    energy_from: str = ""  # where the watts are from, if from no paper
    area_mm2: float | None = None  # of the whole machine, where it is no one of the records
    scheme: str = ""  # in words, where it has no mantissa lengths
    cache_format: str = "fp16"

    def with_lengths(self, lengths: dict[str, int]) -> Self:
        """Return the machine with other mantissa lengths by module."""
        return replace(self, lengths=self.lengths | lengths)

    @property
    def mac_rate(self) -> float:
        """Multiply-adds a cycle in the projections of queries, keys and values."""
        return self.rows * self.columns * self.group / self.cycles(self.lengths["qkv"])


@dataclass(frozen=True, kw_only=True)
class GemmTime:
    """One GEMM with its repetitions: times in cycles, traffic in bits."""

    gemm: Gemm
    compute: float
    transfer: float  # cycles in which external memory is busy
    first: float  # cycles until the first tile is there
    alone: float = 0.0  # cycles of ``transfer`` in which the array waits
    memory_bits: float
    buffer_bits: float

    @property
    def cycles(self) -> float:
        """Cycles from the first transfer to the last result."""
        return max(self.compute, self.transfer - self.alone) + self.alone + self.first

    @property
    def bound(self) -> str:
        return "compute" if self.compute >= self.transfer else "memory"


def run(machine: Accelerator, gemms: Iterable[Gemm]) -> list[GemmTime]:
    """Return the time of each GEMM on its own, one after the other."""
    return [
        _attention(machine, p) if p.module == "attention" else _linear(machine, p) for p in gemms
    ]


def _linear(machine: Accelerator, gemm: Gemm) -> GemmTime:
    module = gemm.module if gemm.module in machine.lengths else "qkv"
    length = machine.lengths[module]
    bits = machine.activation_bits(length)
    groups = ceil(gemm.inner / machine.group)
    lines, across = ceil(gemm.rows / machine.rows), ceil(gemm.outer / machine.columns)
    tiles = lines * across
    few = gemm.rows * machine.row_groups <= machine.rows
    shared = machine.row_groups if few else 1  # tiles of columns at once
    compute = lines * ceil(across / shared) * max(groups * machine.cycles(length), machine.drain)
    compute += lines * machine.start(length)
    shape = TiledShape(
        rows=gemm.rows,
        inner=gemm.inner,
        columns=gemm.outer,
        tile_rows=_resident(machine.activation_buffer, gemm.inner * bits, gemm.rows),
        tile_columns=_resident(machine.weight_buffer, gemm.inner * machine.weight_bits, gemm.outer),
    )
    first = machine.group * (machine.rows * bits + machine.columns * machine.weight_bits)
    reads = tiles * groups * first
    results = gemm.rows * gemm.outer
    if machine.port is None:
        memory = min(shape.bits(order, bits, machine.weight_bits) for order in Dataflow)
        memory += results * bits
        return _times(machine, gemm, compute, memory, first, reads)
    weight_bits = machine.port.weight_bits
    if gemm.rows * gemm.inner * bits <= 8 * machine.activation_buffer:
        shape = replace(shape, tile_rows=gemm.rows)  # all activations stay
    # As programs do it: a quarter of the weights, or half of their buffer, comes before the rest.
    first = min(gemm.inner * gemm.outer * weight_bits / LEAST_PARTS, 4 * machine.weight_buffer)
    steps = ceil(gemm.rows / shape.tile_rows) * max(
        min(LEAST_PARTS, across), ceil(gemm.outer / shape.tile_columns)
    )
    written = results * machine.port.result_bits(bits)
    alone = written / steps + machine.port.last_bits
    stored = 4 + FP16.bits / machine.group
    both = []
    for order in Dataflow:
        read = shape.bits(order, machine.port.activation_bits(bits), weight_bits)
        memory = max(read, written) + alone
        moved = shape.bits(order, bits, stored) + results * bits
        time = _times(machine, gemm, compute, memory, first, reads, alone)
        both.append(replace(time, memory_bits=gemm.count * moved))
    return min(both, key=lambda time: (time.cycles, time.memory_bits))


def _resident(buffer: int, unit_bits: float, most: int) -> int:
    """Rows or columns of ``unit_bits`` in half a buffer; the other half takes the next ones."""
    return max(1, min(most, int(4 * buffer // unit_bits)))


def _attention(machine: Accelerator, gemm: Gemm) -> GemmTime:
    keys, width = (gemm.outer, gemm.inner) if gemm.name == "scores" else (gemm.inner, gemm.outer)
    compute = gemm.rows * gemm.inner * gemm.outer / machine.attention_rate(keys)
    cached = machine.cache_bits(keys, width) / 2  # keys or values
    # The cache is read again for queries that do not fit on chip at once; scores stay on chip.
    bits = machine.activation_bits(machine.lengths["qkv"])
    passes = ceil(gemm.rows * width * bits / (4 * machine.activation_buffer))
    memory = passes * cached + gemm.rows * width * bits
    reads = gemm.rows * gemm.inner * bits + ceil(gemm.rows / machine.rows) * cached
    return _times(machine, gemm, compute, memory, 0.0, reads)


def _times(
    machine: Accelerator,
    gemm: Gemm,
    compute: float,
    memory: float,
    first: float,
    reads: float,
    alone: float = 0.0,
) -> GemmTime:
    per_cycle = 8 * machine.bandwidth / machine.clock
    return GemmTime(
        gemm=gemm,
        compute=gemm.count * compute,
        transfer=gemm.count * memory / per_cycle,
        first=gemm.count * first / per_cycle,
        alone=gemm.count * alone / per_cycle,
        memory_bits=gemm.count * memory,
        buffer_bits=gemm.count * reads,
    )


def energy(machine: Accelerator, times: Sequence[GemmTime]) -> dict[str, float]:
    """Return joules by component; buffers and memory alone where no power is published."""
    parts: dict[str, float] = {}
    for time in times:
        attention = time.gemm.module == "attention"
        for name, watts in (machine.attention_power if attention else machine.power).items():
            parts[name] = parts.get(name, 0.0) + watts * time.compute / machine.clock
    parts["buffers"] = sum(t.buffer_bits for t in times) * machine.buffer_pj_per_bit * 1e-12
    parts["memory"] = sum(t.memory_bits for t in times) * machine.memory_pj_per_bit * 1e-12
    return parts


def fixed(value: float) -> Callable[[int], float]:
    """Return a value that is the same for any mantissa length."""
    return lambda length: value


def _fp16_cache(tokens: int, width: int) -> float:
    return 2.0 * tokens * width * FP16.bits


def _block_bits(group: int) -> Callable[[int], float]:
    return lambda length: BlockFormat(group=group, mantissa_bits=length).group_bits / group


# Published watts are those of the published array. An array of another size has the same power per
# multiplier, so that equal work costs equal energy. Leakage and clock are in these watts, and the
# papers do not say how much they are: here they too are proportional to the multipliers, and an
# array that waits for memory costs nothing.
PAPER_ANDA, PAPER_HARMONIA = AndaParams(), HarmoniaParams()
# Anda paper, Table III: power of the matrix unit and of both buffers at LLaMA-13B within 1%, at
# 285 MHz. In a cycle the activation buffer gives one word of 64 bits to each of 16 rows, so a bit
# read costs 16.94 mW / (285 MHz * 1024).
ANDA_CLOCK = 285e6
ANDA_BUFFER_PJ = 16.94e-3 / (ANDA_CLOCK * PAPER_ANDA.rows * PAPER_ANDA.group) * 1e12
ANDA_POWER = {"compute": 54.34e-3, "compressor": 1.06e-3}
ANDA_VECTOR_POWER = {"vector": 0.87e-3}


def _array_power(
    watts: dict[str, float], paper: MachineParams, built: MachineParams
) -> dict[str, float]:
    """Return the published watts, in proportion to the multipliers of an array."""
    mine, theirs = (p.rows * p.columns * p.group for p in (built, paper))
    return {name: mine / theirs * value for name, value in watts.items()}


@cache
def _anda_start(params: AndaParams, length: int) -> float:
    # Imported here: most results need nothing of the accelerator's programs.
    from tilewright.golden.anda_machine.cycles import gemm_cycles

    inner = params.group * params.rows  # long enough that the outputs never wait
    tile = params.rows * group_cycles(length)
    return gemm_cycles(params, length, length, inner, params.columns).cycles - tile


def anda(lengths: dict[str, int] | None = None, params: AndaParams = PAPER_ANDA) -> Accelerator:
    """Return Anda's bit-serial array; ``lengths`` default to the paper's example of OPT-125M."""
    return Accelerator(
        name="anda",
        rows=params.rows,
        columns=params.columns,
        group=params.group,
        start=lambda length: _anda_start(params, length),
        drain=params.rows,  # a row a cycle: tilewright.golden.anda.cycles
        clock=ANDA_CLOCK,
        cycles=lambda length: measured("anda.cycles", group_cycles(length)),
        activation_bits=_block_bits(params.group),
        lengths={"qkv": 7, "o": 7, "u": 6, "d": 5} | (lengths or {}),
        attention_rate=lambda keys: VECTOR_LANES,
        cache_bits=_fp16_cache,
        buffer_pj_per_bit=ANDA_BUFFER_PJ,
        power=_array_power(ANDA_POWER, PAPER_ANDA, params),
        attention_power=ANDA_VECTOR_POWER,  # the vector unit is no part of the array
        memories=Memories(
            weights=anda_machine.Memory.WEIGHTS,
            weight_rows=params.mxu.weight_beats,
            scales=anda_machine.Memory.SCALES,
            groups=(anda_machine.Memory.EXPONENTS,),
            planes=anda_machine.Memory.ACTIVATIONS,
            results=anda_machine.Memory.ACTIVATIONS,
            result_bits=None,
            activation_share=0.5,  # results have the other half
            row_bits=lambda length: 1.0,
        ),
    )


# Cycles of a group of 64 in PEs of equal throughput (Anda paper, Sections V-C and V-D): shorter
# mantissas make bit-parallel PEs proportionally faster at equal area.
BASELINES = {
    "fp-fp": REFERENCE_CYCLES,
    "fp-int": REFERENCE_CYCLES,
    "ifpu": REFERENCE_CYCLES,
    "figna": REFERENCE_CYCLES,
    "figna-m11": 11,
    "figna-m8": 8,
}


def baseline(name: str) -> Accelerator:
    """Return a machine of equal peak throughput and equal buffers that stores fp16 activations."""
    return replace(
        anda(),
        name=name,
        cycles=fixed(BASELINES[name]),
        start=fixed(0.0),
        activation_bits=lambda length: float(FP16.bits),
        power={},
        attention_power={},
    )


HARMONIA_CLOCK = 300e6
HARMONIA_WATTS = 0.542  # Harmonia paper, Section V-A: the whole chip, buffers too


@cache
def _harmonia_start(params: HarmoniaParams) -> float:
    # Imported here: most results need nothing of the accelerator's programs.
    from tilewright.golden.harmonia_machine.cycles import gemm_cycles
    from tilewright.golden.harmonia_machine.isa import Instruction, Settings

    groups = params.columns  # long enough that the outputs never wait
    fields = dict.fromkeys((field.name for field in Instruction.FIELDS[Opcode.GEMM]), 0)
    fields |= {"operand": int(Operand.WEIGHTS), "groups": groups, "tiles": 1, "token_tiles": 1}
    return gemm_cycles(params, Settings(), Instruction(Opcode.GEMM, fields)).cycles - groups


def _harmonia_power(params: HarmoniaParams) -> dict[str, float]:
    """Return the array's watts: those of the paper's chip, less what its buffers take."""
    paper, pe = PAPER_HARMONIA, HarmoniaPeParams(group=PAPER_HARMONIA.group)
    bits = _block_bits(paper.group)(ACTIVATION_BITS)
    read = paper.group * (paper.rows * bits + paper.columns * WEIGHT_BITS)  # for one group
    per_group = float(pe.group / pe.macs_per_cycle(Mode.M8W4))
    buffers = read / per_group * HARMONIA_CLOCK * ANDA_BUFFER_PJ * 1e-12
    return _array_power({"compute": HARMONIA_WATTS - buffers}, paper, params)


def harmonia_rate(mode: Mode, pe: HarmoniaPeParams | None = None) -> float:
    """Return the multiply-adds a cycle of Harmonia's processing element in a mode."""
    return float((pe or HarmoniaPeParams()).macs_per_cycle(mode)) / measured("harmonia.cycles")


def harmonia(params: HarmoniaParams = PAPER_HARMONIA) -> Accelerator:
    """Return Harmonia's array with the cycles of ``tilewright.golden.params.harmonia``."""
    pe, cached = HarmoniaPeParams(group=params.group), params.cache
    power = _harmonia_power(params)

    def attention_rate(keys: int) -> float:
        """Recent and initial tokens at 8 bits take twice the time."""
        high = min(keys, cached.initial + cached.local)
        fast, slow = (harmonia_rate(m, pe) for m in (Mode.M8M4, Mode.M8M8))
        return params.rows * params.columns * keys / ((keys - high) / fast + high / slow)

    return Accelerator(
        name="harmonia",
        rows=params.rows,
        columns=params.columns,
        row_groups=params.row_groups,
        group=params.group,
        start=lambda length: _harmonia_start(params),
        drain=params.columns,  # a column a cycle: tilewright.golden.harmonia.array
        clock=HARMONIA_CLOCK,
        cycles=lambda length: pe.group / harmonia_rate(Mode.M8W4, pe),
        activation_bits=_block_bits(params.group),
        lengths=dict.fromkeys(("qkv", "o", "u", "d"), ACTIVATION_BITS),
        attention_rate=attention_rate,
        cache_format="harmonia",
        cache_bits=lambda tokens, width: float(cache_size(cached, tokens, width).bits),
        buffer_pj_per_bit=ANDA_BUFFER_PJ,
        power=power,
        attention_power=power,
        memories=Memories(
            weights=harmonia_machine.Memory.OPERANDS,
            weight_rows=1,
            scales=harmonia_machine.Memory.SCALES,
            groups=(
                harmonia_machine.Memory.MANTISSAS,
                harmonia_machine.Memory.SIGNS,
                harmonia_machine.Memory.EXPONENTS,
            ),
            planes=None,
            results=harmonia_machine.Memory.FP16,
            result_bits=FP16.bits,
            activation_share=1.0,
            row_bits=_block_bits(params.group),  # with signs and exponents
        ),
        attention_cycles=lambda model, *seen: _harmonia_attention(params, model, *seen),
    )


@lru_cache(maxsize=4096)
def _harmonia_attention(
    params: HarmoniaParams, model: LlmShape, queries: int, tokens: int, window: int
) -> float:
    """Return the least cycles of the heads that share keys and values, in one sequence and layer.

    The last ``queries`` of ``tokens`` tokens are multiplied by the tokens before them and by
    themselves, at most ``window`` of them. A query's row of the array takes a sum for each group of
    channels of every tile of keys, two where keys have 8 bits, and no fewer cycles than a tile has
    columns; then as many for its values.
    """
    p, channels = params, model.head_dim
    sharing = model.num_attention_heads // model.num_key_value_heads
    transfer = cache_size(p.cache, min(tokens, window), channels).bits / p.beat_bits
    if queries == 1:
        sums = _tile_sums(p, channels, min(tokens, window), tokens)
        return max(ceil(sharing / p.rows) * sums, transfer)
    total = 0
    for end in range(tokens - queries + p.rows, tokens + p.rows, p.rows):
        last = min(end, tokens)
        total += _tile_sums(p, channels, min(last, window), tokens)
    return max(sharing * total, transfer)


def _tile_sums(p: HarmoniaParams, channels: int, keys: int, tokens: int) -> int:
    """Cycles of the array for a token tile that sees ``keys`` of a cache of ``tokens``."""
    groups, across = ceil(channels / p.group), ceil(channels / p.columns)
    tiles, units = ceil(keys / p.columns), ceil(keys / p.group)
    long = sum(p.has_low(Operand.KEYS, unit, tokens) for unit in _ends(p, Operand.KEYS, tiles))
    scores = (tiles - long) * max(groups, p.columns) + long * max(2 * groups, p.columns)
    low = sum(p.has_low(Operand.VALUES, unit, tokens) for unit in _ends(p, Operand.VALUES, units))
    return scores + across * max(units + low, p.columns)


def _ends(p: HarmoniaParams, operand: Operand, units: int) -> list[int]:
    """Return the units among which those of 8 bits are: the first, and the newest."""
    first, last = p.initial_slots(operand), p.ring(operand) + 1
    if units <= first + last:
        return list(range(units))
    return [*range(first), *range(units - last, units)]


# Accelerators of this project by the block that they are.
BUILT: dict[str, Callable[[Any], Accelerator]] = {
    "anda": lambda params: anda(params=params),
    "harmonia": harmonia,
}


PUBLISHED = {"anda": PAPER_ANDA, "harmonia": PAPER_HARMONIA}  # sizes


def as_built(params: MachineParams, *, latency: int = LATENCY, interval: float = 1) -> Accelerator:
    """Return the formula's machine with the memory port and the buffers of the accelerator.

    At most ``dma_lines`` requests are outstanding in a channel, each for ``latency`` and three more
    cycles, and ``interval`` cycles are between two lines. Weights are loaded a beat a cycle where
    the buffers take beats, all else a line or a row. All transfers overlap with computing, but for
    the first part of the weights and the last results.
    """
    machine = BUILT[params.block](params)
    memories = machine.memories
    assert memories is not None
    # Share of the cycles in which a channel brings a line.
    share = min(1.0, params.dma_lines / (latency + 3), 1 / interval)
    per_cycle = share * params.beat_bits
    line_share = min(1.0, params.memory_channels * share)  # of the cycles in which one is taken
    tile_values = params.rows * params.group  # of a group of all tokens of a tile

    def load_cycles(memory: MachineMemory) -> float:
        if params.beat_rows(memory):
            return params.row_bits(memory) / per_cycle
        return max(1.0, params.row_bits(memory) / params.line_bits / line_share)

    def activation_bits(bits: float) -> float:
        cycles = sum(load_cycles(memory) for memory in memories.groups)
        if memories.planes is not None:
            cycles += bits * load_cycles(memories.planes)
        return cycles * per_cycle / tile_values

    group_cycles = memories.weight_rows * load_cycles(memories.weights)
    group_cycles += load_cycles(memories.scales)
    row_bits = params.row_bits(memories.results)
    apart = max(1.0, interval / params.memory_channels)  # cycles between stored lines
    stored = max(1.0, apart * row_bits / params.line_bits) * per_cycle / row_bits

    def result_bits(bits: float) -> float:
        return stored * (memories.result_bits or bits)

    plane_bits = memories.row_bits(ACTIVATION_BITS)
    rows = params.activation_rows  # type: ignore[attr-defined]
    weight_rows = params.depth(memories.weights)
    return replace(
        machine,
        bandwidth=per_cycle / 8 * machine.clock,
        activation_buffer=round(memories.activation_share * rows * tile_values * plane_bits / 8),
        weight_buffer=weight_rows * params.row_bits(memories.weights) // 8,
        port=Port(
            weight_bits=group_cycles * per_cycle / (params.group * params.columns),
            activation_bits=activation_bits,
            result_bits=result_bits,
            last_bits=latency * per_cycle,
        ),
    )


def _with_energy(name: str) -> Accelerator:
    """Return a baseline whose PEs cost Anda's published energy by the ratio of the records."""
    # Imported here: PEs of the records take their rates from this module.
    from tilewright.sim.pe_units import anda_fj, pe_fj

    machine, length = anda(), anda().lengths["qkv"]
    longer = machine.cycles(length) / BASELINES[name]  # than a group takes in the baseline
    watts = machine.power["compute"] * longer * pe_fj(name) / anda_fj(length)
    return replace(
        baseline(name),
        power={"compute": watts},
        attention_power=ANDA_VECTOR_POWER,
        energy_from="energy of baselines is Anda's published one by the ratio of the netlists",
    )


ACCELERATORS: dict[str, Callable[[], Accelerator]] = {
    "anda": anda,
    "harmonia": harmonia,
    **{name: (lambda name=name: _with_energy(name)) for name in BASELINES},  # type: ignore[misc]
}


def stored_weights(model: LlmShape, bits: float = WEIGHT_BITS) -> float:
    """Return the bytes of a model's weights: projections and head packed, other tables fp16."""
    packed = model.linear_weights + model.head_weights
    tables = model.parameters - model.linear_weights
    rest = tables - (0 if model.tie_word_embeddings else model.head_weights)
    return (packed * bits + rest * FP16.bits) / 8
