"""``--json`` is for programs: what it prints obeys the same four rules for every command.

1. A key is a lower-case identifier in snake_case, and it stays: names of blocks, technologies,
   systems, schemes and tensors are values, in a list of objects with a ``name``. They are keys only
   in an object whose own key says so, with ``by_``: ``cells_by_kind``, ``joules_by_part``.
2. Numbers are numbers: no "38.5 ms", "+1.6%" or "1,024". A ``name`` and a ``version`` may look
   like a number. There is no NaN and no infinity, which are not JSON; a missing number is null.
3. A number with a unit says it: in its key or in the key of the object around it (``area_um2``,
   ``latency_ms``, ``energy_joules``), or as ``unit`` or ``KEY_unit`` beside it. Shares and ratios
   say that they are (``utilisation``, ``..._share``, ``..._gain``). The ``parameters`` of a block
   keep the names of their fields, and ``counters`` those of the machine's registers.
4. Text is text: a key has values of one type (or null) wherever it occurs in one list.
"""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.examples import torch_or_skip
from tilewright import cli
from tilewright.golden.params.formats import FLOAT_FORMATS
from tilewright.golden.params.resolve import BLOCKS
from tilewright.synth.technology import TECHNOLOGIES

INSTEAD = {  # examples that take long -> the same command on less; the example is a long test
    "compare": None,
    "compare llm": "tilewright compare llm smollm2-135m",
    "kv": "tilewright kv tiny-llama --tokens 64 --window 64 --steps 0 --lengths 4",
    "report": None,
    "simulate": "tilewright simulate float_mul:fp16 --cases 20",
    "sweep": "tilewright sweep popcount --vary width=3 --tech asap7",
}
LONG = ("simulate anda", "simulate deca", "simulate harmonia", "simulate machine")  # built first
NO_DATA = ("completion", "report")  # a script; test_report
FURTHER = [
    "tilewright claims --classes",
    "tilewright claims --paper sparamx --off",
    "tilewright claims --residuals",
    "tilewright list",
    "tilewright list deca",
    "tilewright list models",
    "tilewright list systems",
    "tilewright list turin",
    "tilewright gemm 16 512 256 --block anda",
    "tilewright llm smollm2-135m --phase prefill --context 64 --block anda",
    "tilewright llm mixtral-8x7b --prompt 64 --tokens 3 --sweep batch=1,2",
    "tilewright roofsurface --explore",
    "tilewright sweep --frontier prefix_sum",
]
CHECK_FAILED = {"doctor"}  # commands whose exit code may be 1, as it depends on the machine


def command_lines() -> Iterator[Any]:
    """Every example of a help text, and others, each with what it needs."""
    for words in cli.all_commands():
        command, name = cli.load_command(*words), " ".join(words)
        needs = getattr(command, "EXAMPLE_NEEDS", "")
        is_long = name in INSTEAD or name.startswith(LONG)
        marks = [pytest.mark.full] if is_long else []
        yield pytest.param(needs, command.EXAMPLE, marks=marks, id=command.EXAMPLE)
        if line := INSTEAD.get(name):
            yield pytest.param("", line, id=line)
    yield from (pytest.param("", line, id=line) for line in FURTHER)


@pytest.mark.parametrize(("needs", "line"), list(command_lines()))
def test_every_command_prints_text_and_json(needs, line, tmp_path, monkeypatch, capsys):
    torch_or_skip(line)
    monkeypatch.chdir(tmp_path)
    name, words = line.split()[1], shlex.split(line)[1:]
    good = (0, 1) if name in CHECK_FAILED else (0,)
    if needs:
        assert cli.main(shlex.split(needs)[1:]) == 0
    assert cli.main(words) in good and capsys.readouterr().out
    if name not in NO_DATA:
        assert cli.main([*words, "--json"]) in good
        assert violations(json.loads(capsys.readouterr().out, parse_constant=_refuse)) == []


def test_report(tmp_path, monkeypatch, capsys):
    from tilewright.site import build, problems

    monkeypatch.setattr(build, "build_site", lambda *_, **__: None)
    monkeypatch.setattr(problems, "find_failures", lambda: ["a failure"])
    monkeypatch.setattr(problems, "find_problems", lambda: ["a problem"])
    assert cli.main(["report", "-o", str(tmp_path), "--json"]) == 1
    assert violations(json.loads(capsys.readouterr().out)) == []


# ---- the rules

