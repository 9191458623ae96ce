"""Programs of the Harmonia accelerator: assembler, layouts, golden machine, whole programs."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.bits import decode
from tilewright.golden.harmonia import traffic
from tilewright.golden.harmonia.attention import powers, row_sums
from tilewright.golden.harmonia.gemm import MixedBlocks, gemm, linear
from tilewright.golden.harmonia.offset import largest_halved
from tilewright.golden.harmonia_machine.cycles import program_cycles, task
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.isa import (
    Settings,
    assemble,
    disassemble,
    expand,
    first_hazard,
    words_of,
)
from tilewright.golden.harmonia_machine.layout import (
    activation_rows,
    halves_rows,
    halves_values,
    weight_rows,
)
from tilewright.golden.machine.assembly import AssemblyError
from tilewright.golden.machine.clock import schedule
from tilewright.golden.machine.layout import from_bytes, to_bytes
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import (
    Counter,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
    Sums,
)
from tilewright.golden.params.machine import Error, UnitOfWork
from tilewright.golden.weights import quantise
from tilewright.verify.harmonia_machine import builder
from tilewright.verify.stimuli.tensors import with_outliers

SMALL, PAPER = HarmoniaParams.preset("small"), HarmoniaParams.preset("paper")
PRESETS = pytest.mark.parametrize("params", [SMALL, PAPER], ids=["small", "paper"])

PROGRAM = """
configure lanes=0xff, tokens=160, dataflow=row_major   ; what follows
load fp16, row=0, rows=32, line=0x40, spread=8
learn source=0, elements=128, first=1, last=1
convert keys, source=0, elements=128, destination=0, low_halves=512, metadata=0
wait
gemm keys, source=0, operands=0, low_halves=512, metadata=0, destination=128, groups=4, tiles=10
largest s0, r128, elements=160, causal_limit=1
gemm keys, source=0, operands=0, metadata=0, destination=0, groups=4, tiles=1, maxima=1, register=5
powers r128, r128, s5, elements=160, scale=0.5, total=s6, causal_limit=1
clear low_halves=512, rows=4, part=1
tiled_gemm source=0, weights=16, destination=32, groups=4, tiles=8, token_tiles=2, keep=4
store fp16, row=0, rows=32, line=128
halt
"""


class Builder(builder.Builder):
    """Also places and reads tensors of fp16 values."""

    def product_results(self, memory, line, tokens, outputs):
        """fp16 patterns (tokens, outputs) that a tiled GEMM left at ``line``."""
        p = self.params
        tiles, token_tiles = -(-outputs // p.columns), -(-tokens // p.rows)
        rows = self._tiles(memory, line, token_tiles * tiles, p.tile_words)
        return halves_values(p, rows, tiles * p.columns)[:tokens, :outputs]

    def place_halves(self, values):
        """fp16 patterns (tokens, elements), each token tile from the start of a line."""
        unit = words_of(self.params, np.shape(values)[1])
        return self.place(Memory.FP16, halves_rows(self.params, values), unit)

    def halves_results(self, memory, line, tokens, elements):
        """fp16 patterns (tokens, elements) of token tiles from ``line`` on."""
        words, count = words_of(self.params, elements), -(-tokens // self.params.rows)
        rows = self._tiles(memory, line, count, words)
        return halves_values(self.params, rows, elements)[:tokens]

    def _tiles(self, memory, line, count, words):
        """Rows of so many tiles of ``words`` rows, each from the start of a line."""
        p = self.params
        size, start = p.lines(Memory.FP16, words) * p.line_bytes, line * p.line_bytes
        tiles = [memory[start + k * size :][:size] for k in range(count)]
        return np.concatenate([from_bytes(p, Memory.FP16, tile, words) for tile in tiles])


def random_weights(params, rng, outputs, inputs):
    return quantise(rng.standard_normal((outputs, inputs)), 4, group=4 * params.group)


# Assembler.


def test_text_and_words_name_the_same_instructions():
    program = assemble(PROGRAM)
    names = " ".join(x.opcode.name[:2] for x in program)
    assert names == "CO LO LE CO WA GE VE GE VE CL TI ST HA"
    assert assemble(disassemble(program)) == program
    assert assemble(disassemble([x.encode() for x in program])) == program
    assert program[0].encode() == 2 | 0xFF << 4 | 160 << 20 | 1 << 44
    assert program[7].encode() >> 114 == 1 | 5 << 1  # maxima, register
    assert program[8]["total"] == 6
    assert program[1].encode() == 3 | 3 << 4 | 0 << 7 | 32 << 23 | 0x40 << 39 | 8 << 85


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("configure dataflow=sideways", "line 1: unknown dataflow 'sideways'; known: column_.*"),
        ("configure lines=1", "line 1: configure has no operand 'lines'"),
        ("gemm queries, source=0", "line 1: unknown operand 'queries'; known: weights, keys, .*"),
        ("convert", "line 1: unknown conversion ''; known: activations, keys, values"),
        ("sum s0, r0, elements=1, sight=3", "line 1: sum has no operand 'sight'"),
        ("powers r0, r0, s0, elements=1", "line 1: total must be a scalar register sN, not ''"),
        ("powers r0, r0, s0, elements=1, total=s8", "line 1: vector: total must be 0..7, not 8"),
        ("sum s0, r0, elements=1, total=s1", "line 1: sum has no operand 'total'"),
    ],
)
def test_wrong_lines(text, message):
    with pytest.raises(AssemblyError, match=f"^{message}$"):
        assemble(text)


# Layouts.


@PRESETS
@pytest.mark.parametrize("memory", Memory)
def test_rows_and_lines_come_back(params, memory):
    rng = np.random.default_rng(memory)
    shape = (5, *params.row_shape(memory))
    rows = rng.integers(0, 1 << memory.element_bits, shape)
    data = to_bytes(params, memory, rows)
    assert len(data) == params.lines(memory, 5) * params.line_bytes
    assert np.array_equal(from_bytes(params, memory, data, 5), rows)
    assert int(np.prod(shape[1:])) * memory.element_bits == params.row_bits(memory)


@PRESETS
def test_where_elements_lie(params):
    rng = np.random.default_rng(2)
    elements = params.group + 3
    values = with_outliers(rng, params.rows + 1, elements)  # two token tiles
    rows = halves_rows(params, values)
    words = -(-elements // 4)
    assert len(rows) == 2 * words
    assert np.array_equal(halves_values(params, rows, elements)[: params.rows + 1], values)
    assert rows[1, params.rows - 1, 2] == values[params.rows - 1, 6]
    assert rows[words, 0, 1] == values[params.rows, 1] and not rows[words:, 1:].any()

    blocks = bfp.encode(params.numerics.activation, values)
    mantissas, signs, exponents = activation_rows(params, values)
    assert len(mantissas) == 4  # two tiles of two groups
    assert np.array_equal(mantissas[1, 1], blocks.mantissa[1, 1])
    assert np.array_equal(signs[2, 0], blocks.sign[params.rows, 0])
    assert exponents[0, 1] == blocks.exponent[1, 0]

    weights = random_weights(params, rng, params.columns + 1, elements)
    operands, scales = weight_rows(params, weights)
    assert len(operands) == len(scales) == 4
    assert np.array_equal(operands[1, 2, :3], weights.values[2, params.group :] & 15)
    assert operands[2, 0, 0] == weights.values[params.columns, 0] & 15
    assert scales[0, 3] == weights.scales[3, 0]


def test_refused_tensors():
    with pytest.raises(ValueError, match=r"^a tensor is \(tokens, elements\), not \(3,\)$"):
        halves_rows(SMALL, np.zeros(3, np.uint16))
    weights = quantise(np.ones((4, 8)), 8, group=8)
    with pytest.raises(ValueError, match=r"^weights must have 4 bits, not 8$"):
        weight_rows(SMALL, weights)
    with pytest.raises(
        ValueError, match=r"^a weight group of 12 is no multiple of the activations' 8$"
    ):
        weight_rows(SMALL, quantise(np.ones((4, 8)), 4, group=12))


# The machine.


@PRESETS
@pytest.mark.parametrize("dataflow", Dataflow)
@pytest.mark.parametrize("keep", [1, 3])
def test_product_is_a_linear_layer_of_ragged_sizes(params, dataflow, keep):
    rng = np.random.default_rng(keep)
    tokens, inputs, outputs = 2 * params.rows + 1, 2 * params.group + 3, 3 * params.columns + 2
    x = with_outliers(rng, tokens, inputs)
    weights = random_weights(params, rng, outputs, inputs)
    b = Builder(params)
    line = b.tiled_gemm(b.place_activations(x), tokens, weights, dataflow, keep)
    b.halt()
    memory = b.memory
    outcome = Machine(params, memory).run(b.program)
    assert outcome.error is Error.NONE and outcome.instruction == len(b.program) - 1
    want = linear(params.numerics, bfp.encode(params.numerics.activation, x), weights)
    assert np.array_equal(b.product_results(memory, line, tokens, outputs), want)
    parts = [step.instruction for step in outcome.trace if step.instruction.opcode is Opcode.STORE]
    assert len(parts) == -(-tokens // params.rows) * -(-outputs // params.columns)


@pytest.mark.parametrize("preset", ["decode", "small_decode"])
def test_a_shared_gemm_is_a_linear_layer_of_few_tokens(preset):
    """Tokens in all banks of equal number within a row group, where each finds all outputs.

    Sums may stay open over several gemms.
    """
    params, rng = HarmoniaParams.preset(preset), np.random.default_rng(9)
    groups, tiles, tokens = 3, 2 * params.row_groups, params.group_rows
    inputs, outputs = groups * params.group, tiles * params.columns
    x = with_outliers(rng, tokens, inputs)
    weights = random_weights(params, rng, outputs, inputs)
    b = Builder(params)
    contents = (
        *weight_rows(params, weights),
        *activation_rows(params, np.tile(x, (params.row_groups, 1))),
    )
    memories = Memory.OPERANDS, Memory.SCALES, Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS
    for memory, rows in zip(memories, contents, strict=True):
        b.load(memory, 0, len(rows), b.place(memory, rows))
    each, of_block = params.row_groups, params.row_groups * params.tile_words
    b.emit(
        Opcode.GEMM,
        operand=int(Operand.SHARED),
        **dict.fromkeys(("source", "operands", "metadata", "destination"), 0),
        groups=groups,
        tiles=each,
    )
    for first, count, register in ((0, 2, Sums.OPEN), (2, 1, Sums.FURTHER)):  # the second block
        b.emit(
            Opcode.GEMM,
            operand=int(Operand.SHARED),
            source=first,
            **dict.fromkeys(("operands", "metadata"), (groups + first) * each),
            destination=of_block,
            groups=count,
            tiles=each,
            register=int(register),
        )
    b.halt()
    machine = Machine(params, b.memory)
    assert machine.run(b.program).error is Error.NONE
    found = halves_values(
        params, machine.memories[Memory.FP16][: outputs // params.word_values], outputs
    )
    want = linear(params.numerics, bfp.encode(params.numerics.activation, x), weights)
    assert np.array_equal(found, np.tile(want, (params.row_groups, 1)))


@PRESETS
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 8, 2), (4, 4, 1), (2, 4, 2)])
@pytest.mark.parametrize("keep", [1, 2, 8])
def test_external_accesses_are_those_of_the_formulas(params, shape, keep):
    """K/k (M N) + N K and M/m (N K) + M N elements, with m and k the tokens and columns kept."""
    token_tiles, groups, tiles = shape
    rng = np.random.default_rng(3)
    tokens, inputs, outputs = (
        n * size for n, size in zip(shape, (params.rows, params.group, params.columns), strict=True)
    )
    weights = random_weights(params, rng, outputs, inputs)
    for dataflow in Dataflow:
        b = Builder(params)
        source = b.place_activations(with_outliers(rng, tokens, inputs))
        b.tiled_gemm(source, tokens, weights, dataflow, keep)
        b.halt()
        counts = Machine(params, b.memory).run(b.program).counts
        column_major = dataflow is Dataflow.COLUMN_MAJOR
        want = traffic.TiledShape(
            *(tokens, inputs, outputs),
            tile_rows=params.rows * (1 if column_major else keep),
            tile_columns=params.columns * (keep if column_major else 1),
        ).accesses(dataflow)
        mantissas, operands = counts[Counter.MANTISSA_LINES], counts[Counter.OPERAND_LINES]
        assert params.line_bytes * (mantissas + 2 * operands) == want
        assert counts[Counter.MATRIX_BUSY] == token_tiles * groups * tiles


@PRESETS
def test_gemm_reads_a_cache_in_the_precision_of_its_age(params):
    """Random contents; every length of the cache around the windows' ends."""
    p, rng = params, np.random.default_rng(5)
    machine = Machine(p, np.zeros(p.line_bytes, np.uint8))
    for memory, rows in machine.memories.items():
        if memory in (Memory.EXPONENTS, Memory.OPERAND_EXPONENTS):
            rows[:] = rng.integers(10, 20, rows.shape)
        elif memory is not Memory.FP16:
            rows[:] = rng.integers(0, 1 << memory.element_bits, rows.shape)
    window = p.initial + p.local
    for tokens in (1, p.initial, window, window + 1, window + p.columns, 2 * window - 1):
        tiles = -(-tokens // p.columns)
        text = (
            f"configure tokens={tokens}\n"
            f"gemm keys, source=0, operands=0, low_halves=128, metadata=0, destination=0,"
            f" groups=2, tiles={tiles}\nhalt"
        )
        outcome = machine.run(assemble(text))
        assert outcome.error is Error.NONE
        scores = halves_values(
            p, machine.memories[Memory.FP16][: tiles * p.tile_words], tiles * p.columns
        )
        operands = machine.memories[Memory.OPERANDS]
        sums = 0
        for tile in range(tiles):
            long = tile * p.columns < p.initial or (tile + 1) * p.columns > tokens - p.local
            place = tile if tile < p.initial // p.columns else None
            if place is None:
                place = p.initial // p.columns + tile % 8  # both presets have rings of 8 tiles
            high = operands[2 * tile : 2 * tile + 2].astype(np.int64)
            low = operands[128 + 2 * place :][:2].astype(np.int64)
            mantissa = 16 * high + low if long else high
            metadata = slice(2 * tile, 2 * tile + 2)
            b = MixedBlocks(
                machine.memories[Memory.OPERAND_SIGNS][metadata].swapaxes(0, 1).astype(bool),
                mantissa.swapaxes(0, 1).astype(np.uint8),
                machine.memories[Memory.OPERAND_EXPONENTS][metadata].T,
                np.full((p.columns, 2), 8 if long else 4, np.uint8),
                2 * p.group,
            )
            a = bfp.Blocks(
                machine.memories[Memory.SIGNS][:2].swapaxes(0, 1).astype(bool),
                machine.memories[Memory.MANTISSAS][:2].swapaxes(0, 1),
                machine.memories[Memory.EXPONENTS][:2].T,
                2 * p.group,
            )
            columns = slice(tile * p.columns, (tile + 1) * p.columns)
            assert np.array_equal(scores[:, columns], gemm(p.numerics, a, b))
            sums += 4 if long else 2
        assert outcome.counts[Counter.MATRIX_BUSY] == sums


def test_lanes_decide_what_is_written():
    machine = Machine(SMALL, np.arange(64, dtype=np.uint8))
    machine.memories[Memory.OPERANDS][:] = 7
    text = """
    configure lanes=2
    load fp16, row=0, rows=1, line=0
    add r1, r0, #1, elements=4
    convert keys, source=0, elements=3, destination=0, low_halves=8, metadata=0, part=1
    clear low_halves=16, rows=2, part=1
    halt
    """
    assert machine.run(assemble(text)).error is Error.NONE
    halves, operands = machine.memories[Memory.FP16], machine.memories[Memory.OPERANDS]
    assert not halves[:2, 0].any() and halves[:2, 1].all()
    # Token 1 of part 1 is column 3.
    assert (operands[:32, :3] == 7).all()
    assert not (operands[0, 3] == 7).all() and not (operands[8, 3] == 7).all()
    assert not operands[16:18, 3].any() and (operands[18] == 7).all()


@PRESETS
def test_a_load_spreads_the_values_of_one_bank(params):
    rng, bank, lanes = np.random.default_rng(5), params.rows - 1, [0]
    before, tile = (with_outliers(rng, params.rows, 12) for _ in range(2))
    b = Builder(params)
    old, new, result = (
        b.place_halves(before),
        b.place_halves(tile),
        b.reserve(params.lines(Memory.FP16, 3)),
    )
    b.load(Memory.FP16, 0, 3, old)
    b.configure(lanes=lanes)
    b.load(Memory.FP16, 0, 3, new, bank=bank)
    b.store(Memory.FP16, 0, 3, result)
    b.halt()
    memory = b.memory
    Machine(params, memory).run(b.program)
    want = before.copy()
    want[lanes] = tile[bank]
    assert np.array_equal(b.halves_results(memory, result, params.rows, 12), want)


def test_powers_of_what_a_causal_mask_shows():
    """In one pass what subtract, exponential and sum give in three."""
    rng = np.random.default_rng(7)
    scores, seen = with_outliers(rng, SMALL.rows, 23), 9 + np.arange(SMALL.rows)
    b = Builder(SMALL)
    b.load(Memory.FP16, 3, 6, b.place_halves(scores))
    b.program += assemble(
        """
        largest s1, r3, elements=23, causal_limit=9
        powers r16, r3, s1, elements=23, causal_limit=9, total=s2
        subtract r24, r3, s1, elements=23, causal_limit=9
        exponential r24, r24, elements=23
        sum s3, r24, elements=23
        halt
        """
    )
    machine = Machine(SMALL, b.memory)
    assert machine.run(b.program).error is Error.NONE
    raised = powers(scores, seen)
    halves = machine.memories[Memory.FP16]
    assert np.array_equal(halves_values(SMALL, halves[16:22], 23), raised)
    assert np.array_equal(halves[16:22], halves[24:30])
    assert np.array_equal(machine.scalars[2], machine.scalars[3])
    assert np.array_equal(machine.scalars[2], row_sums(raised))
    # Against real numbers: a power is off by half a place of its argument, which is below 32, and
    # by 0.545 of its own; sums in fp32 lose less than the rounding at the end.
    real = decode(FP16, scores)
    real[np.arange(23) >= seen[:, np.newaxis]] = -np.inf
    want = np.exp(real - real.max(axis=1, keepdims=True)).sum(axis=1)
    assert np.abs(decode(FP16, machine.scalars[2]) / want - 1).max() < 2**-7 + 2**-10


@pytest.mark.parametrize("dataflow", Dataflow)
@pytest.mark.parametrize("limit", [0, 1, 6])
@pytest.mark.parametrize("tokens", [3, 11, 12, 100])
def test_a_gemm_keeps_the_largest_results(dataflow, limit, tokens):
    """The largest value that every row sees in three tiles of keys, as ``largest`` finds it."""
    p, rng, token_tiles, tiles = SMALL, np.random.default_rng(tokens), 3, 3
    b = Builder(p)
    for memory, rows in (
        (Memory.MANTISSAS, token_tiles),
        (Memory.SIGNS, token_tiles),
        (Memory.EXPONENTS, token_tiles),
        (Memory.OPERANDS, 64),
        (Memory.OPERAND_SIGNS, 64),
        (Memory.OPERAND_EXPONENTS, 64),
    ):
        shape = (rows, *p.row_shape(memory))
        low, high = (12, 18) if "EXPONENTS" in memory.name else (0, 1 << memory.element_bits)
        b.load(memory, 0, rows, b.place(memory, rng.integers(low, high, shape), rows))
    b.wait()
    b.configure(tokens=tokens, dataflow=dataflow, causal_limit=limit)
    b.write(
        f"gemm keys, source=0, operands=0, low_halves=16, metadata=0, destination=0, groups=1,"
        f" tiles={tiles}, token_tiles={token_tiles}, maxima=1, register=6"
    )
    b.halt()
    machine = Machine(p, b.memory)
    assert machine.run(b.program).error is Error.NONE
    columns = tiles * p.columns
    rows = machine.memories[Memory.FP16][: token_tiles * tiles * p.tile_words]
    scores = decode(FP16, halves_values(p, rows, columns))
    scores[:, tokens:] = -np.inf
    if limit:
        scores[np.arange(columns) >= limit + np.arange(len(scores))[:, np.newaxis]] = -np.inf
    registers = [6, 7, 0]
    got = decode(FP16, machine.scalars[registers].reshape(-1))
    assert np.array_equal(got, scores.max(axis=1))
    assert not machine.scalars[1:6].any()


def test_learnt_offsets_are_those_of_the_window():
    rng = np.random.default_rng(8)
    keys = with_outliers(rng, 2 * SMALL.rows, 13)
    b = Builder(SMALL)
    line = b.place_halves(keys)
    for tile in range(2):
        b.configure(lanes=range(SMALL.rows - tile))  # the last token does not count
        b.load(Memory.FP16, 0, 4, line + tile)
        b.emit(Opcode.LEARN, source=0, elements=13, first=1 - tile, last=tile)
    b.halt()
    machine = Machine(SMALL, b.memory)
    assert machine.run(b.program).error is Error.NONE
    assert np.array_equal(machine.offsets[:13], largest_halved(keys[:-1], SMALL.offsets))


def test_saturation_is_remembered():
    text = "add r0, r0, #{}, elements=1\nconvert activations, source=0, elements=1, destination=0"
    for value, saturates in (("65504", False), ("inf", True), ("nan", True)):
        outcome = Machine(SMALL, np.zeros(64, np.uint8)).run(
            assemble(text.format(value) + "\nhalt")
        )
        assert outcome.saturated is saturates
        assert outcome.counts[Counter.GROUPS_CONVERTED] == SMALL.rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "add r0, r1, #1, elements=8",
            "instruction 0, vector, reads rows 1..2 of fp16 and writes rows 0..1 of fp16",
        ),
        (
            "convert keys, source=0, elements=16, destination=0, low_halves=1, metadata=0",
            "instruction 0, convert, writes rows 0..1 of operands and rows 1..2 of operands",
        ),
    ],
)
def test_programs_whose_result_depends_on_timing_are_found(text, message):
    assert str(first_hazard(SMALL, assemble(text + "\nhalt"))) == message
    b = Builder(SMALL)
    b.program += assemble(text)
    with pytest.raises(ValueError, match=f"^{message}$"):
        b.halt()


