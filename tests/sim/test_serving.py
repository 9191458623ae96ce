"""Questions about serving: what is added up, what is looked for, and what is swept."""

import re
from itertools import accumulate

import pytest

from tilewright.sim import serving
from tilewright.sim.calibration import constant
from tilewright.sim.llm import answer, answer_passes, step_of
from tilewright.sim.models import resolve_model
from tilewright.sim.server import _met
from tilewright.sim.serving import GenerationResult, Question, ask
from tilewright.sim.sweep import parse_axis, points_of, question_at, row_of, sweep
from tilewright.sim.target import resolve_target
from tilewright.sim.workload import Batch

SMALL = "llama-3.2-1b"


def latency(**settings):
    return answer(resolve_model(SMALL), **settings).latency_ms


def test_a_prompt_and_its_answer_are_the_sum_of_their_steps():
    found = ask(Question(model=SMALL, batch=3, prompt=100, tokens=5))
    first = latency(batch=3, context=100, phase="prefill")
    others = [latency(batch=3, context=context) for context in (101, 102, 103, 104)]
    assert isinstance(found, GenerationResult)
    assert found.first_token_ms == pytest.approx(first)
    assert found.token_ms == pytest.approx(sum(others) / 4)
    assert found.last_token_ms == pytest.approx(others[-1])
    assert found.total_ms == pytest.approx(first + sum(others))
    assert found.tokens_per_second == pytest.approx(15e3 / found.total_ms)
    model = resolve_model(SMALL)
    assert found.memory_bytes.cache == 3 * model.kv_elements(104) * 2


def test_chunks_of_a_prompt_add_up():
    """Work is that of the whole prompt, weights pass once for each chunk."""
    whole = ask(Question(model="llama-3.1-8b", prompt=2048, tokens=1))
    chunked = ask(Question(model="llama-3.1-8b", prompt=2048, tokens=1, chunk=512))
    assert whole.first_token_ms < chunked.first_token_ms < 1.3 * whole.first_token_ms
    assert chunked.longest_pass_ms < chunked.first_token_ms / 3
    same = ask(Question(model="llama-3.1-8b", prompt=2048, tokens=1, chunk=4096))
    assert same.first_token_ms == whole.first_token_ms == whole.longest_pass_ms
    many = ask(Question(model=SMALL, prompt=9000, tokens=1, chunk=9))
    assert many.first_token_ms > 500 * many.longest_pass_ms


def test_chunks_are_counted_at_some_places(monkeypatch):
    question = Question(model=SMALL, prompt=4001, tokens=1, chunk=10)
    found = ask(question).first_token_ms
    monkeypatch.setattr(serving, "EXACT", 1000)
    assert found == pytest.approx(ask(question).first_token_ms, rel=1e-3)


def test_queries_of_a_chunk_meet_the_keys_before_them():
    """All chunks of a prompt together meet half of the square."""
    keys = sum(_met(100, end, end) * 100 * end for end in range(100, 1001, 100))
    assert keys == pytest.approx(1000 * 1000 / 2)
    assert _met(50, 1000, 200) == 1  # a window that has filled
    assert _met(1000, 1000, 1000) == 0.5


@pytest.mark.parametrize(("acceptance", "tokens"), [(0.0, 1), (1.0, 5), (0.5, 1.9375)])
def test_a_round_of_guesses(acceptance, tokens):
    model, draft = "llama-2-70b", "llama-3.2-1b"
    question = Question(model=model, draft=draft, acceptance=acceptance, batch=2, context=512)
    found, plain = ask(question), ask(Question(model=model, batch=2, context=512))
    guesses = [latency(batch=2, context=512 + k) for k in range(4)]
    assert found.ms_by_part["draft"] == pytest.approx(sum(guesses))
    assert found.new_tokens == pytest.approx(tokens)
    assert found.tokens_per_second == pytest.approx(2e3 * tokens / found.latency_ms)
    assert sum(found.ms_by_part.values()) == pytest.approx(found.latency_ms)
    # To verify five tokens takes little more than one: weights pass once.
    verify = found.latency_ms - sum(guesses)
    assert plain.latency_ms < verify < 1.2 * plain.latency_ms
    assert found.memory_bytes.weights > plain.memory_bytes.weights
    watts = sum(found.joules_by_part.values()) / found.latency_ms * 1e3
    assert found.average_watts == pytest.approx(watts)


