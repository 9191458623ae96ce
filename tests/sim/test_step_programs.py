"""Passes of whole models: the cycles are those of the programs that would run."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.cli.model_tables import layer_table
from tilewright.golden.anda_machine.attention import attention_program
from tilewright.golden.anda_model import lines as anda_lines
from tilewright.golden.anda_model import step as anda_step
from tilewright.golden.harmonia_machine.decode_attention import CachedHead, decode_attention
from tilewright.golden.harmonia_machine.layer_attention import layer_attention
from tilewright.golden.harmonia_machine.layer_work import LayerWork
from tilewright.golden.harmonia_model.head import head_program
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.step import step_program
from tilewright.golden.llm.tiny import SHAPES
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.compiled_steps import (
    anda_compiled_time,
    anda_plan,
    compiled_plan,
    compiled_steps,
    compiled_time,
)
from tilewright.sim.kept_times import kept
from tilewright.sim.layer_programs import (
    _few_blocks,
    _product,
    _Shape,
    anda_decode_attention,
    anda_glue,
    decode_attention_time,
    layer_glue,
    prompt_attention,
    streamed_gemm_time,
)
from tilewright.sim.layer_residuals import layer_residuals
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.programs import gemm_programs
from tilewright.sim.prompt_programs import anda_prompt_time, counted_prompt
from tilewright.sim.schedule import ProgramTime, program_time
from tilewright.sim.serving import Question, ask
from tilewright.sim.step_programs import _between, prompt_time, step_time
from tilewright.sim.streamed_programs import (
    streamed_decode_time,
    streamed_prompt_time,
)
from tilewright.sim.sweep import points_of, sweep
from tilewright.sim.workload import Batch, Gemm, Pass

SMOLLM2 = resolve_model("smollm2-135m")


def one(tokens, *, prompt=False, sequences=1):
    return Pass(Batch(((sequences, tokens),)), None if prompt else 1)


@pytest.mark.parametrize(
    ("context", "prompt"),
    [(1, False), (17, False), (300, False), (1, True), (20, True), (48, True)],
)
def test_three_layers_tell_how_long_all_take(context, prompt):
    """Every instruction of every layer, against what is added up."""
    params = HarmoniaParams()
    plan = compiled_plan(params, SMOLLM2, context)
    steps = list(compiled_steps(plan, context)) if prompt else [(context - 1, 1)]
    assert sum(count for _, count in steps) == (context if prompt else 1)
    found = compiled_time(plan, steps, 60)
    lines = Lines(plan, 1 << 16)
    whole = [step_program(plan, lines, first, count) for first, count in steps]
    times = [program_time(params, program, 60) for program in whole]
    layers = [time for name, time in found.items() if name != "head"]
    for field in ("cycles", "load", "store", "gemm", "vector", "convert"):
        assert sum(getattr(t, field) for t in layers) == sum(getattr(t, field) for t in times)
    assert found["head"] == program_time(params, head_program(plan, lines), 60)


def test_a_token_takes_what_its_programs_take():
    """As ``tilewright run`` counts it: 2.4 times the formula, in which nothing else has a place."""
    found = step_time(HarmoniaParams(), SMOLLM2, one(16), latency=100)
    assert found.kind == "programs" and not found.missing
    plan = compiled_plan(HarmoniaParams(), SMOLLM2, 16)
    programs = step_program(plan, Lines(plan), 15, 1), head_program(plan, Lines(plan))
    assert found.cycles == sum(program_time(plan.params, x, 100).cycles for x in programs)
    assert list(found.parts) == ["projections", "attention", "feed-forward", "head"]
    assert 2.3 < found.ratio < 2.5
    assert all(part.cycles > part.bound > 0 for part in found.parts.values())
    assert found.programs.gemm < found.cycles


def test_longer_caches_and_prompts_take_longer():
    times = [step_time(HarmoniaParams(), SMOLLM2, one(n)).cycles for n in (16, 256, 1024)]
    assert times == sorted(times)
    prompt = step_time(HarmoniaParams(), SMOLLM2, one(64, prompt=True))
    assert times[0] < prompt.cycles < 64 * times[0]


def test_an_answer_says_where_it_comes_from(capsys):
    built = answer(SMOLLM2, "harmonia", context=16)
    assert built.kind == "programs" and built.latency_ms > 2 * built.formula_ms
    assert any("times the formula's bound" in remark for remark in built.remarks)
    for system, settings in (("harmonia", {"bandwidth": "100GB/s"}), ("fp-fp", {})):
        other = answer(SMOLLM2, system, settings=settings, context=16)
        assert other.kind == "formula" and other.latency_ms == other.formula_ms
        assert any(remark.startswith("formula only: ") for remark in other.remarks)
    server = answer(SMOLLM2, "spr-hbm")
    assert server.kind == "predicted" and server.formula_ms is None
    assert main(["llm", "smollm2-135m", "--system", "harmonia", "--context", "16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "programs"


def test_a_narrow_port_takes_longer():
    wide, narrow = (
        step_time(resolve(spec), SMOLLM2, one(64)).cycles
        for spec in ("harmonia", "harmonia,memory_channels=1,line_bytes=64,dma_lines=8")
    )
    assert narrow > 2 * wide


LLAMA = resolve_model("llama-2-7b")


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("harmonia", (520, 1024, 512)),
        ("harmonia", (40, 4096, 4096)),
        ("harmonia", (200, 11008, 300)),
        ("harmonia,memory_channels=1,line_bytes=64,dma_lines=8", (700, 1024, 1500)),
        ("harmonia", (330, 4096, 1100)),
        ("anda", (700, 4096, 1600)),
        ("anda", (900, 1024, 512)),
        ("anda", (70, 4096, 2048)),
        ("anda", (120, 11008, 200)),
    ],
)
def test_few_blocks_tell_how_long_a_product_takes(spec, shape):
    """In both orders, every instruction, against what is added up."""
    params, (rows, inner, outer) = resolve(spec), shape
    product = Gemm(name="p", module="o", rows=rows, inner=inner, outer=outer)
    kinds = list(itertools.product(Dataflow, (False, True)))
    whole = []
    for flow, large in kinds:
        gemm = gemm_programs(params, product, flow, 6, large_blocks=large)
        whole.append(program_time(params, gemm.program(), 30))
    found = [_product(params, rows, _Shape(inner, outer, 6, 6, *kind), 30) for kind in kinds]
    assert found == whole
    fastest = streamed_gemm_time(params, product, latency=30, length=6)
    least = min(time.cycles for time in whole)
    assert least <= fastest.cycles <= 1.02 * least


@pytest.mark.parametrize("tokens", [100, 121])
def test_few_token_tiles_tell_how_long_the_work_between_products_takes(tokens):
    model = replace(SMOLLM2, hidden_size=1152)
    params = HarmoniaParams()
    found = layer_glue(params, model, tokens, 30)
    work = LayerWork(params)
    work.gated(tokens, model.intermediate_size, gate=0, up=1 << 30, results=1 << 31)
    assert found["silu"] == program_time(params, work.program, 30)
    work = LayerWork(params)
    work.norm(tokens, 1152, source=0, gain=1 << 30, results=1 << 31, added=3 << 30)
    assert found["norms"] == program_time(params, work.program, 30).times(2)


@pytest.mark.parametrize(("heads", "sequences", "sharing"), [(9, 1, 1), (12, 3, 1), (11, 1, 3)])
def test_few_heads_tell_how_long_many_take(heads, sequences, sharing):
    params = HarmoniaParams()
    found = decode_attention_time(params, sharing, 200, 64, heads, sequences, 30)
    lengths = [200] if sequences == 1 else [193, 194, 195]
    each = [CachedHead.empty(params, n - 1, 64, sharing) for n in lengths]
    program = decode_attention(params, lengths, [each] * heads).builder.program
    assert found == program_time(params, program, 30)
    # More sequences than a token tile has banks take several of them.
    many = decode_attention_time(params, sharing, 200, 64, heads, 8 + sequences, 30)
    assert many.cycles > found.cycles


def test_layers_larger_than_the_memories_are_programs():
    """Llama-2-7B: everything is programs, and within a third of the formula's bound."""
    params = HarmoniaParams()
    for step in (one(1024), one(1024, sequences=16), one(512, prompt=True)):
        found = step_time(params, LLAMA, step)
        assert found.kind == "programs" and not found.missing
        assert 1.0 < found.ratio < 1.33
        names = {"norms", "q", "k", "v", "rotation", "attention", "conversions", "o", "head"}
        assert names | {"gate", "up", "silu", "down"} == set(found.parts)
        assert found.parts["norms"].bound == 0 < found.parts["norms"].cycles