def test_parts_of_a_product_in_order():
    """Column-major: weights once, tokens again for every tile kept; row-major the reverse."""
    (x,) = assemble(
        "tiled_gemm source=0, weights=64, destination=128, groups=4, tiles=3, token_tiles=2, keep=2"
    )
    letters = {
        Dataflow.COLUMN_MAJOR: "ww aGSS aGSS w aGS aGS",
        Dataflow.ROW_MAJOR: "aa wGSS wGSS wGSS",
    }
    for dataflow, want in letters.items():
        got = ""
        for part in expand(SMALL, Settings(dataflow=dataflow), x):
            if part.opcode is Opcode.LOAD:
                got += {Memory.MANTISSAS: "a", Memory.OPERANDS: "w"}.get(Memory(part["memory"]), "")
            else:
                got += {Opcode.GEMM: "G", Opcode.STORE: "S"}.get(part.opcode, "")
        assert got == want.replace(" ", "")


def cycles_of(text, latency=5, **changes):
    """Begin and end of all work of a program."""
    params = replace(SMALL, **changes)
    memory = np.zeros(256 * params.line_bytes, np.uint8)
    outcome = Machine(params, memory).run(assemble(text + "\nhalt"))
    assert outcome.error is Error.NONE
    _, work = schedule(params, outcome, latency, lambda x, s: task(params, x, s, latency))
    assert program_cycles(params, outcome, latency)[Counter.CYCLES] >= max(w.end for w in work) + 1
    return work


