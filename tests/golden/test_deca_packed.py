"""Packed models: what goes in comes out, and nothing else is taken for one."""

import io
import json

import numpy as np
import pytest

from tilewright.golden.deca import NonFiniteWeightError, compress, resolve_scheme, restore, tiles
from tilewright.golden.deca.packed import MANIFEST, PackedModel, PackedWriter
from tilewright.golden.tensorfile import TensorFile, TensorFileError

MODEL = {
    "tall": np.random.default_rng(0).normal(0, 1, (100, 70)).astype(np.float32),
    "experts": np.random.default_rng(1).normal(0, 1, (3, 20, 64)).astype(np.float32),
}
NORM = np.arange(5, dtype=np.float32)


def write(path, scheme="mxfp4", density=None, model=MODEL):
    names = [(name, tensor.ndim) for name, tensor in model.items()] + [("norm", 1)]
    with open(path, "wb") as file:
        writer = PackedWriter(file, names)
        for name, tensor in model.items():
            rows = tensor.reshape(-1, tensor.shape[-1])
            writer.compress(name, "F32", tensor.shape, lambda a, b, rows=rows: rows[a:b],
                            resolve_scheme(scheme), density)  # fmt: skip
        writer.keep("norm", "F32", NORM.shape, [NORM[:2], NORM[2:]])
        writer.close()


@pytest.mark.parametrize("piece", [2048, 1 << 17])
@pytest.mark.parametrize("scheme", ["mxfp4", "bf16", "nf4,group=64", "int3", "int8_tile"])
@pytest.mark.parametrize("density", [None, 0.3, 0.0])
def test_what_is_written_is_read(tmp_path, monkeypatch, scheme, density, piece):
    monkeypatch.setattr(tiles, "PIECE_ELEMENTS", piece)
    write(tmp_path / "packed", scheme, density)
    with PackedModel(tmp_path / "packed") as model:
        assert list(model.tensors) == ["tall", "experts", "norm"]
        for name, tensor in MODEL.items():
            expected = compress(tensor.reshape(-1, tensor.shape[-1]), resolve_scheme(scheme),
                                density)  # fmt: skip
            got = model.matrix(name)
            assert got.scheme == expected.scheme and got.shape == expected.shape
            for part in ("masks", "scales", "data", "data_lengths"):
                assert np.array_equal(getattr(got.tiles, part), getattr(expected.tiles, part))
            assert np.array_equal(restore(got), restore(expected))
            described = model.tensors[name]
            assert described.shape == tensor.shape and described.dtype == "F32"
            assert described.size == expected.size
            kept = 1 if density is None else density
            assert described.nonzeros == round(kept * tensor.size)
        assert b"".join(p.tobytes() for p in model.kept("norm")) == NORM.tobytes()
        with pytest.raises(ValueError, match=r"^tensor norm is not compressed$"):
            next(model.bands("norm"))


def test_parts_start_on_a_line(tmp_path):
    write(tmp_path / "packed", "nf4", 0.3)
    with TensorFile(tmp_path / "packed") as file:
        assert set(file.entries) == {
            *(f"{name}#{part}" for name in MODEL for part in ("masks", "scales", "data")),
            *("norm", MANIFEST),
        }
        for name, entry in file.entries.items():
            if "#" in name[1:]:
                assert entry.start % 64 == 0, name


def test_equal_models_are_equal_files(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, "bf8", 0.2)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_weight_that_is_no_number_stops_the_writer():
    bad = np.ones((40, 64))
    bad[17, 5] = np.inf
    writer = PackedWriter(io.BytesIO(), [("w", 2)])
    with pytest.raises(NonFiniteWeightError) as refusal:
        writer.compress("w", "F64", bad.shape, lambda a, b: bad[a:b], resolve_scheme("bf8"))
    assert (refusal.value.row, refusal.value.column) == (17, 5)


def rewrite(path, change):
    """Change the manifest of a packed file, and its sum, and nothing else."""
    from hashlib import sha256

    with TensorFile(path) as file:
        entry = file.entries[MANIFEST]
        manifest = json.loads(file.read(MANIFEST).tobytes())
    change(manifest)
    size = entry.stop - entry.start
    new = json.dumps(manifest, separators=(",", ":")).encode().ljust(size)
    assert len(new) == size
    content = bytearray(path.read_bytes())
    old_sum = sha256(content[entry.start : entry.stop]).hexdigest().encode()
    content[entry.start : entry.stop] = new
    path.write_bytes(bytes(content).replace(old_sum, sha256(new).hexdigest().encode()))


def part_of(manifest, tensor, part):
    (entry,) = [t for t in manifest["tensors"] if t["name"] == tensor]
    return entry["parts"][part]


@pytest.mark.parametrize(
    ("scheme", "part", "message"),
    [
        ("nf4", "norm", "norm: content damaged: its checksum does not match$"),
        ("nf4", "tall#scales", "tall: scales damaged: its checksum does not match$"),
        ("nf4", "tall#data", "tall: data damaged: its checksum does not match$"),
        ("nf4", "tall#masks", "tall: (data 1 bytes too (long|short)|masks damaged)"),
        ("int8_tile", "tall#row_scales", "tall: row_scales damaged: its checksum does not match$"),
    ],
)
def test_a_changed_byte_is_noticed(tmp_path, scheme, part, message):
    path = tmp_path / "packed"
    write(path, scheme, 0.3)
    with TensorFile(path) as file:
        position = file.entries[part].start + 3
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with PackedModel(path) as model, pytest.raises(TensorFileError, match=f": tensor {message}"):
        list(model.kept("norm") if part == "norm" else model.bands("tall"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("schemes"), "damaged manifest: 'schemes'"),
        (lambda m: m["schemes"]["nf4"].update(group=48), "damaged manifest: group must be a power"),
        (
            lambda m: part_of(m, "tall", "data").update(bytes=9999),
            "damaged manifest: tall has no 9999 bytes of data",
        ),
        (
            lambda m: part_of(m, "norm", "content").update(bytes=-4),
            "damaged manifest: norm has no -4 bytes of content",
        ),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path, change, message):
    path = tmp_path / "packed"
    write(path, "nf4", 0.3)
    rewrite(path, change)
    with pytest.raises(TensorFileError) as refusal:
        PackedModel(path)
    assert str(refusal.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(("change", "message"), [(-1, "1 bytes too short"), (1, "1 bytes too l")])
def test_masks_and_data_must_agree(tmp_path, change, message):
    path = tmp_path / "packed"
    write(path, "nf4", 0.3)

    def shift(manifest):
        part_of(manifest, "tall", "data")["bytes"] += change

    rewrite(path, shift)
    with PackedModel(path) as model, pytest.raises(TensorFileError, match=f"tall: data {message}"):
        list(model.bands("tall"))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "packed"
    write(path)
    whole = path.read_bytes()

    def refused(content):
        path.write_bytes(content)
        with pytest.raises(TensorFileError) as refusal:
            PackedModel(path)
        return str(refusal.value).removeprefix(f"{path}: ")

    assert refused(whole[:-100]) == "truncated: 100 bytes are missing"
    assert refused(whole.replace(b"tilewright-deca", b"tilewright-anda")) == (
        "no packed model: tilewright pack makes one of it"
    )
    assert refused(whole.replace(b'"version":"1"', b'"version":"2"')) == (
        "packed model of version 2, not 1"
    )
    assert refused(whole.replace(b'"nonzeros"', b'"NONZEROS"')) == (
        "damaged manifest: its checksum does not match"
    )
