"""The conformance kit finds what is planted, names rules, and keeps its vectors."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from tilewright import cli
from tilewright.conform import assert_conforms, check
from tilewright.conform import drivers as libraries
from tilewright.conform.vectors import digest, file_of, values_of, vectors
from tilewright.golden.lowbit import Encoded
from tilewright.golden.lowbit_table import LOWBIT

ENCODED = [name for name, fmt in LOWBIT.items() if fmt.rules]
RULED = ["e5m2", "mxfp4", "mxint8", "nvfp4", "int4", "q4_0", "bfp8g32"]
DIGESTS = json.loads((libraries.RECORDS.with_name("vectors.json")).read_text())


def encoder(name, change=None, **rules):
    """The golden encoder by some rules, its codes changed by a function."""
    fmt = LOWBIT[name]

    def encode(x):
        e = fmt.encode(x, **rules)
        e = e._replace(codes=change(e.codes)) if change else e
        return fmt.pack(e) if fmt.pack else tuple(e) if fmt.scale else e.codes

    return encode


def decoder(name, change=None):
    fmt = LOWBIT[name]

    def decode(codes, *rest):
        codes = change(codes) if change else codes
        packed = Encoded(codes, np.zeros(0, np.int64))
        return values_of(fmt, packed) if fmt.unpack else fmt.decode(codes.astype(int), *rest)

    return decode


def without_ends(x):
    """Rows must be whole blocks: what the golden encoders take."""
    return not x.notes or "refused" in x.notes[0]


@pytest.mark.parametrize("name", LOWBIT)
def test_golden_conforms_and_a_wrong_entry_of_a_decoder_is_found(name):
    encode = encoder(name) if name in ENCODED else None
    found = check(name, encode, decoder(name))
    assert found.verdict == "exact" and found.checks[0].compared > 10 and without_ends(found)
    last = min(5, len(LOWBIT[name].numbers) - 2)
    planted = check(name, None, decoder(name, lambda c: np.where(c == last, c - 1, c)))
    assert planted.checks[0].wrong and planted.unexplained


@pytest.mark.parametrize("name", ENCODED)
def test_a_wrong_entry_of_an_encoder_is_found(name):
    """A code in the middle of the range is never given."""
    count = len(LOWBIT[name].numbers)
    code = 2 if count == 4 else min(5, count - 2)
    wrong = encoder(name, lambda c: np.where(c == code, code - 1, c))
    found = check(name, wrong, explain=name in RULED)
    assert found.unexplained and (name not in RULED or len(found.example[1].split()) <= 9)


@pytest.mark.parametrize(
    "name", ["mxfp4", *(pytest.param(n, marks=pytest.mark.full) for n in RULED if n != "mxfp4")]
)
def test_each_choice_of_each_rule_is_found_and_named(name):
    """Where a choice makes any difference to codes, the report explains all of it."""
    fmt = LOWBIT[name]
    for axis, choices in fmt.axes.items():
        other = next((c for c in choices if c != fmt.rules[axis]), None)
        if other:
            found = check(name, encoder(name, **{axis: other}))
            assert not found.unexplained, (axis, other, str(found))
            # With so few bits float32 quotients and the least divisor may change no code.
            assert axis in found.rules or (axis in ("quotient", "least") and not found.wrong)


def test_faults_of_the_field_are_found():
    """tt-metal's codes, Quark's division by 64 in MXINT8, MASE's blocks across rows."""

    def codes(c):  # bits of the exponent in the place of the significand's
        return np.where(c & 0x7F, c & 0x80 | (c & 7) << 4 | c >> 3 & 15, c)

    found = check("mxfp8_e4m3", None, decoder("mxfp8_e4m3", codes))
    assert "codes" in found.verdict and "of 256 codes" in found.verdict

    def divided(x):
        codes, scales, _ = LOWBIT["mxint8"].encode(x / 64)
        return codes, scales

    assert check("mxint8", divided).unexplained

    def straddling(x):
        flat = np.pad(x.ravel(), (0, -x.size % 32))[np.newaxis]
        values = LOWBIT["mxfp4"].decode(*LOWBIT["mxfp4"].encode(flat))
        return values.ravel()[: x.size].reshape(x.shape)

    (row_ends,) = (c for c in check("mxfp4", straddling).checks if c.wrong)
    assert row_ends.name == "row ends" and row_ends.first.startswith("blocks straddle rows; row 0")