def test_answers_from_guesses():
    words = {"model": "llama-2-70b", "prompt": 64, "tokens": 33}
    plain = ask(Question(**words))
    found = ask(Question(**words, draft=SMALL, guesses=3, acceptance=0.8))
    assert found.first_token_ms == plain.first_token_ms
    assert 0.4 * plain.token_ms < found.token_ms < 0.95 * plain.token_ms


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chunk": 8}, "chunks are of a prompt with tokens after it"),
        ({"draft": "gpt2"}, "guesses need a draft model and an acceptance rate"),
        ({"acceptance": 0.5}, "guesses need a draft model and an acceptance rate"),
        ({"guesses": 3}, "guesses need a draft model and an acceptance rate"),
        ({"draft": "gpt2", "acceptance": 1.5}, "acceptance must be 0 to 1, not 1.5"),
        ({"draft": "gpt2", "acceptance": 0.5, "guesses": 0}, "guesses of a round must be 1..32"),
        ({"draft": "gpt2", "acceptance": 0.5, "phase": "prefill"}, "guesses are of tokens after"),
        ({"prompt": Batch(((1, 9), (1, 8))), "tokens": 1, "chunk": 4}, "chunks are of prompts of"),
        ({"prompt": 9, "tokens": 1, "chunk": 0}, "chunk must be 1..16777216, not 0"),
    ],
)
def test_chunks_and_guesses_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        ask(Question(model=SMALL, **fields))


@pytest.mark.parametrize("model", [SMALL, "gemma-3-1b"])  # a window of 512 fills on the way
def test_long_answers_are_counted_at_some_steps(monkeypatch, model):
    question = Question(model=model, prompt=300, tokens=400)
    found = ask(question).total_ms
    monkeypatch.setattr(serving, "EXACT", 1000)
    assert found == pytest.approx(ask(question).total_ms, rel=1e-9)


def test_prompts_of_several_lengths():
    mixed = ask(Question(model=SMALL, prompt=Batch(((2, 64), (1, 512))), tokens=3))
    assert (mixed.batch, mixed.prompt, mixed.contexts) == (3, 512, ((2, 64), (1, 512)))
    short, long = (ask(Question(model=SMALL, batch=3, prompt=p, tokens=3)) for p in (64, 512))
    assert short.total_ms < mixed.total_ms < long.total_ms


@pytest.mark.parametrize(
    ("system", "model", "ms", "context"),
    [("spr-hbm", SMALL, 60, 512), ("harmonia", "smollm2-135m", 5, 40)],
)
def test_the_largest_batch_is_the_last_that_is_fast_enough(system, model, ms, context):
    found = ask(Question(model=model, system=system, within_ms=ms, context=context))
    more = answer(resolve_model(model), system, batch=found.batch + 1, context=context)
    assert found.batch > 1
    assert found.latency_ms <= ms < more.latency_ms
    assert found.remarks[0].endswith("time bounds it")


def test_memory_bounds_a_batch_too():
    found = ask(Question(model="opt-6.7b", within_ms=1e6, context=2048))
    assert found.memory_bytes.fits
    bigger = answer(resolve_model("opt-6.7b"), batch=found.batch + 1, context=2048)
    assert not bigger.memory_bytes.fits
    assert found.remarks[0].endswith("memory bounds it")


def test_the_largest_batch_of_all():
    found = ask(Question(model="opt-125m", system="spr-ddr", within_ms=1e9, context=1))
    assert found.batch == 65536


def test_formats_of_the_cache_change_its_time_and_size():
    plain, packed = (
        answer(resolve_model("llama-2-70b"), batch=16, context=4096, kv=kv) for kv in (None, "int8")
    )
    assert (plain.kv_format, packed.kv_format) == ("bf16", "int8")
    ratio = (8 + 16 / 128) / 16
    assert packed.memory_bytes.cache == pytest.approx(ratio * plain.memory_bytes.cache)
    assert packed.ms_by_part["cache"] == pytest.approx(ratio * plain.ms_by_part["cache"])