def test_formulas_that_stand_for_programs_are_named():
    for model in ("opt-6.7b", "mixtral-8x7b"):
        found = step_time(HarmoniaParams(), resolve_model(model), one(64))
        assert found.kind == "formula" and found.missing.startswith("no programs for")
        assert found.cycles == found.bound


def test_layers_larger_than_the_memories_are_programs_of_anda():
    for step in (one(1024), one(1024, sequences=17), one(100, prompt=True)):
        found = step_time(AndaParams(), LLAMA, step)
        assert found.kind == "programs" and not found.missing
        names = {"norms", "q", "k", "v", "rotation", "cache", "attention", "conversions", "o"}
        assert names | {"gate", "up", "silu", "down", "head"} == set(found.parts)
        assert found.parts["norms"].bound == 0 < found.parts["norms"].cycles


def test_contexts_longer_than_the_memories_are_programs():
    """Caches stream: four times the context takes four times as long, or sixteen for a prompt."""
    params = HarmoniaParams()
    short, long = (step_time(params, LLAMA, one(n)) for n in (32768, 131072))
    assert short.kind == long.kind == "programs" and not long.missing
    found = long.parts["attention"]
    assert found.cycles / short.parts["attention"].cycles == pytest.approx(4, rel=0.1)
    assert found.bound < found.cycles < 1.25 * found.bound
    times = [streamed_prompt_time(params, 1, n, 64, 30) for n in (16384, 65536)]
    assert times[1].cycles / times[0].cycles == pytest.approx(16, rel=0.1)
    # A prompt that does not fit streams; one that hardly does so, too.
    prompt = step_time(params, LLAMA, one(4096, prompt=True))
    assert prompt.kind == "programs" and prompt.ratio < 1.3


