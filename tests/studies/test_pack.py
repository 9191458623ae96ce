"""pack and unpack: every model format in, weights out, errors measured, bad files refused."""

import builtins
import json
import tracemalloc

import gguf
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from tilewright import cli
from tilewright.golden.deca import compress, resolve_scheme, restore, tiles
from tilewright.golden.deca.packed import PackedModel
from tilewright.golden.tensorfile import TensorFileWriter
from tilewright.studies.model_files import open_model

RNG = np.random.default_rng(5)
MODEL = {
    "layers.0.up": RNG.normal(0, 0.02, (48, 100)).astype(np.float32),
    "layers.0.half": RNG.normal(0, 0.02, (32, 64)).astype(np.float16),
    "layers.0.double": RNG.normal(0, 0.02, (2, 16, 32)),
    "layers.0.norm": RNG.normal(1, 0.1, 48).astype(np.float32),
    "small": RNG.normal(0, 1, (3, 4)).astype(np.float32),
    "position": np.arange(40, dtype=np.int64).reshape(20, 2),
    "scalar": np.float32(2.5),
}
MATRICES = ("layers.0.up", "layers.0.half", "layers.0.double")
DTYPES = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64},
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}


def run(*argv):
    return cli.main([str(word) for word in argv])


def refused(capsys, *argv):
    capsys.readouterr()
    assert run(*argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.removeprefix("tilewright: ").rstrip("\n")


def save(path, **tensors):
    safetensors.numpy.save_file({name: np.asarray(t) for name, t in tensors.items()}, path)
    return path


def load(path):
    content = safetensors.deserialize(path.read_bytes())
    return {
        name: np.frombuffer(tensor["data"], DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
        for name, tensor in content
    }


@pytest.fixture
def model(tmp_path):
    return save(tmp_path / "model.safetensors", **MODEL)


def expected(name, scheme, density):
    tensor = MODEL[name]
    matrix = compress(tensor.reshape(-1, tensor.shape[-1]), resolve_scheme(scheme), density)
    return restore(matrix).reshape(tensor.shape)


@pytest.mark.parametrize(
    ("scheme", "density"), [("mxfp4", None), ("bf8", 0.3), ("int8_tile", 0.5), ("bf16", None)]
)
def test_round_trip(tmp_path, model, scheme, density):
    packed, back = tmp_path / "packed.safetensors", tmp_path / "back.safetensors"
    options = [] if density is None else ["--density", density]
    assert run("pack", model, "--scheme", scheme, *options, "-o", packed) == 0
    assert run("unpack", packed, "-o", back) == 0
    found = load(back)
    assert set(found) == set(MODEL)
    width, restored = (64, np.float32) if scheme == "int8_tile" else (32, ml_dtypes.bfloat16)
    for name, tensor in MODEL.items():
        assert found[name].shape == np.shape(tensor)
        if name in MATRICES and tensor.shape[-1] >= width:
            assert found[name].dtype == restored
            assert np.array_equal(found[name].astype(np.float32), expected(name, scheme, density))
        else:
            assert found[name].dtype == np.asarray(tensor).dtype
            assert np.array_equal(found[name], tensor), name


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2"])
def test_narrow_floats(tmp_path, dtype):
    values, vector = (RNG.normal(0, 1, shape).astype(DTYPES[dtype]) for shape in ((20, 40), 7))
    with open(tmp_path / "model.safetensors", "wb") as file:
        writer = TensorFileWriter(file, [("w", 2), ("v", 1)])
        writer.region("w", dtype, values.shape).write(values.tobytes())
        writer.region("v", dtype, vector.shape).write(vector.tobytes())
        writer.close({})
    run("pack", tmp_path / "model.safetensors", "--scheme", "bf16", "-o", tmp_path / "packed")
    run("unpack", tmp_path / "packed", "-o", tmp_path / "back.safetensors")
    back = load(tmp_path / "back.safetensors")
    assert np.array_equal(back["w"].astype(np.float32), values.astype(np.float32))
    assert back["v"].dtype == vector.dtype and np.array_equal(back["v"], vector)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0"])
def test_gguf(tmp_path, kind):
    values = RNG.normal(0, 1, (32, 96)).astype(np.float32)
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    if kind == "F16":
        stored = values.astype(np.float16)
        writer.add_tensor("w", stored)
        read = stored.astype(np.float32)
    else:
        quantisation = gguf.GGMLQuantizationType[kind]
        stored = gguf.quants.quantize(values, quantisation)
        writer.add_tensor("w", stored, raw_dtype=quantisation)
        read = gguf.quants.dequantize(stored, quantisation)
    writer.add_tensor("norm", np.ones(5, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert run("pack", path, "--scheme", "nf4", "-o", tmp_path / "packed") == 0
    assert run("unpack", tmp_path / "packed", "-o", tmp_path / "back.safetensors") == 0
    back = load(tmp_path / "back.safetensors")
    restored = restore(compress(read, resolve_scheme("nf4")))
    assert np.array_equal(back["w"].astype(np.float32), restored)
    assert np.array_equal(back["norm"], np.ones(5, np.float32))


def test_gguf_without_its_package(tmp_path, capsys, monkeypatch):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    original = builtins.__import__

    def without_gguf(name, *args, **kwargs):
        if name == "gguf":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_gguf)
    message = refused(capsys, "pack", tmp_path / "m.gguf", "--scheme", "bf8", "-o", tmp_path / "p")
    assert message.endswith("reading GGUF needs: pip install 'tilewright[gguf]'")


def test_pack_reports_sizes(tmp_path, model, capsys):
    packed = tmp_path / "packed"
    assert run("pack", model, "--scheme", "bf8", "--density", "0.25", "-o", packed, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bytes"] == packed.stat().st_size
    rows = {row["name"]: row for row in report["tensors"]}
    up = rows["layers.0.up"]
    tiles = 3 * 4  # 48 x 100 in tiles of 16 x 32
    assert (up["scheme"], up["density"], up["bytes"]) == ("bf8", 0.25, 64 * tiles + 1200)
    assert rows["small"]["scheme"] is None and rows["small"]["bits_per_weight"] == 32
    assert run("pack", model, "--scheme", "bf8", "-o", packed) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["TENSOR", "SHAPE", "SCHEME", "DENSITY", "BYTES", "BITS/WEIGHT"]
    row = ["layers.0.up", "48x100", "bf8", "1.0000", str(512 * tiles), "10.240"]
    assert row in [line.split() for line in out]


def test_kept_by_pattern(tmp_path, model, capsys):
    packed = tmp_path / "packed"
    keep = ["--keep", "*.half", "--keep", "layers.?.double"]
    assert run("pack", model, "--scheme", "mxfp4", *keep, "-o", packed) == 0
    with PackedModel(packed) as opened:
        compressed = [name for name, t in opened.tensors.items() if t.scheme is not None]
        assert compressed == ["layers.0.up"]
        half = b"".join(piece.tobytes() for piece in opened.kept("layers.0.half"))
        assert half == MODEL["layers.0.half"].tobytes()
    message = refused(capsys, "pack", model, "--scheme", "bf8", "--keep", "embed*", "-o", packed)
    assert message == f"--keep 'embed*' matches no tensor of {model}"


@pytest.mark.parametrize("piece", [1024, 1 << 17])  # many bands, and one
def test_the_error_against_the_reference(tmp_path, model, capsys, monkeypatch, piece):
    monkeypatch.setattr(tiles, "PIECE_ELEMENTS", piece)
    packed = tmp_path / "packed"
    run("pack", model, "--scheme", "nf4", "--density", "0.5", "-o", packed)
    capsys.readouterr()
    assert run("unpack", packed, "--reference", model, "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["tensors"]}
    for name in MATRICES:
        exact = MODEL[name].astype(np.float64)
        error = expected(name, "nf4", 0.5) - exact
        assert rows[name]["max_error"] == np.abs(error).max()
        assert rows[name]["rms_error"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
        snr = 10 * np.log10((exact**2).sum() / (error**2).sum())
        assert rows[name]["snr_db"] == pytest.approx(snr, rel=1e-12)
    assert rows["small"]["max_error"] is None


def test_nothing_lost_has_no_noise(tmp_path, capsys):
    ones = save(tmp_path / "m.safetensors", w=np.ones((16, 32), np.float32))
    run("pack", ones, "--scheme", "bf8", "-o", tmp_path / "packed")
    capsys.readouterr()
    run("unpack", tmp_path / "packed", "--reference", ones)
    assert capsys.readouterr().out.splitlines()[1].split() == ["w", "16x32", "bf8", "0", "0"]


def test_synthetic_models_are_the_same_every_time(tmp_path):
    for name in ("a", "b"):
        run("pack", "synthetic:50x70:3", "--scheme", "bf8", "--density", 0.5, "-o", tmp_path / name)
    run("pack", "synthetic:50x70:4", "--scheme", "bf8", "--density", 0.5, "-o", tmp_path / "c")
    contents = [(tmp_path / name).read_bytes() for name in "abc"]
    assert contents[0] == contents[1] != contents[2]
    with open_model("synthetic:50x70:3") as tensors:
        weight = tensors["weight"]
        whole = np.concatenate(list(weight.raw()))
        assert whole.shape == weight.shape and len(np.unique(whole)) > 3400  # no row twice
        assert np.array_equal(weight.rows(15, 34), whole[15:34])


@pytest.mark.parametrize(
    "scheme", ["mxfp4", *(pytest.param(s, marks=pytest.mark.full) for s in ("bf16", "int8_tile"))]
)
def test_peak_memory_stays_below_three_times_the_largest_tensor(tmp_path, scheme):
    """Two tensors of 8 MiB of bf16: neither their size nor that of the file matters."""
    shape = (1024, 4096)
    block = np.random.default_rng(0).normal(0, 0.02, (64, shape[1])).astype(ml_dtypes.bfloat16)
    with open(tmp_path / "model.safetensors", "wb") as file:
        writer = TensorFileWriter(file, [("a", 2), ("b", 2)])
        for name in "ab":
            region = writer.region(name, "BF16", shape)
            for _ in range(shape[0] // len(block)):
                region.write(block.tobytes())
        writer.close({})
    limit = 3 * 2 * shape[0] * shape[1]
    model, packed = tmp_path / "model.safetensors", tmp_path / "packed"
    tracemalloc.start()
    try:
        assert run("pack", model, "--scheme", scheme, "--density", "0.5", "-o", packed) == 0
        assert tracemalloc.get_traced_memory()[1] < limit
        tracemalloc.reset_peak()
        back = tmp_path / "back.safetensors"
        assert run("unpack", packed, "--reference", model, "-o", back) == 0
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


# --- refusals


@pytest.mark.parametrize("density", [[], ["--density", "0.5"]])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_weights_are_named(tmp_path, capsys, bad, density):
    tensor = np.ones((2, 20, 64), np.float32)
    tensor[1, 13, 60] = bad
    broken = save(tmp_path / "m.safetensors", fine=np.ones((16, 32)), broken=tensor)
    (tmp_path / "packed").write_bytes(b"old")
    out = ("-o", tmp_path / "packed")
    assert refused(capsys, "pack", broken, "--scheme", "mxfp4", *density, *out) == (
        f"{broken}: tensor broken: weight {bad} at [1, 13, 60]"
        " is no finite float32; nothing was written"
    )
    assert (tmp_path / "packed").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.safetensors", "packed"]


def test_refused_arguments(tmp_path, model, capsys):
    huge, out = "synthetic:99999999x99999999", ("-o", tmp_path / "packed")
    for source, options, message in (
        (model, ("--density", "2"), "--density must be above 0 and at most 1, not 2"),
        (
            model,
            ("--density", "1e-9"),
            "--density 1e-09 leaves none of the 1,024 weights of layers.0.double",
        ),
        (model, ("-o", tmp_path / "no" / "p"), f"{tmp_path / 'no'}: there is no such folder"),
        (model, ("-o", model), f"{model}: the packed file cannot take the place of the model"),
        (huge, (), f"{huge}: a matrix has at most 1048576 columns and 17179869184 weights"),
        (
            tmp_path / "m.bin",
            (),
            f"{tmp_path / 'm.bin'}: a model is a folder, a file that ends in .safetensors, .gguf,"
            " or smollm2, tiny-llama, tiny-opt",
        ),
        (tmp_path / "no.gguf", (), f"{tmp_path / 'no.gguf'}: no such file"),
        ("synthetic:4", (), "synthetic:4: expected synthetic:ROWSxCOLUMNS[:SEED]"),
        ("synthetic:0x4", (), "synthetic:0x4: a matrix has at least one row and one column"),
        (
            "synthetic:15x32",
            (),
            "synthetic:15x32: no tensor to compress: none is a matrix of a whole tile",
        ),
    ):
        assert refused(capsys, "pack", source, "--scheme", "bf8", *out, *options) == message
    assert refused(capsys, "pack", model, "--scheme", "mxpf4", *out).startswith(
        "unknown scheme 'mxpf4'; did you mean mxfp4"
    )
    assert not (tmp_path / "packed").exists()


def test_foreign_and_damaged_models_are_refused(tmp_path, model, capsys):
    out = ("--scheme", "bf8", "-o", tmp_path / "packed")
    for name, content, message in (
        ("b.safetensors", model.read_bytes()[:-30], "truncated: 30 bytes are missing"),
        ("c.gguf", b"GGUF" + bytes(100), "a truncated or damaged GGUF file: "),
        ("d.gguf", b"not GGUF" * 9, "not a GGUF file: it begins with "),
        ("e.safetensors", b"\x08" + bytes(7) + b"no JSON!", "no safetensors header: "),
    ):
        (tmp_path / name).write_bytes(content)
        assert refused(capsys, "pack", tmp_path / name, *out).startswith(
            f"{tmp_path / name}: {message}"
        )
    run("pack", model, "--scheme", "bf8", "-o", tmp_path / "packed.safetensors")
    assert refused(capsys, "pack", tmp_path / "packed.safetensors", *out) == (
        f"{tmp_path / 'packed.safetensors'}: packed already; tilewright unpack restores it"
    )


def test_unpack_refuses(tmp_path, model, capsys):
    packed, out = tmp_path / "packed.safetensors", tmp_path / "back.safetensors"
    run("pack", model, "--scheme", "bf8", "-o", packed)
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-10])
    assert refused(capsys, "unpack", packed, "-o", out) == (
        f"{packed}: truncated: 10 bytes are missing"
    )
    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "plain.safetensors")
    assert refused(capsys, "unpack", tmp_path / "plain.safetensors") == (
        f"{tmp_path / 'plain.safetensors'}: no packed model: tilewright pack makes one of it"
    )
    packed.write_bytes(whole)
    assert refused(capsys, "unpack", packed, "-o", tmp_path / "back.bin") == (
        f"{tmp_path / 'back.bin'}: a model is written to .safetensors"
    )
    assert refused(capsys, "unpack", packed, "-o", packed) == (
        f"{packed}: the output cannot take the place of what is read"
    )
    assert refused(capsys, "unpack", packed, "--reference", "synthetic:32x32") == (
        "synthetic:32x32: has no tensor layers.0.double"
    )
    other = save(tmp_path / "other.safetensors", **{**MODEL, "layers.0.half": np.ones((32, 65))})
    assert refused(capsys, "unpack", packed, "--reference", other) == (
        f"{other}: tensor layers.0.half has shape [32, 65], not [32, 64]"
    )
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    packed.write_bytes(damaged)
    assert "damaged" in refused(capsys, "unpack", packed, "-o", out)
    assert not out.exists()


def test_an_interrupted_pack_leaves_nothing(tmp_path, model, monkeypatch, capsys):
    def interrupted(self, about):
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.golden.deca.packed.PackedWriter.close", interrupted)
    assert run("pack", model, "--scheme", "bf8", "-o", tmp_path / "packed") == 130
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