@pytest.mark.parametrize("system", ["spr-ddr", "anda", "harmonia", "figna-m8"])
@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v2-lite", "gemma-2-2b", "gpt-oss-20b"])
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_every_kind_of_model_runs_on_every_kind_of_system(system, name, phase):
    """More tokens of context and more sequences never take less time, nor less memory."""
    model = resolve_model(name)
    steps = [
        answer(model, system, batch=batch, context=context, phase=phase)
        for batch, context in ((1, 64), (1, 8192), (3, 8192))
    ]
    times = [step.latency_ms for step in steps]
    assert times == sorted(times)
    sizes = [step.memory_bytes.cache for step in steps]
    assert sizes == sorted(sizes)
    for step in steps:
        assert sum(step.ms_by_part.values()) == pytest.approx(step.latency_ms)
        assert step.bound in (*step.utilisation, "attention and small kernels")


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b"]
)
def test_no_token_is_faster_than_the_bytes_that_it_reads(name):
    """The roofline, counted without the workload: 4.25 bits a projection, 16 the output head."""
    model = resolve_model(name)
    plain = model.head_weights + model.router_weights
    read = (model.active_parameters - plain) * 4.25 / 8 + 2 * plain + 2 * model.kv_elements(128)
    found = answer(model, "spr-ddr", scheme="mxfp4", context=128)
    assert 0.97 * read / 260e9 < found.latency_ms / 1e3 < 3 * read / 260e9


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("batch=4", (4,)),
        ("batch=1..4,8", (1, 2, 3, 4, 8)),
        ("context=128..1024*2", (128, 256, 512, 1024)),
        ("context=0..100+40", (0, 40, 80)),
        ("scheme=bf8_30%,mxfp4", ("bf8_30%", "mxfp4")),
    ],
)
def test_axes(text, values):
    assert parse_axis(text) == (text.partition("=")[0], values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch", "a sweep is NAME=VALUE,..., such as batch=1..64*2, not 'batch'"),
        ("batch=1,,2", "a sweep is NAME=VALUE"),
        ("bach=1", "unknown name of a sweep 'bach'; did you mean batch?"),
        ("batch=many", "values of batch are numbers or LOW..HIGH"),
        ("batch=1..4*x", "values of batch are numbers or LOW..HIGH"),
        ("batch=4..1", "'4..1' is no range: it must grow"),
        ("batch=1..4*1", "'1..4*1' is no range: it must grow"),
        ("batch=0..4*2", "'0..4*2' is no range: it must grow"),
        ("batch=1..4+0", "'1..4+0' is no range: it must grow"),
        ("batch=1,1..3", "a value of batch is given twice in '1,1..3'"),
        ("batch=1..99999999999", "has more than 1000000 values"),
    ],
)
def test_axes_that_are_none(text, message):
    with pytest.raises(ValueError) as refusal:
        parse_axis(text)
    assert message in str(refusal.value)


def test_a_sweep_has_every_combination():
    done = []
    axes = {"batch": (1, 2), "scheme": ("bf8", "mxfp4")}
    found = sweep(Question(model=SMALL), axes, done.append)
    assert [(row.batch, row.scheme) for row in found] == [
        *((1, "bf8"), (1, "mxfp4"), (2, "bf8"), (2, "mxfp4"))
    ]
    assert done[1] == "batch=1 scheme=mxfp4"
    assert found[1].latency_ms == latency(scheme="mxfp4")
    row = row_of(found[1])
    assert (row["latency_ms"], row["fits"], row["contexts"]) == (
        *(found[1].latency_ms, True),
        "1x1024",
    )


