"""A compiled model on its host: steps, several sequences, states, costs and faults."""

import json
from itertools import pairwise

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.base.errors import CheckError, CommandError
from tilewright.cli import main
from tilewright.compiler.compile import Options, compile_model
from tilewright.compiler.count import program_time, timeline
from tilewright.compiler.energy import energy
from tilewright.compiler.folder import open_folder
from tilewright.compiler.generate import Session
from tilewright.compiler.host import Runner
from tilewright.compiler.timing import layer_times
from tilewright.studies.sessions import accelerator_of

SMALL = ("anda:small", "harmonia:small")
# Steps of several tokens, as at the published size.
TARGETS = (*SMALL, "anda:small,rows=8,line_bytes=16,activation_rows=4096")
SEQUENCES = 5


def compiled(target, path):
    options = Options(target=target, context=16, weight_bits=4, sequences=SEQUENCES)
    compile_model("tiny-llama", path, options)
    return open_folder(path)


@pytest.fixture(scope="module", params=TARGETS)
def folder(request, tmp_path_factory):
    return compiled(request.param, tmp_path_factory.mktemp("compiled") / "tiny")


@pytest.fixture(scope="module", params=SMALL)
def small(request, tmp_path_factory):
    return compiled(request.param, tmp_path_factory.mktemp("compiled") / "tiny")


def eager(folder):
    """A runner whose loads of weights are never deferred."""
    machine = folder.plan.machine
    return Runner(folder, executor=lambda memory, constant: machine.executor(memory, 0))


def session(runner, *prompts, **options):
    return Session(runner, prompts, accelerator_of(runner.machine), **options)


def compare_with_each_alone(folder, count):
    """Prompts of different lengths, then tokens of all sequences in one step."""
    rng = np.random.default_rng(count)
    words = folder.plan.shape.vocab_size
    prompts = {k: rng.integers(0, words, 1 + 4 * k % 11).tolist() for k in range(count)}
    together = Runner(folder)
    feeds = [prompts, *({k: [int(rng.integers(words))] for k in prompts} for _ in range(2))]
    found = [together.feed(tokens) for tokens in feeds]
    steps = [run for run in together.runs if run.kind != "head"][-2:]
    assert [(run.kind, run.tokens) for run in steps] == [("decode", count)] * 2
    alone = Runner(folder)
    empty = alone.state()
    for sequence in prompts:
        alone.restore(empty)
        for tokens, logits in zip(feeds, found, strict=True):
            assert np.array_equal(alone.feed(tokens[sequence]), logits[sequence])
        assert alone.choice == together.choices[sequence]


def test_several_sequences_have_the_bits_of_each_alone(folder):
    compare_with_each_alone(folder, SEQUENCES)


@pytest.mark.full
@pytest.mark.parametrize("target", ["anda", "harmonia"])
def test_sixteen_sequences_of_smollm2(target, tmp_path):
    """At the published size of the machine."""
    smollm2_or_skip()
    options = Options(target=target, context=64, weight_bits=4, sequences=16)
    compile_model("smollm2", tmp_path / "smollm2", options)
    compare_with_each_alone(open_folder(tmp_path / "smollm2", check=False), 16)


def test_sequences_may_end_apart(folder):
    """A step has any of the sequences, in any order."""
    runner, alone = Runner(folder), Runner(folder)
    runner.feed({0: [1, 2, 3], 3: [4], 1: [5, 6]})
    runner.feed({1: [9], 3: [8]})
    assert runner.positions == [3, 3, 0, 2, 0]
    last = runner.feed({3: [7]})
    for token in ([4], [8]):
        alone.feed(token)
    assert np.array_equal(last[3], alone.feed([7]))


def test_a_step_with_deferred_loads_is_that_without(folder):
    """Memory and counters of every program."""
    runners = Runner(folder), eager(folder)
    for runner in runners:
        runner.feed([1, 2, 3])
        runner.feed({0: [4], 1: [5]})
    assert runners[0].runs == runners[1].runs
    assert np.array_equal(runners[0].memory, runners[1].memory)


def test_counters_are_those_of_the_count(folder):
    """Cycles, lines and sums of programs without values; layers of a step sum to its cycles."""
    runner, found = Runner(folder), []
    runner.listen = lambda run, program: found.append((run, program))
    runner.feed([1, 2, 3])
    runner.feed({0: [4], 1: [5]})
    for run, program in found:
        time = program_time(runner.machine, program, runner.latency)
        counted = {name: getattr(time, name) for name in ("cycles", "lines_read", "lines_written")}
        assert counted.items() <= run.counters.items()
        assert time.sums == run.sums
    run, program = next(pair for pair in found if pair[0].kind == "decode")
    layers = layer_times(program, timeline(runner.machine, program, runner.latency))
    assert [t.layer for t in layers] == [0, 1]
    assert 0.9 * run.cycles < sum(t.cycles for t in layers) < run.cycles
    assert all(sum(t.by_part.values()) == t.cycles for t in layers)