KEY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
DATA_KEYS = {*BLOCKS, *TECHNOLOGIES, *FLOAT_FORMATS, "small"}
NUMBER_AS_TEXT = re.compile(
    r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?"
    r"\s*(%|x|[fpnumkMGT]?(s|b|B|J|W|Hz|m2)|bytes|bits|cycles)?"
)
TEXT_KEYS = {"name", "version", "tools"}
QUANTITIES = {
    *("area", "bandwidth", "capacity", "clock", "delay", "energy", "frequency", "latency"),
    *("leakage", "memory", "period", "power", "roofline", "slack", "throughput", "time"),
}
UNITS = {
    *("ps", "ns", "us", "ms", "seconds", "cycles", "hz", "mhz", "ghz"),
    *("um2", "mm2", "bytes", "kib", "mib", "gib", "bits", "cells", "entries", "words", "lines"),
    "channels",
    *("fj", "pj", "nj", "uj", "mj", "joules", "nw", "uw", "mw", "watts"),
    *("milliseconds", "millijoules", "utilisation", "parameters", "counters"),
    *("per", "percent", "share", "ratio", "factor", "gain", "x", "speedup", "db", "tops"),
}


def violations(data: Any) -> list[str]:
    """Every place of a JSON document that breaks a rule, in words."""
    return [*_walk(data, "", ()), *_mixed(data, "")]


def _walk(data: Any, path: str, words: tuple[str, ...]) -> Iterator[str]:
    """``words`` are those of the keys on the way, the innermost last."""
    if isinstance(data, dict):
        names_are_keys = "by" in words[-1].split("_") if words else False
        for key, value in data.items():
            here = f"{path}.{key}"
            if not names_are_keys and not KEY.fullmatch(key):
                yield f"{here}: no snake_case key"
            elif not names_are_keys and key in DATA_KEYS:
                yield f"{here}: a key that is data"
            if _is_number(value) and not names_are_keys and not _has_unit(key, words, data):
                yield f"{here}: a number without a unit"
            yield from _walk(value, here, (*words, key))
    elif isinstance(data, list):
        for k, value in enumerate(data):
            yield from _walk(value, f"{path}[{k}]", words)
    elif isinstance(data, str):
        may_be_number = bool(TEXT_KEYS & set(words[-2:]))
        if not may_be_number and NUMBER_AS_TEXT.fullmatch(data.strip()):
            yield f"{path}: {data!r} is text"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has_unit(key: str, words: tuple[str, ...], around: dict[str, Any]) -> bool:
    own = set(key.split("_"))
    if not own & QUANTITIES:
        return True
    outer = {word for name in words for word in name.split("_")}
    return bool((own | outer) & UNITS) or bool({"unit", f"{key}_unit"} & around.keys())


def _mixed(data: Any, path: str) -> Iterator[str]:
    """Keys that have different types in the objects of one list."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _mixed(value, f"{path}.{key}")
    if isinstance(data, list):
        types: dict[str, set[str]] = {}
        for k, value in enumerate(data):
            yield from _mixed(value, f"{path}[{k}]")
            for key, entry in value.items() if isinstance(value, dict) else ():
                if entry is not None:
                    types.setdefault(key, set()).add(_type(entry))
        for key, found in types.items():
            # A parameter's value is of its field's type, which the field says beside it.
            if len(found) > 1 and key not in {"value", "default"}:
                yield f"{path}[].{key}: {' and '.join(sorted(found))}"


def _type(value: Any) -> str:
    return "number" if _is_number(value) else type(value).__name__


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"area_um2": 1.5, "parts": [{"name": "a b", "delay_ps": 2}]}, []),
        ({"metrics": {"area": {"value": 1.5, "unit": "um2"}}}, []),
        ({"energy_joules": {"memory": 1.0}}, []),
        ({"joules_by_part": {"package at most": 1.0}}, []),
        ({"throughput": 1.0, "throughput_unit": "results/ns"}, []),
        ({"version": "0.70", "tools": {"pyosys": "0.70"}}, []),
        ({"not modelled": 1}, [".not modelled: no snake_case key"]),
        ({"asap7": {"cells": 1}}, [".asap7: a key that is data"]),
        ([{"area": 1.5}], ["[0].area: a number without a unit"]),
        ({"a": ["1,024"]}, [".a[0]: '1,024' is text"]),
        ({"a": "+1.6%"}, [".a: '+1.6%' is text"]),
        ({"a": "38.5 ms"}, [".a: '38.5 ms' is text"]),
        ([{"a": 1}, {"a": None}, {"a": "text"}], ["[].a: number and str"]),
    ],
)
def test_the_rules_themselves(data, found):
    assert violations(data) == found


def test_what_is_not_json_is_refused():
    with pytest.raises(ValueError, match=r"^NaN is not JSON$"):
        json.loads("[NaN]", parse_constant=_refuse)