def test_heads_that_share_keys_fill_the_rows_of_the_array():
    """Within 1.3 times the bound, all of a layer's attention; the page says how much longer."""
    model = replace(resolve_model("llama-3.1-8b"), num_hidden_layers=1)
    text = " ".join((Path(__file__).parents[2] / "docs" / "model.md").read_text().split())
    for params, words in (
        (HarmoniaParams(), "attention takes {:.1f} times its bound"),
        (HarmoniaParams.preset("wide"), "bound, {:.1f} times with the wide converter"),
    ):
        found = step_time(params, model, one(4096)).parts["attention"]
        assert found.cycles <= 1.3 * found.bound
        assert words.format(found.cycles / found.bound) in text
    found = step_time(HarmoniaParams(), model, one(1024)).parts["attention"]
    assert f"At 1,024 tokens it is {found.cycles / found.bound:.1f} times" in text


@pytest.mark.parametrize(
    ("tokens", "caches"), [(4000, 3), (5632, 3), (6003, 2), (100, 15), (1200, 12), (5600, 13)]
)
def test_few_parts_and_heads_tell_how_long_many_take(tokens, caches):
    params = HarmoniaParams()
    found = streamed_decode_time(params, 2, tokens, 64, caches, 30)
    empty = CachedHead.empty(params, tokens - 1, 64, 2)
    whole = layer_attention(params, [tokens], [[empty]] * caches, checked=False)
    assert found == program_time(params, whole.builder.program, 30)


@pytest.mark.parametrize(("sharing", "channels", "tokens"), [(1, 128, 2100), (3, 64, 2048)])
def test_short_prompts_of_anda_tell_how_long_long_ones_take(sharing, channels, tokens):
    params = AndaParams()
    found = anda_prompt_time(params, sharing, tokens, channels, 30)
    program = attention_program(
        params, heads=sharing, kv_heads=1, head_dim=channels, context=tokens, tokens=tokens
    )
    assert found == program_time(params, program, 30)