def test_all_logits_are_those_of_the_last(folder):
    tokens = [5, 6, 7, 8, 9]
    scores = Runner(folder).score(tokens, sequence=2)
    assert scores.shape == (5, 128)
    assert np.array_equal(scores[-1], Runner(folder).feed(tokens))


def test_the_machine_chooses(folder):
    runner = Runner(folder)
    for tokens in ([1, 2, 3], [9], [4]):
        assert runner.feed(tokens).argmax() == runner.choice
    runner.memory[folder.lines.choice * folder.plan.machine.params.line_bytes :][:64] = 0xFF  # NaN
    with pytest.raises(CommandError, match=r"^token 5: a logit is NaN or infinite"):
        runner._chosen(0, 4, 1)


def test_sampling_follows_its_seed(small):
    """Sequences choose as each alone does."""

    def tokens(seed, *prompts):
        done = session(Runner(small), *prompts).generate(3, temperature=2.0, seed=seed)
        return [own.tokens for own in done]

    found = tokens(1, "A", "B")
    assert tokens(1, "A", "B") == found != tokens(2, "A", "B")
    assert tokens(1, "B") == found[1:]


def test_a_sequence_stops_at_its_end(small):
    """The other one goes on, with the tokens that it has alone."""
    alone = [session(Runner(small), prompt).generate(5)[0].tokens for prompt in ("AB", "C")]
    end = next(token for token in alone[0] if token not in alone[1])
    at = alone[0].index(end)
    told = {0: [], 1: []}
    both = session(Runner(small), "AB", "C").generate(
        5, ends=[end], tell=lambda sequence, token: told[sequence].append(token)
    )
    assert [own.tokens for own in both] == [alone[0][: at + 1], alone[1]]
    assert told == {0: alone[0][:at], 1: alone[1]}
    assert [own.ended for own in both] == [True, False]
    assert both[0].decode.tokens == at + 4


def test_refused_tokens(small):
    """Refused before the first of them enters."""
    runner = Runner(small)
    for tokens, message in (
        ([1, 128], "token 128 is not in the model's vocabulary of 128"),
        ([1, -1], "token -1 is not in the model's vocabulary of 128"),
        ([1] * 17, "17 tokens exceed the context of 16 that the model was compiled for"),
        ({5: [1]}, "sequence 5 exceeds the 5 that the model was compiled for"),
    ):
        with pytest.raises(CommandError, match=message):
            runner.feed(tokens)
    assert not runner.runs and runner.positions == [0] * SEQUENCES


def test_a_program_without_room(small):
    runner = Runner(small)
    program = list[int]()
    runner.listen = lambda run, made: program.append(len(made))
    runner.feed([1])
    runner.lines.program_lines, before = 3, runner.lines.program_lines
    try:
        with pytest.raises(
            CommandError, match=r"instructions takes \d+ lines; the image has room for 3: compile"
        ):
            runner.feed([1])
    finally:
        runner.lines.program_lines = before


# Energy.


class Published:
    """Round figures: one pJ a bit, one watt."""

    rows, columns, group, clock = 2, 4, 8, 1e9
    weight_bits, buffer_pj_per_bit, memory_pj_per_bit = 4.0, 1.0, 10.0
    power, attention_power = {"compute": 1.0}, {"vector": 0.5}

    def cycles(self, length):
        return 1 + length

    def activation_bits(self, length):
        return length + 1.5


def test_energy_of_a_sum_does_not_depend_on_its_cycles():
    """A group's bits are read once, whatever the planes in which the array takes them."""
    counters = {"vector": 2000, "lines_read": 3, "lines_written": 1}
    found = energy(Published(), counters, {(7, 1): 100, (3, 1): 50}, 64)
    assert found == pytest.approx(
        {
            "compute": (100 * 8 + 50 * 4) * 1e-9,
            "vector": 0.5 * 2000 * 1e-9,
            "buffers": 8 * (100 * (2 * 8.5 + 4 * 4) + 50 * (2 * 4.5 + 4 * 4)) * 1e-12,
            "memory": 10 * 8 * 64 * 4 * 1e-12,
        }
    )


def test_the_array_is_busy_as_long_as_the_counter_says(folder):
    runner = Runner(folder)
    runner.feed([1, 2, 3])
    cycles = accelerator_of(runner.machine).cycles
    for run in runner.runs:
        busy = sum(count * cycles(mantissa) for (mantissa, _), count in run.sums)
        assert busy == run.counters["matrix_busy"]


# Commands.


def test_one_prompt(small, capsys):
    """The text as it grows, then its cost."""
    words = ["run", str(small.path), "--prompt", "Hello", "--tokens", "3"]
    assert main([*words, "--layers"]) == 0
    shown = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert shown.startswith(f"Hello{result['text']}\n")
    assert f"{result['prefill']['cycles']:,}" in shown and "GATE+UP" in shown
    assert [p["kind"] for p in result["programs"]][-4:] == ["decode", "head", "decode", "head"]
    assert result["decode"]["tokens"] == 2
    assert {"compute", "buffers", "memory"} <= set(result["decode"]["millijoules"])


