"""Accelerators of the user's own as files: they count what the same machine of ours counts."""

import re
from pathlib import Path

import pytest

from tilewright.sim.accelerator import ANDA_CLOCK, WEIGHT_BITS
from tilewright.sim.llm import answer, compare_systems
from tilewright.sim.models import resolve_model
from tilewright.sim.records import area_um2, energy_fj
from tilewright.sim.target import resolve_target

MODEL = resolve_model("llama-3.2-1b")
# The baseline of the Anda paper, in a user's words.
LIKE_FP16 = f"""kind = "accelerator"
rows = 16
columns = 16
group = 64
group_cycles = 16
drain = 16
clock = {ANDA_CLOCK}
attention_macs = 64
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_the_same_machine_in_a_file_gives_the_same(tmp_path, phase):
    ours = answer(MODEL, "fp-fp", phase=phase, batch=3)
    theirs = answer(MODEL, write(tmp_path, LIKE_FP16), phase=phase, batch=3)
    assert theirs.system == "mine"
    assert theirs.latency_ms == ours.latency_ms
    # The file says nothing of what its elements take.
    assert theirs.joules_by_part == {n: ours.joules_by_part[n] for n in ("buffers", "memory")}
    assert theirs.memory_bytes == ours.memory_bytes
    assert (theirs.scheme, theirs.kv_format) == (f"16 x {WEIGHT_BITS:g} bits", "16 bits")


def test_energy_and_area_are_given_or_those_of_a_record(tmp_path):
    given = answer(MODEL, write(tmp_path, LIKE_FP16 + 'mac_energy = "1 pJ"\narea = "2 mm2"\n'))
    linear = MODEL.linear_weights + MODEL.head_weights
    assert given.joules_by_part["compute"] >= linear * 1e-12  # rows of the array that wait too
    assert given.tokens_per_second_per_mm2 == given.tokens_per_second / 2
    text = LIKE_FP16 + 'pe_record = "harmonia_pe"\npe_mode = "m8w4"\n'
    recorded = answer(MODEL, write(tmp_path, text))
    ratio = recorded.joules_by_part["compute"] / given.joules_by_part["compute"]
    assert ratio == pytest.approx(energy_fj("harmonia_pe", mode="m8w4") / 1000)
    area = recorded.tokens_per_second / recorded.tokens_per_second_per_mm2
    assert area == pytest.approx(256 * area_um2("harmonia_pe") / 1e6)


def test_bits_are_given_or_those_of_a_format(tmp_path):
    (tmp_path / "f.py").write_text(
        'class F:\n    name, bits, scale_bits, group = "f", 3, 16, 64\n    encode = decode = 0\n'
    )
    path = write(tmp_path, LIKE_FP16 + 'weight_format = "f.py:F"\n')
    assert resolve_target(path).accelerator(None).weight_bits == 3.25
    same = write(tmp_path, LIKE_FP16 + "weight_bits = 3.25\n")
    given = answer(MODEL, same, batch=2).latency_ms
    path = write(tmp_path, LIKE_FP16 + 'weight_format = "f.py:F"\n')
    assert answer(MODEL, path, batch=2).latency_ms == given


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('weight_format = "f.py:F"\nweight_bits = 4\n', "weight_bits is that of weight_format"),
        ('weight_format = "int5"\n', "unknown format 'int5'; did you mean int"),
        ('weight_format = "g.py:F"\n', "there is no file 'g.py'"),
        ('activation_format = "f.py:F"\n', "bits of f must be 1..64, not 0"),
    ],
)
def test_formats_that_are_refused(tmp_path, lines, message):
    (tmp_path / "f.py").write_text(
        'class F:\n    name, bits, scale_bits, group = "f", 0, 0, 1\n    encode = decode = 0\n'
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve_target(write(tmp_path, LIKE_FP16 + lines))


def test_it_is_set_multiplied_and_compared_as_ours_are(tmp_path):
    path = write(tmp_path, LIKE_FP16)
    slow = answer(MODEL, path, settings={"clock": "100MHz"})
    assert slow.latency_ms > 2 * answer(MODEL, path).latency_ms
    rows = compare_systems("opt-125m", "mxfp4", 1, 64, "decode", [path])
    assert (rows[-1].system, rows[-2].system) == ("mine", "figna-m8")
    server = tmp_path / "server.toml"
    server.write_text('based_on = "emr"\ncores = 32\n')
    rows = compare_systems("opt-125m", "mxfp4", 1, 64, "decode", [str(server)])
    assert [(row.system, row.engine) for row in rows[-2:]] == [
        *(("server", "software"), ("server", "deca"))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = 0\n", "rows must be 1 to 65536 count, not 0"),
        ("lines = 3\n", "unknown field 'lines'"),
        ("", "rows, columns, group, group_cycles, clock missing"),
        ("about = 3\n", "about must be text, not 3"),
        (LIKE_FP16.partition("\n")[2] + 'pe_record = "x"\n', "no synthesis record of x in asap7"),
        (
            LIKE_FP16.partition("\n")[2] + 'pe_record = "harmonia_pe"\narea = 3\n',
            "area is that of pe_record; give one of them",
        ),
        (LIKE_FP16.partition("\n")[2] + 'pe_mode = "m8w4"\n', "pe_mode goes with pe_record"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    path = write(tmp_path, 'kind = "accelerator"\n' + text)
    with pytest.raises(ValueError, match=rf"mine\.toml: {re.escape(message)}"):
        resolve_target(path)


def test_engines_and_blocks_are_those_of_servers(tmp_path):
    path = write(tmp_path, LIKE_FP16)
    with pytest.raises(ValueError, match=r"has no engines; engines belong to servers$"):
        resolve_target(path, engine="deca")
    with pytest.raises(ValueError, match=r"^mine has one scheme; leave it out$"):
        answer(MODEL, path, scheme="7")