def test_an_assertion_shows_the_report():
    cast = lambda x: x.astype(ml_dtypes.float8_e4m3fn)  # noqa: E731
    assert_conforms(cast, "e4m3", lambda c: c.view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    with pytest.raises(AssertionError, match=r"(?s)e4m3: overflow=special\n.*fp16 .*example:"):
        assert_conforms(cast, "e4m3", overflow="saturate")
    assert_conforms(encoder("mxfp4", scale="rceil"), "mxfp4", scale="rceil")


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda x: LOWBIT["mxfp4"].encode(x).codes, "gives no scales; mxfp4 has one for 32"),
        (lambda x: x.astype(int)[:, ::2], r"gives \(\d+, 64\) codes for \(\d+, 128\) values"),
        (lambda x: (x.astype(int) * 0 + 16, x), "gives code 16 of 16"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_encoding_is_said(encode, message):
    found = check("mxfp4", encode)
    with pytest.raises(AssertionError, match=message):
        assert not found.checks[0].wrong, found.checks[0].first


@pytest.mark.parametrize("name", LOWBIT)
def test_vectors_are_those_of_their_version(name):
    assert digest(name) == DIGESTS[name]


def test_a_file_of_vectors_is_read_in_a_few_lines(tmp_path, capsys):
    path = tmp_path / "v.bin"
    assert cli.main(["conform", "--vectors", "nvfp4", "-o", str(path)]) == 0
    data = path.read_bytes()
    assert data == file_of("nvfp4") and DIGESTS["nvfp4"] in capsys.readouterr().err
    version, count = struct.unpack_from("<HI", data, 6)
    assert (data[:6], version) == (b"TWCONF", 1)
    at = 12
    for case in vectors("nvfp4")[:count]:
        name, rows, *widths, tensor = struct.unpack_from("<16s5If", data, at)
        assert name.rstrip(b"\0").decode() == case.name and tensor == np.float32(case.encoded[2])
        at += 40
        for kind, width, want in zip(
            ("f4", "u2", "u4", "f4"),
            widths,
            (case.inputs, *case.encoded[:2], case.values),
            strict=True,
        ):
            got = np.frombuffer(data, f"<{kind}", rows * width, at)
            with np.errstate(over="ignore"):
                assert np.array_equal(got, want.astype(kind).ravel(), equal_nan=kind == "f4")
            at += got.nbytes
    assert at == len(data) and count == len(vectors("nvfp4"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--format", "mxfp4"], "'nothing' is neither a known library nor"),
        (["ml_dtypes", "--format", "mxfp4"], "unknown format of ml_dtypes 'mxfp4'; known: e2m1"),
        (["json:dumps", "--format", "mxfp5"], "unknown format 'mxfp5'; did you mean mxfp4"),
        (["json:dumps"], "--format says which format this is; --formats lists them"),
        (["json:dump_", "--format", "mxfp4"], "json has no dump_"),
        (["none.py:f", "--format", "mxfp4"], "an implementation is FILE.py:CLASS; there is no"),
        (["json:dumps", "--format", "q4_k"], "q4_k has no rule of encoding; give a decoder"),
        (["json:dumps", "--format", "mxfp4", "--rule", "x"], "--rule takes NAME=CHOICE, not 'x'"),
        (
            ["json:dumps", "--format", "mxfp4", "--rule", "scale=up"],
            "unknown scale 'up'; known: floor",
        ),
        (["--vectors", "mxfp4"], "--vectors F goes with -o FILE"),
    ],
)
def test_refusals(arguments, message, capsys):
    assert cli.main(["conform", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_the_command_exits_by_its_verdict(capsys):
    own = ["tilewright.golden.formats:FORMATS", "--format", "mxfp4"]
    assert cli.main(["conform", "ml_dtypes"]) == 0
    assert capsys.readouterr().out.count("exact") == 7
    assert cli.main(["conform", "gguf", "--format", "gguf_mxfp4", "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert report["format"] == "gguf_mxfp4" and report["unexplained"] and own


def test_every_recorded_deviation_is_explained():
    """A row is exact, or its rules explain it, or a sentence does."""
    rows = 0
    for library, entry in libraries.load_records().items():
        for row in entry["functions"]:
            rows += 1
            if row.get("unexplained"):
                assert libraries.explanation(library, row), (library, row)
    assert rows >= 50


@pytest.mark.parametrize("library", ["tilewright", "ml_dtypes", "gguf"])
def test_records_are_what_libraries_do(library):
    recorded = libraries.load_records()[library]
    if recorded["version"] == libraries._version(library):
        found = [[r.format, r.subject, r.verdict] for r in libraries.reports(library)]
        rows = recorded["functions"]
        assert found == [[r["format"], r["function"], r["verdict"]] for r in rows]