def test_several_prompts(small, capsys):
    """One generation each; the steps of decoding are shared."""
    prompts = ["Hello", "A", "xyz"]
    words = ["run", str(small.path), "--tokens", "3", "--json"]
    several = [word for prompt in prompts for word in ("--prompt", prompt)]
    assert main([*words, *several]) == 0
    found = json.loads(capsys.readouterr().out)
    for result, prompt in zip(found, prompts, strict=True):
        assert main([*words, "--prompt", prompt]) == 0
        alone = json.loads(capsys.readouterr().out)
        assert (result["text"], result["prompt"]) == (alone["text"], alone["prompt"])
        assert result["decode"]["tokens"] == 6
        assert result["decode"]["cycles"] < 3 * alone["decode"]["cycles"]
    assert main(["run", str(small.path), *several, "--tokens", "1"]) == 0
    assert "prefill 3" in capsys.readouterr().out


def test_a_timeline(small, tmp_path, capsys):
    """All programs in microseconds; a unit does one thing after the other."""
    file = tmp_path / "trace.json"
    words = ["run", str(small.path), "--prompt", "Hi", "--tokens", "2", "--trace", str(file)]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    events = json.loads(file.read_text())["traceEvents"]
    spans = [(e["tid"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    cycles = sum(program["counters"]["cycles"] for program in result["programs"])
    assert max(end for _, _, end in spans) <= cycles / result["clock_mhz"]
    for unit in {tid for tid, _, _ in spans}:
        own = sorted((start, end) for tid, start, end in spans if tid == unit)
        assert all(end <= start + 1e-3 for (_, end), (start, _) in pairwise(own))


def test_a_memory_error_and_a_restart(small, tmp_path, capsys):
    """An error in the middle of a token: nothing of that token; a restart continues after it."""
    words = ["run", str(small.path), "--prompt", "Hello", "--prompt", "Hi", "--tokens", "4"]
    assert main([*words, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    state = ["--state", str(tmp_path / "state.npz")]
    assert main([*words, *state, "--memory-error", "2"]) == 2
    answer = capsys.readouterr()
    assert "token 6: the decode program stopped at instruction" in answer.err
    assert "with error bus; 6 tokens are complete" in answer.err
    assert main([*words, *state, "--json"]) == 0
    rest = json.loads(capsys.readouterr().out)
    for own, wanted in zip(rest, whole, strict=True):
        assert own["tokens"] == wanted["tokens"]
        assert own["prefill"] is None
        assert own["programs"] == wanted["programs"][-4:]


def test_states_of_others(small, tmp_path):
    file = tmp_path / "state.npz"
    session(Runner(small), "Hi", state=file).generate(1)
    with pytest.raises(CommandError, match="is the state of another prompt"):
        session(Runner(small), "Ho", state=file)
    other = tmp_path / "other"
    compile_model("tiny-llama", other, Options(target=small.manifest["target"], context=8))
    with pytest.raises(CommandError, match="is the state of another compiled model"):
        session(Runner(open_folder(other)), "Hi", state=file)
    file.write_bytes(b"nothing")
    with pytest.raises(CommandError, match="is no state of a run"):
        session(Runner(small), "Hi", state=file)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompt", ""], "--prompt is empty"),
        (["--prompt", "é"], "its prompt has bytes below 128"),
        (["--prompt", "a", "--tokens", "0"], "tokens must be at least 1, not 0"),
        (["--prompt", "a", "--tokens", "17"], "1 tokens and 17 new ones need a context of 17"),
        (["--prompt", "a"] * 6, "sequence 5 exceeds the 5"),
        (["--prompt", "a", "--weights", "4"], "--weights goes with a model to be compiled"),
        (["--prompt", "a", "--latency", "0"], "latency must be at least 1, not 0"),
    ],
)
def test_refused_runs(small, words, message, capsys):
    assert main(["run", str(small.path), *words]) == 2
    assert message in capsys.readouterr().err


# On the Verilog.


@pytest.mark.parametrize(
    "small",
    ["harmonia:small", pytest.param("anda:small", marks=pytest.mark.full)],  # another build
    indirect=True,
)
def test_two_prompts_on_rtl(small):
    """Every program on the Verilog: memory, counters and cycles are golden's."""
    from tilewright.studies.rtl_token import RtlRunner

    golden = session(Runner(small), "AB", "C").generate(2)
    runner = RtlRunner(small)
    assert session(runner, "AB", "C").generate(2) == golden
    assert runner.simulated_cycles > sum(run.cycles for run in runner.runs)


def test_differences_on_rtl_are_named(small, monkeypatch):
    from tilewright.studies.rtl_token import RtlRunner

    def wrong(block, program, memory, latency, simulation):
        counters = {c.name.lower(): 0 for c in runner.executor.COUNTER}
        return memory, {
            "status": {"error": "none", "instruction": 0},
            "saturated": False,
            "counters": counters,
            "cycles": 0,
            "seconds": 0.0,
        }

    runner = RtlRunner(small)
    monkeypatch.setattr("tilewright.studies.rtl_token.simulate_program", wrong)
    with pytest.raises(CheckError, match=r"^token 0, decode: memory differs.*; cycles is 0, gold"):
        runner.feed([1])
