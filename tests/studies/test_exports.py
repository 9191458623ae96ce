"""Systems in the forms of other tools: what is in the files is what our model says."""

import csv
import json
from dataclasses import replace
from functools import cache

import pytest
import yaml

from tests.cli.test_cli import run
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.target import resolve_target
from tilewright.studies.exports import serving_sim_files

MODEL = resolve_model("llama-3.2-1b")
bundle = cache(lambda system: serving_sim_files(resolve_target(system), MODEL))


@pytest.mark.parametrize("system", ["spr-hbm", "harmonia"])
def test_a_bundle_adds_up_to_a_step(system):
    """As LLMServingSim reads it: layers times their kernels, and the head."""
    files = bundle(system)
    folder = f"{system}/llama-3.2-1b/bf16"
    tables = {
        name: list(csv.DictReader(files[f"{folder}/tp1/{name}.csv"].splitlines()))
        for name in ("dense", "per_sequence", "attention")
    }
    dense = sum(float(row["time_us"]) for row in tables["dense"] if row["tokens"] == "16")
    (head,) = (
        float(row["time_us"])
        for row in tables["per_sequence"]
        if (row["layer"], row["sequences"]) == ("lm_head", "16")
    )
    (met,) = (
        float(row["time_us"])
        for row in tables["attention"]
        if (row["prefill_chunk"], row["n_decode"], row["kv_decode"]) == ("0", "16", "1024")
    )
    target = replace(resolve_target(system), formula=system == "harmonia")
    found = answer(MODEL, target, batch=16, context=1024)
    total = MODEL.num_hidden_layers * (dense + met) + head
    assert total / 1e3 == pytest.approx(found.latency_ms, rel=1e-4)
    meta = yaml.safe_load(files[f"{folder}/meta.yaml"])
    assert (meta["hardware"], meta["tp_degrees"]) == (system, [1])
    assert "skew_fit" not in meta  # there is nothing to correct with
    layers = {row["layer"] for row in tables["dense"]}
    assert {"embedding", "layernorm", "qkv_proj", "o_proj", "down_proj", "act_fn"} <= layers


def test_experts_of_a_bundle_are_a_table_by_how_many_were_chosen():
    """One token chooses two: router and experts are those of a step; more experts take longer."""
    model = resolve_model("mixtral-8x7b")
    files = serving_sim_files(resolve_target("spr-hbm"), model)
    folder = "spr-hbm/mixtral-8x7b/bf16/tp1"
    rows = list(csv.DictReader(files[f"{folder}/moe.csv"].splitlines()))
    times = {
        (int(row["tokens"]), int(row["activated_experts"])): float(row["time_us"]) for row in rows
    }
    parts = answer(model, "spr-hbm", context=1).ms_by_part
    own = sum(ms for name, ms in parts.items() if name.startswith("expert ") or name == "router")
    assert times[1, 2] == pytest.approx(1e3 * own / model.num_hidden_layers, rel=1e-4)
    assert (1, 4) not in times and times[16, 2] < times[16, 4] < times[16, 8]
    layers = {row["layer"] for row in csv.DictReader(files[f"{folder}/dense.csv"].splitlines())}
    assert "rotary_emb" in layers and not layers & {"gate_up_proj", "act_fn", "down_proj"}


def test_prompts_of_a_bundle_are_those_of_passes():
    files = bundle("spr-hbm")
    rows = csv.DictReader(files["spr-hbm/llama-3.2-1b/bf16/tp1/attention.csv"].splitlines())
    (time,) = (
        float(row["time_us"])
        for row in rows
        if [row[n] for n in ("prefill_chunk", "kv_prefill", "n_decode")] == ["1024", "0", "0"]
    )
    found = answer(MODEL, "spr-hbm", context=1024, phase="prefill").ms_by_part
    layers = MODEL.num_hidden_layers
    assert time == pytest.approx(1e3 * (found["attention"] + found["cache"]) / layers, rel=1e-4)


def test_the_command_writes_files(capsys, tmp_path):
    out = tmp_path / "out"
    words = ("export", "serving-sim", "--model", "opt-125m", "--out", str(out), "--json")
    code, text, _ = run(capsys, *words)
    assert (code, len(json.loads(text))) == (0, 4)