@pytest.mark.parametrize("params", [AndaParams(), HarmoniaParams()], ids=["anda", "harmonia"])
@pytest.mark.parametrize("size", [(1024, 512), (28672, 2048)])
def test_products_of_many_blocks_are_known_from_two(params, size):
    for flow, large in itertools.product(Dataflow, (False, True)):
        rows = 9000 // params.rows * params.rows
        shape = _Shape(*size, 8, 0, flow, large)
        assert _product(params, rows, shape, 30) == _few_blocks(params, rows, shape, 30)


@pytest.mark.parametrize(("sharing", "channels"), [(1, 80), (4, 64)])
def test_prompts_of_anda_share_a_clock_and_take_what_each_takes_alone(sharing, channels):
    """In any order: longer ones go on where shorter ones ended, or a copy goes back."""
    params = AndaParams()
    contexts = [int(n) for n in np.random.default_rng(channels).integers(1, 900, 6)]
    for tokens in [640, *contexts]:
        found = counted_prompt.__wrapped__(params, sharing, tokens, channels, 30)
        heads = {"heads": sharing, "kv_heads": 1, "head_dim": channels}
        program = attention_program(params, **heads, context=tokens, tokens=tokens)
        assert found == program_time(params, program, 30), tokens
    assert anda_prompt_time(params, sharing, 600, channels, 30) == anda_prompt_time(
        params, sharing, 608, channels, 30
    )


