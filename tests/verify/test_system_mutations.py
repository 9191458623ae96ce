"""A bench that cannot fail proves nothing: errors planted all over the accelerators are found."""

import pytest

from tests.support.benches import names_of, run_changed_block
from tests.support.mutate import plant, read_errors

# Component and the test that must notice; its expression, and what to put there.
SYSTEMS = {
    "deca:small": """
a step too many for a full window: deca.window:Window cycles_equal_the_model
- last.eq(clear[-1] >= most_clear)
+ last.eq(clear[-1] > most_clear)
a pipeline bubble between tiles: deca.pe:DecaPE cycles_equal_the_model
- with m.If(ends | (~locked & ~pipeline.valid)):
+ with m.If(~locked & ~pipeline.valid):
a length eight codes too long: deca.loader:Loader every_error
- w.final & (after >= 8)
+ w.final & (after >= 16)
an answer to no request: deca.request_cam:RequestCam stray_answers_are_noted
- matches[k].eq(taken[k] & (self.key == own))
+ matches[k].eq(self.key == own)
rows that outlive a squash: deca.pe:DecaPE squash_at_any_time
- tout.clear.eq(kill[k])
+ tout.clear.eq(0)
a write under a command that waits: deca.registers:Registers tiles_through_registers
- free = ~(q.write & waiting)
+ free = Const(1)
seven bits looked up as six: deca.lut_array:LutArray every_configuration
- halves[lane % p.lookups(7)]
+ quarters[lane % p.lookups(7)]
the scale of the wrong group: deca.scaler:group_sizes every_configuration
- group_log2 == level for level in range(levels)
+ group_log2 == level + 1 for level in range(levels)
a line prefetched that was asked for: deca.prefetcher:Prefetcher prefetches_are_goldens
- with m.If((stages[4] & (fresh | _exceeds(end, self.next))) | self.take):
+ with m.If((stages[4] & fresh) | self.take):
""",
    "deca_axi:small": """
an error that is reported of every tile: deca.axi:DecaAxi tiles_of_many_configurations
- Cat(wrong).any()
+ Cat(ends).any()
an end of the second loader that is lost: deca.axi:DecaAxi tiles_of_many_configurations
- Cat(ends).any()
+ ends[0]
""",
    "harmonia:small": """
low halves from the wrong place of the ring: harmonia_machine.dataflow:SumFeeder steps_of_a_model
- initial + (unit & (ring - 1))
+ initial + (unit & (ring // 2 - 1))
a unit that grows old a token too late: harmonia_machine.dataflow:SumFeeder steps_of_a_model
- begins | (end > gemm.tokens)
+ begins | (end >= gemm.tokens)
activations that do not pass again: harmonia_machine.dataflow:SumFeeder random_programs
- Mux(tiles.last_token_tile, gemm.source, next_source)
+ next_source
results of the next token tile last: harmonia_machine.dataflow:ResultWriter random_programs
- Mux(gemm.row_major, following, down)
+ Mux(gemm.row_major, following, following)
weights without their sign: harmonia_machine.operands:OperandColumn random_programs
- Mux(self.integers, negative, word.signs[lane])
+ word.signs[lane]
banks written though their lane is off: harmonia_machine.buffers:HalvesRegion random_programs
- self.write.enable & self.write.lanes[k]
+ self.write.enable
low halves a beat too late: harmonia_machine.group_writer:GroupWriter random_programs
- Mux(taken_again, before, newest)
+ newest
padding that has an offset: harmonia_machine.conversion:ConversionPath random_programs
- & ~padding[k // p.rows].replicate(FP16.bits)
+
offsets used before they are found: harmonia_machine.conversion:ConversionPath random_programs
- writer.busy | (x.learn & ~offset.i.ready)
+ writer.busy
a causal mask that shows a token too many: harmonia_machine.vector:CausalFeeder steps_of_a_model
- element >= self.causal_limit + row
+ element > self.causal_limit + row
a largest score of keys that are not there: harmonia_machine.dataflow:ResultWriter steps_of_a_model
- column < gemm.tokens
+ column <= gemm.tokens
a sum of powers before the last one: harmonia_machine.vector:VectorPath steps_of_a_model
- (x.operation == Operation.POWERS) & (left == 1)
+ (x.operation == Operation.POWERS) & (left == 2)
weights that pass once: harmonia_machine.tiled_gemm:TiledGemmController external_memory_accesses
- m.d.sync += weights.eq(x.weights)
+ m.d.sync += weights.eq(weights + lines)
a range that may be a row too long: harmonia_machine.controller:Controller every_error
- x.end > p.depth(memory)
+ x.end > p.depth(memory) + 1
regions that two units have at a time: harmonia_machine.controller:Controller random_programs
- return Cat(*regions, scalars)
+ return Cat(Mux(opcode == 0, 1, 0), scalars)
""",
    "harmonia:small_decode": """
channels of a beat that change places: harmonia_machine.group_writer:GroupWriter random_programs
- first + k // p.rows * apart + j
+ first + k // p.rows * apart + (apart - 1 - j)
weights of the first row group for all: harmonia_machine.operands:OperandColumn random_programs
- Mux(self.shared, rows[name][k], word[name])
+ word[name]
results of another row group's token: harmonia_machine.dataflow:ResultWriter random_programs
- held[bank % p.group_rows]
+ held[bank // p.row_groups % p.group_rows]
an end before the last row: harmonia_machine.dataflow:ResultWriter random_programs
- ending.eq(tiles.last & shared)
+ ending.eq(tiles.last)
a block of tiles that begins too early: harmonia_machine.dataflow:SumFeeder random_programs
- m.d.comb += next_tile.eq(place + 1)
+ m.d.comb += next_tile.eq(first_place + 1)
sums that end though they stay open: harmonia_machine.dataflow:SumFeeder random_programs
- with m.If(stays_open(gemm)):
+ with m.If(stays_open(gemm) & ~last_group):
lines of the next load in rows of this one: machine.loader:Loader random_programs
- takes = active & lines_left.any()
+ takes = active
rows of the second load that are not held: machine.sequencer:Sequencer random_programs
- (self.load_count > k) & ~is_one_of(opcode, own)
+ (self.load_count > 2 * k) & ~is_one_of(opcode, own)
a load that takes its place while another ends: machine.move:under_way random_programs
- push & (count - pop == k)
+ push & (count == k)
""",
    "anda:small_decode": """
a word of weights for the wrong row groups: anda.weight_dispatcher:WeightDispatcher random_programs
- m.d.comb += own.eq(k >> span)
+ m.d.comb += own.eq(k >> 1)
a group's weights taken as whole too early: anda.weight_dispatcher:WeightDispatcher random_programs
- m.d.sync += [complete.eq(i.p.last), place.eq(Mux(i.p.last, 0, place + 1))]
+ m.d.sync += [complete.eq(1), place.eq(Mux(i.p.last, 0, place + 1))]
a pass that begins a block too late: anda_machine.address_generator:MatrixFeeder random_programs
- blocks_left.eq(blocks_left - most)
+ blocks_left.eq(blocks_left - 1)
sums that begin anew: anda_machine.address_generator:MatrixFeeder random_programs
- begins & ~self.continues
+ begins
rows of no tile that are not dropped: anda_machine.collector:Collector random_programs
- m.d.sync += dropping.eq(self.shared)
+ m.d.sync += dropping.eq(0)
results of another token's row: anda_machine.collector:Collector random_programs
- with m.If(((row.row ^ bank) & tokens) == 0):
+ with m.If(row.row[:1] == bank % 2):
a that is always the first bank's: anda_machine.vector_feeder:AttentionFeeder random_programs
- m.d.sync += bank.eq(Mux(weighs, word, result))
+ m.d.sync += bank.eq(Mux(weighs, word, 0))
a that goes on across banks: anda_machine.vector_feeder:AttentionFeeder random_programs
- Mux(self.across & dots, 0, pitch)
+ pitch
a row of another place in its beat: anda_machine.buffers:ActivationBuffer random_programs
- m.d.sync += word.eq(port.address[: len(word)])
+ m.d.comb += word.eq(port.address[: len(word)])
results of a beat a row apart: anda_machine.vector_writer:VectorWriter random_programs
- row.eq(row + self.params.beat_words)
+ row.eq(row + 1)
tensors that begin within a beat: anda_machine.controller:Controller every_error
- there & (row % size).any()
+ there & (row % 2).any()
ranges of banks that are too long: anda_machine.controller:Controller last_rows_are_usable
- Mux(x.across & ~weighs, 0, across), Mux(x.across, 0, along)
+ Mux(x.across & ~weighs, 0, across), along
sums of another gemm: anda_machine.controller:Controller every_error
- (self._kept.outputs != x.outputs) | (self._kept.span != x.span)
+ (self._kept.span != x.span)
""",
    "anda:small": """
a compression that reads a second tensor: anda_machine.top:Anda last_rows_are_usable
- controller.takes_b & ~is_compress
+ controller.takes_b
waits of results counted wrong: anda_machine.top:Anda random_programs
- results.valid & ~results.ready
+ results.valid & results.ready
""",
    "anda_axi:small": """
an end that is reported again: machine.axi:MachineAxi high_addresses
- ends = status.done & ~was_done
+ ends = status.done
""",
}
# A random program stands for a hundred cases: with three of them some errors never showed.
JOBS = {
    "deca:small": {"cases": 400},
    "deca_axi:small": {"cases": 8},
    "harmonia:small": {"cases": 1200, "stalls": (0.0,)},
    "harmonia:small_decode": {"cases": 1200, "stalls": (0.0,)},
    "anda:small_decode": {"cases": 1200, "stalls": (0.0,)},
    "anda:small": {"cases": 1200, "stalls": (0.0,)},
    "anda_axi:small": {},
}
ERRORS = {
    f"{block}, {name}": (block, *error)
    for block, errors in SYSTEMS.items()
    for name, error in read_errors(errors).items()
}


@pytest.mark.full
@pytest.mark.parametrize(("block", "component", "test", "old", "new"), ERRORS.values(), ids=ERRORS)
def test_planted_error_is_found(block, component, test, old, new, monkeypatch):
    plant(monkeypatch, component, old, new)
    result = run_changed_block(block, only=test, **JOBS[block])
    assert names_of(result) == {test}
    assert not result.passed


@pytest.mark.full
@pytest.mark.parametrize("block", SYSTEMS)
def test_without_an_error_nothing_is_found(block):
    tests = {test for found, _, test, *_ in ERRORS.values() if found == block}
    result = run_changed_block(block, only="|".join(tests), **JOBS[block])
    assert result.passed, result.failure