def test_a_sweep_over_fields_of_the_system():
    name, values = parse_axis("bandwidth=200GB/s,400GB/s")
    assert parse_axis("cores=8..32*2") == ("cores", (8, 16, 32))
    question = Question(model=SMALL, system="spr-ddr", settings={"capacity": "1TB"})
    found = sweep(question, {name: values, "cores": (28, 56)})
    assert [row.settings for row in found] == [
        {"capacity": "1TB", "bandwidth": bandwidth, "cores": str(cores)}
        for bandwidth in values
        for cores in (28, 56)
    ]
    want = latency(system="spr-ddr", settings={"bandwidth": "200GB/s", "cores": "56"})
    assert found[1].latency_ms == want > found[3].latency_ms
    assert row_of(found[1])["bandwidth"] == "200GB/s"
    with pytest.raises(ValueError, match=r"^capacity is both given and swept; give it once$"):
        sweep(question, {"capacity": ("1TB",)})


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"batch": [1], "model": ["x"]}, "model is both given and swept; give it once"),
        (
            {"batch": range(4000), "context": range(400)},
            "a sweep of 1600000 points is beyond 1000000",
        ),
        ({"block": ["deca"]}, "'block' cannot be swept"),
    ],
)
def test_sweeps_that_are_refused(axes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        sweep(Question(model=SMALL), axes)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"engine": "software", "system": "spr-ddr", "scheme": "bf8_30%", "kv": "int8"},
        {"engine": "optimal", "kv": "harmonia"},
        {"system": "turin", "engine": "software", "settings": {"cores": "64"}},
        {"phase": "prefill"},
        {"system": "harmonia", "settings": {"bandwidth": "300GB/s"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("model", ["opt-125m", "gemma-3-1b", "deepseek-v2-lite", "mixtral-8x7b"])
def test_columns_of_a_sweep_are_to_the_bit_what_each_point_is_alone(model, words):
    question = Question(model=model, **words)
    axes = {"batch": (1, 7, 64, 65, 300), "context": (1, 511, 512, 513, 4096)}
    found = sweep(question, axes)
    alone = [ask(question_at(question, point)) for point in points_of(question, axes)]
    assert found == alone  # dataclasses: every number, word and remark
    assert {type(row.latency_ms) for row in found} == {float}
    assert len({row.latency_ms for row in found}) == len(found)


MODELS = (  # dense, tiny, windows, latent attention, experts, both
    *("llama-2-70b", "smollm2-135m", "gemma-3-27b", "deepseek-v2-lite", "mixtral-8x7b"),
    "deepseek-v3",
)


@pytest.mark.parametrize(
    ("system", "engine"), [("spr-hbm", "software"), ("spr-hbm", "deca"), ("turin", "software")]
)
@pytest.mark.parametrize("model", MODELS)
def test_batches_never_fall_off_a_cliff(model, system, engine):
    """With a matrix unit and without. 355 tokens a second at batch 63 once were 246 at 64."""
    question = Question(model=model, system=system, engine=engine, context=512)
    never_falls(question, range(1, 513))


@pytest.mark.parametrize("engine", ["software", "deca"])
def test_throughput_falls_only_where_activations_leave_the_l2(engine):
    """From batch 129 on experts have more rows than it holds, up to 64 by the paper's kernels."""

    def fall(**settings):
        q = Question(model="mixtral-8x7b", engine=engine, context=512, settings=settings)
        rates = [row.tokens_per_second for row in sweep(q, {"batch": range(1, 257, 5)})]
        peaks = accumulate(rates, max)
        return max(1 - rate / peak for rate, peak in zip(rates, peaks, strict=True))

    assert 0.05 < fall() < 0.14
    assert fall(l2_capacity="64MiB") < 1e-3


def never_falls(question, batches):
    """Time grows with the batch, and from n to n + 1 throughput falls by 5% at most."""
    found = {row.batch: row for row in sweep(question, {"batch": batches})}
    times = [row.latency_ms for row in found.values()]
    assert times == sorted(times)
    pairs = [(found[n], found[n + 1]) for n in found if n + 1 in found]
    assert pairs
    assert all(after.tokens_per_second > 0.95 * before.tokens_per_second for before, after in pairs)
    return list(found.values())


@pytest.mark.parametrize("model", MODELS)
def test_batches_on_an_array_never_fall_off_a_cliff(model):
    """One sequence more than the rows of an array would be another pass: they take turns.

    By formula, which answers for arrays that have no programs.
    """
    question = Question(model=model, system="fp-fp", context=512)
    found = never_falls(question, range(1, 513))
    assert {row.kind for row in found} == {"formula"}


@pytest.mark.parametrize("system", ["anda", "harmonia"])
def test_batches_of_programs_never_fall_off_a_cliff(system):
    """Around whole token tiles."""
    batches = (1, 2, 8, 9, 16, 17)
    found = never_falls(Question(model="smollm2-135m", system=system, context=40), batches)
    assert "formula" not in {row.kind for row in found}


@pytest.mark.full
@pytest.mark.parametrize("context", [64, 1024, 8192])
@pytest.mark.parametrize("system", ["anda", "harmonia"])
@pytest.mark.parametrize("model", ["smollm2-135m", "llama-3.2-1b", "llama-2-7b"])
def test_no_batch_of_programs_falls_off_a_cliff(model, system, context):
    """Every batch up to 512."""
    question = Question(model=model, system=system, context=context)
    assert "formula" not in {row.kind for row in never_falls(question, range(1, 513))}


def test_sequences_take_turns_where_that_gives_more_tokens():
    """17 sequences on 16 rows: 16 at a time, and every number is that of 17/16 passes."""
    model = resolve_model("llama-3.2-1b")
    target = resolve_target("fp-fp")
    full, more = (answer(model, target, batch=batch, context=300) for batch in (16, 17))
    assert (full.pass_batch, more.pass_batch) == (16, 16)
    assert more.tokens_per_second == pytest.approx(full.tokens_per_second)
    assert more.latency_ms == pytest.approx(17 / 16 * full.latency_ms)
    assert more.joules_per_token == pytest.approx(full.joules_per_token)
    assert sum(more.ms_by_part.values()) == pytest.approx(more.latency_ms)
    assert more.memory_bytes.cache == pytest.approx(17 / 16 * full.memory_bytes.cache)
    # The time of a pass of all is reported, as exports of single passes have it.
    (whole,) = answer_passes(target, model, [step_of(Batch(((17, 300),)), "decode")])
    assert whole.pass_batch == 17 and whole.latency_ms > 1.5 * full.latency_ms
    assert f"in turn: {whole.latency_ms:.4g} ms if all" in more.remarks[0]
    # Sequences of several lengths are all in each pass, and so are prompts.
    mixed = answer(model, target, batch=Batch(((9, 300), (8, 100))))
    assert mixed.pass_batch == 17
    assert answer(model, target, batch=17, context=64, phase="prefill").pass_batch == 17


def test_an_answer_that_rests_on_fitted_constants_says_so():
    """A fault that was: 68% of a token of 1B and nearly all of a long context, without a word."""
    small = " ".join(answer(resolve_model(SMALL)).remarks)
    assert "of the time rests on constants for attention and small kernels" in small
    assert "with 77 to 974 us of small kernels a layer" in small
    far = " ".join(answer(resolve_model(SMALL), context=100_000, batch=65).remarks)
    assert "attention was fitted at contexts up to 192; 100000 is beyond them" in far
    assert "batches were fitted up to 64" in far
    large = answer(resolve_model("llama-2-70b"), context=128, settings={"layer_time": "100us"})
    assert not any("rests on" in remark or "fitted" in remark for remark in large.remarks)
    slow = answer(resolve_model("llama-2-70b"), context=128, engine="software")
    (said,) = (remark for remark in slow.remarks if "rests on constants fitted to" in remark)
    share = [int(word) for word in re.findall(r"(\d+)%", said)]
    assert share[0] > 70 and abs(share[0] - share[1] - share[2]) <= 1
    # The kernels that we measured ourselves are not fitted, nor is bf16 from memory.
    for words in ({"engine": "software-measured", "scheme": "bf8_50%"}, {"scheme": "bf16"}):
        found = answer(resolve_model("llama-2-70b"), "spr-ddr", context=128, **words)
        assert not any("fitted to" in remark for remark in found.remarks)
    usual = answer(resolve_model("llama-2-70b"), context=128)
    less = usual.latency_ms - large.latency_ms
    assert less == pytest.approx(80 * (constant("layer_us") - 100) / 1e3)