@pytest.mark.parametrize("tokens", [9, 31, 100, 333, 515, 700])
def test_prompts_of_harmonia_are_those_of_whole_tiles(tokens):
    """The program of a prompt that ends within a tile takes a few percent less or more."""
    params = HarmoniaParams()
    found = prompt_time(params, 2, tokens, 64, 30)
    exact = prompt_attention.__wrapped__(params, 2, tokens, 64, 30)
    assert found == prompt_time(params, 2, -(-tokens // 8) * 8, 64, 30)
    assert found.cycles == pytest.approx(exact.cycles, rel=0.07 if tokens < 100 else 0.03)
    assert prompt_time(params, 2, tokens + 16, 64, 30).cycles > found.cycles


@pytest.mark.parametrize("heads", [(12, 12), (80, 80), (106, 53)])
def test_few_heads_of_anda_tell_how_long_many_take(heads):
    params = AndaParams()
    found = anda_decode_attention(params, *heads, 300, 64, 30)
    both = dict(zip(("heads", "kv_heads"), heads, strict=True))
    program = attention_program(params, **both, head_dim=64, context=300)
    assert found == program_time(params, program, 30)


def test_the_documented_layers_are_ours():
    """Docs have the table of ``tilewright claims --programs``; all of it is near its bound."""
    found = layer_residuals()
    text = (Path(__file__).parents[2] / "docs" / "model.md").read_text()
    for row in layer_table(found)[1]:
        assert f"| {' | '.join(str(value) for value in row)} |" in text
    for row in found:
        assert row.kind == "programs" and not row.missing
        assert 1 < row.programs_over_bound <= 1.25


def test_a_token_on_anda_takes_what_its_programs_take():
    """SmolLM2's layers fit: norms, rotation and SiLU are in the program."""
    params, lengths = AndaParams(), {"qkv": 7, "o": 7, "u": 6, "d": 5}
    found = step_time(params, SMOLLM2, one(40), lengths=lengths)
    assert found.kind == "programs" and list(found.parts) == ["layers", "head"]
    plan = anda_plan(params, SMOLLM2, 48, lengths)  # whole tiles of keys
    whole = anda_step.step_program(plan, anda_lines.Lines(plan), 47)
    assert found.parts["layers"].cycles == program_time(params, whole, 30).cycles
    assert found.ratio > 1


def test_a_prompt_on_anda_takes_what_its_programs_take():
    """Steps of up to a token tile, and single tokens behind them, through all layers."""
    params, lengths = AndaParams(), {"qkv": 7, "o": 7, "u": 6, "d": 5}
    found = step_time(params, SMOLLM2, one(18, prompt=True), lengths=lengths)
    assert found.kind == "programs" and list(found.parts) == ["layers", "head"]
    assert found.stepwise
    several = step_time(params, SMOLLM2, one(18, prompt=True, sequences=2), lengths=lengths)
    assert not several.stepwise and several.kind == "programs"
    plan = anda_plan(params, SMOLLM2, 18, lengths)
    steps = list(compiled_steps(plan, 18))
    assert steps == [(0, 16), (16, 1), (17, 1)]
    whole = [anda_step.step_program(plan, anda_lines.Lines(plan), *step) for step in steps]
    counted = [program_time(params, program, 30).cycles for program in whole]
    assert found.parts["layers"].cycles == sum(counted)


def test_few_steps_of_a_prompt_on_anda_tell_how_long_all_take():
    """Every step of a prompt that is long enough for attention to work in several ways."""
    params, lengths = resolve("anda:small"), {"qkv": 7, "o": 7, "u": 6, "d": 5}
    model = replace(SHAPES["llama"], num_hidden_layers=1)
    plan = anda_plan(params, model, 65, lengths)
    steps, lines = list(compiled_steps(plan, 65)), anda_lines.Lines(plan)
    times = [program_time(params, anda_step.step_program(plan, lines, *s), 30) for s in steps]
    growth = {b.cycles - a.cycles for a, b in itertools.pairwise(times[:-1])}
    assert len(steps) == 33 and len(growth) > 1
    found = anda_compiled_time(plan, steps, 30)["layers"]
    assert found == sum(times[1:], times[0])


@pytest.mark.parametrize("spec", ["harmonia", "anda", "harmonia,memory_channels=1,line_bytes=64"])
def test_programs_are_those_of_whole_token_tiles(spec):
    """So that steps of a sweep share them: no program has another length within a tile."""
    params = resolve(spec)
    tile = params.rows
    for inner, outer in ((576, 1536), (11008, 300)):
        for tiles in (1, 3):
            times = {
                streamed_gemm_time(
                    params,
                    Gemm(name="p", module="o", rows=rows, inner=inner, outer=outer),
                    latency=30,
                    length=6,
                )
                for rows in ((tiles - 1) * tile + 1, tiles * tile - 3, tiles * tile)
            }
            assert len(times) == 1


def test_every_point_of_a_sweep_is_the_answer_to_its_question():
    """Batches on both sides of a token tile, contexts on both sides of what has programs."""
    question = Question(model="llama-3.2-1b", system="harmonia")
    axes = {"batch": (1, 8, 9), "context": (30, 33, 6000)}
    found = sweep(question, axes)
    for row, point in zip(found, points_of(question, axes), strict=True):
        assert row == ask(replace(question, **point))
    assert {row.kind for row in found} == {"programs"}


def test_times_are_kept_by_all_that_decides_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    @kept
    def time(rows, *, latency):
        made.append(rows)
        return None if rows > 2 else ProgramTime(1, rows, latency, 0, 0, 0, 0, 0)

    assert time(1, latency=30) == ProgramTime(1, 1, 30, 0, 0, 0, 0, 0) == time(1, latency=30)
    assert time(2, latency=30).cycles == 2 and time(1, latency=40).control == 40
    assert time(3, latency=30) is None
    assert made == [1, 2, 1, 3]
    # Another process finds them too.
    again = kept(time.__wrapped__)
    assert again(2, latency=30).cycles == 2 and made == [1, 2, 1, 3]


@pytest.mark.parametrize("spec", ["harmonia", "anda"])
def test_few_token_tiles_tell_how_long_all_work_of_a_layer_takes(spec):
    """What is between products, of more tiles than are counted, against all of them."""
    params, lengths = resolve(spec), {"qkv": 7, "o": 7, "u": 6, "d": 5}
    named = tuple(sorted(lengths.items()))
    for tiles in (4, 29, 30):
        rows = tiles * params.rows
        found = _between(params, SMOLLM2, rows, 30, named, True)
        if spec == "anda":
            assert found == anda_glue(params, SMOLLM2, rows, lengths, 30, True)
        else:
            assert found == layer_glue(params, SMOLLM2, rows, 30)
