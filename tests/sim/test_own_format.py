"""Weight formats of the user's own: a scheme of servers and of the Roof-Surface."""

import re
from pathlib import Path

import pytest

from tilewright.cli import main
from tilewright.sim.llm import answer, compare_systems
from tilewright.sim.models import resolve_model
from tilewright.sim.roofsurface import diagram, kernel
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS

MODEL = resolve_model("llama-3.2-1b")
LEVELS = Path(__file__).parents[2] / "examples" / "own_designs" / "lut_format.py"
# mxfp4 in a user's words, with a count of operations of the user's own.
LIKE = """class Like:
    name, bits, scale_bits, group = "like", 4, 8, 32
    vector_operations = {operations}
    encode = decode = None
"""


def named(folder, text, operations="199.46"):
    path = folder / "mine.py"
    path.write_text(text.replace("{operations}", operations))
    return f"{path}:Like"


def test_the_same_format_in_a_file_gives_the_same(tmp_path):
    """As many bits and operations as mxfp4, to which those of software were fitted."""
    resolve_weight_scheme.cache_clear()
    name = named(tmp_path, LIKE)
    theirs, ours = (
        answer(MODEL, engine="software", scheme=scheme, batch=4) for scheme in (name, "mxfp4")
    )
    assert theirs.scheme == "like"
    assert theirs.latency_ms == ours.latency_ms
    assert theirs.memory_bytes == ours.memory_bytes
    assert "what cores take to decompress like is what its class says" in theirs.remarks
    mine, known = (kernel(resolve_weight_scheme(scheme), 16) for scheme in (name, "mxfp4"))
    assert (mine.memory, mine.vector) == (known.memory, known.vector)


def test_fewer_operations_move_a_kernel_out_of_the_vector_region(tmp_path):
    resolve_weight_scheme.cache_clear()
    schemes = [resolve_weight_scheme(name) for name in ("mxfp4", f"{LEVELS}:Levels")]
    known, levels = diagram(SYSTEMS["spr-hbm"], schemes).kernels
    assert (known.bound, levels.bound, levels.scheme) == ("VEC", "MEM", "levels")
    assert levels.matrix_ops_per_vector_op == 1 / 80


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (LIKE, {}, "like cannot be used: TypeError: 'NoneType' object is not callable"),
        (LIKE, {"engine": "look-up"}, "no kernel of ours was measured with like"),
        (
            LIKE.replace("vector_operations", "other"),
            {"engine": "software"},
            "like does not say what a core takes to decompress it; give its class vector_",
        ),
        (LIKE.replace("4, 8", "4, -8"), {}, "scale_bits of like must be 0..64, not -8"),
        (LIKE.replace("bits, ", "no, ", 1), {}, "has no bits; a format has bits, encode, decode"),
        (LIKE.replace("Like", "Other"), {}, "has no class Like"),
        (LIKE.replace("encode = ", ""), {}, "has no encode; a format has bits, encode, decode"),
        (LIKE + "    x = 1 / 0\n", {}, "cannot be used: ZeroDivisionError: division by zero"),
        ("class Like(:\n", {}, "cannot be used: SyntaxError"),
    ],
)
def test_what_is_refused(tmp_path, text, words, message):
    resolve_weight_scheme.cache_clear()
    with pytest.raises(ValueError, match=re.escape(message)):
        answer(MODEL, scheme=named(tmp_path, text), **words)


def test_deca_takes_what_its_tables_can_hold():
    """16 levels with a scale for 64 weights: tiles of 4-bit codes, a scale for each 32."""
    mine, known = (answer(MODEL, scheme=scheme) for scheme in (f"{LEVELS}:Levels", "int4,group=32"))
    assert mine.latency_ms == known.latency_ms
    assert mine.memory_bytes == known.memory_bytes


def test_a_count_of_operations_is_a_number(tmp_path):
    resolve_weight_scheme.cache_clear()
    with pytest.raises(ValueError, match="must be a number above 0, not 'many'"):
        answer(MODEL, engine="software", scheme=named(tmp_path, LIKE, "'many'"))


def test_a_format_stands_in_the_table_of_all_systems(capsys):
    """With the known scheme, or instead of it: on every engine, DECA's table among them."""
    mine = f"{LEVELS}:Levels"
    found = compare_systems("opt-125m", "mxfp4", 1, 64, "decode", [mine])
    own = [(row.system, row.engine) for row in found if row.scheme == "levels"]
    engines = ("software", "deca", "optimal", "more-avx", "wider-avx")
    assert own == [(system, engine) for system in ("spr-ddr", "spr-hbm") for engine in engines]
    assert ("spr-hbm", "deca") in {(r.system, r.engine) for r in found if r.scheme == "mxfp4"}
    instead = compare_systems("opt-125m", mine, 1, 64, "decode")
    assert {row.engine for row in instead if row.scheme == "levels"} == set(engines)
    assert "mxfp4" not in {row.scheme for row in instead}
    words = ("compare", "llm", "opt-125m", "--context", "64", "--with", mine)
    assert main([*words]) == 0
    assert "levels" in capsys.readouterr().out


def test_without_a_count_of_operations_a_format_has_its_roofline_alone(tmp_path):
    path = tmp_path / "silent.py"
    path.write_text("class silent:\n    bits = 4\n    encode = decode = None\n")
    found = compare_systems("opt-125m", "mxfp4", 1, 64, "decode", [f"{path}:silent"])
    assert {row.engine for row in found if row.scheme == "silent"} == {"optimal"}