def test_units_work_at_the_same_time_in_different_regions():
    """An instruction every four cycles, each in a region of its own; one in a taken one waits."""
    region = SMALL.region_rows(Memory.FP16)
    load, add, convert, store = cycles_of(
        "load fp16, row=0, rows=16, line=0\n"
        f"add r{region}, r{region}, #1, elements=64\n"
        f"convert activations, source={2 * region}, elements=16, destination=0\n"
        f"store fp16, row={region - 1}, rows=1, line=99"
    )
    assert [w.begin for w in (load, add, convert)] == [3, 7, 11]
    assert [w.unit for w in (load, add, convert)] == [
        *(UnitOfWork.LOAD, UnitOfWork.VECTOR, UnitOfWork.CONVERT)
    ]
    assert store.begin == load.end > convert.begin + 4  # the load holds the region
    assert [w.number for w in (load, add, convert, store)] == [0, 1, 2, 3]


def test_a_load_waits_for_a_store_of_its_lines_and_the_other_way_round():
    far = SMALL.region_rows(Memory.FP16)
    for first, second in ("store", "load"), ("load", "store"):
        for line, waits in (10, True), (12, False):
            one, other = cycles_of(
                f"{first} fp16, row=0, rows=12, line=8\n"
                f"{second} fp16, row={far}, rows=4, line={line}"
            )
            assert SMALL.lines(Memory.FP16, 12) == 3
            assert (other.begin == one.end) is waits


def test_what_a_conversion_of_values_sees():
    """Tokens beyond those that are there, and channels beyond the last, are zero."""
    rng = np.random.default_rng(10)
    values = with_outliers(rng, SMALL.group, 6)
    b = Builder(SMALL)
    words, line = 2, b.place_halves(values)
    for tile in range(SMALL.converter.loops):
        b.load(Memory.FP16, tile * words, words, line + tile)
    b.write("convert values, source=0, elements=6, destination=0, low_halves=8, tokens=5")
    b.halt()
    machine = Machine(SMALL, b.memory)
    outcome = machine.run(b.program)
    assert outcome.counts[Counter.GROUPS_CONVERTED] == 2 * SMALL.columns
    seen = values.copy()
    seen[5:] = 0
    blocks = bfp.encode(SMALL.numerics.activation, seen.T)
    operands = machine.memories[Memory.OPERANDS]
    got = 16 * operands[:2].astype(int) + operands[8:10]
    want = np.zeros((8, SMALL.group), int)
    want[:6] = blocks.mantissa[:, 0]
    assert np.array_equal(got.reshape(8, -1), want)
    assert machine.memories[Memory.OPERAND_EXPONENTS][1, 1] == blocks.exponent[5, 0]
