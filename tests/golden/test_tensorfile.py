"""The safetensors container: read and written beside the safetensors package; damage is refused."""

import io
import json

import numpy as np
import pytest
import safetensors.numpy

from tilewright.golden.tensorfile import TensorFile, TensorFileError, TensorFileWriter

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([-1, 2], np.int8),
    "scalar": np.float64(7.5),
    "empty": np.zeros((0, 4), np.float16),
}


def write(path, tensors=TENSORS, metadata=None):
    names = {"float32": "F32", "int8": "I8", "float64": "F64", "float16": "F16", "uint8": "U8"}
    with open(path, "wb") as file:
        writer = TensorFileWriter(file, [(n, np.ndim(t)) for n, t in tensors.items()], 100)
        for name, tensor in tensors.items():
            region = writer.region(name, names[tensor.dtype.name], np.shape(tensor))
            region.write(np.asarray(tensor).tobytes())
        writer.close(metadata or {})


def test_the_package_reads_what_we_write(tmp_path):
    write(tmp_path / "x.safetensors", metadata={"made": "here"})
    got = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert set(got) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert got[name].dtype == tensor.dtype and np.array_equal(got[name], tensor)
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as file:
        assert file.metadata() == {"made": "here"}


def test_we_read_what_the_package_writes(tmp_path):
    tensors = {name: np.asarray(tensor) for name, tensor in TENSORS.items()}
    safetensors.numpy.save_file(tensors, tmp_path / "x.safetensors", {"made": "there"})
    with TensorFile(tmp_path / "x.safetensors") as file:
        assert file.metadata == {"made": "there"}
        for name, tensor in TENSORS.items():
            entry = file.entries[name]
            assert entry.shape == np.shape(tensor)
            assert file.read(name).tobytes() == np.asarray(tensor).tobytes()
        assert file.read("a", 4, 12).view(np.float32).tolist() == [1, 2]
        with pytest.raises(ValueError, match=r"^a has no bytes 20 to 28, only 24$"):
            file.read("a", 20, 28)


def test_regions_are_written_side_by_side(tmp_path):
    """Two tensors grow at once; the last one's size is not known before it is complete."""
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as file:
        writer = TensorFileWriter(file, [("known", 1), ("grows", 1), ("next", 1)])
        known, grows = writer.region("known", "U8", (100,)), writer.open_region("grows")
        for k in range(5):
            known.write(bytes([k] * 10))
            grows.write(bytes([10 * k] * 7))
        writer.region("next", "U8", (3,)).write(b"end")
        writer.close({})
    with TensorFile(path) as file:
        assert file.read("known").tobytes() == bytes(k for k in range(5) for _ in range(10)).ljust(
            100, b"\0"
        )
        content = bytes(10 * k for k in range(5) for _ in range(7))
        assert file.read("grows").tobytes() == content.ljust(64, b"\0")
        assert file.read("next").tobytes() == b"end"
        first = min(entry.start for entry in file.entries.values())
        assert first % 64 == 0
    assert (known.size, grows.size) == (50, 35)


def test_the_last_region_is_filled_up(tmp_path):
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as file:
        writer = TensorFileWriter(file, [("grows", 1)])
        writer.open_region("grows").write(b"content")
        writer.close({})
    with TensorFile(path) as file:
        assert file.read("grows").tobytes() == b"content".ljust(64, b"\0")


def test_a_region_refuses_more_than_its_size():
    writer = TensorFileWriter(io.BytesIO(), [("a", 1)])
    region = writer.region("a", "U8", (3,))
    with pytest.raises(ValueError, match=r"^4 bytes for a tensor of 3$"):
        region.write(b"four")
    with pytest.raises(ValueError, match=r"^two tensors are called a$"):
        writer.open_region("a")


def test_a_header_that_outgrows_its_room_is_refused():
    writer = TensorFileWriter(io.BytesIO(), [])
    with pytest.raises(ValueError, match=r"^a header of 1\d\d bytes does not fit the 56 kept for"):
        writer.close({"text": "x" * 100})


@pytest.mark.parametrize("ndim", [0, 1, 4, 8])
def test_the_largest_entry_fits_its_room(ndim):
    """Offsets near 2^62 and long names: what a model can have at most."""
    name = 'layer "0"\n' * 30
    writer = TensorFileWriter(io.BytesIO(), [(name, ndim)])
    writer._end = 1 << 62
    writer.region(name, "F8_E5M2", (1,) * ndim)
    entry = {"dtype": "F8_E5M2", "shape": [1 << 63] * ndim, "data_offsets": [1 << 63, 1 << 63]}
    header = json.dumps({"__metadata__": {}, name: entry}, separators=(",", ":"))
    assert len(header.encode()) <= writer._first - 8


def damaged(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    return size.to_bytes(8, "little") + text + body


ENTRY = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc", "no safetensors file: it has 3 bytes"),
        (
            b"GGUF" + bytes(60),
            "no safetensors file, or a truncated one: a header of 1179993927 bytes in a file of 64",
        ),
        (damaged({"a": ENTRY})[:30], "no safetensors file, or a truncated one: a header of"),
        (damaged(b"not JSON"), "no safetensors header: Expecting value"),
        (damaged(b"[1, 2]"), "no safetensors header: no object"),
        (damaged(b"\xff\xfe"), "no safetensors header: 'utf-8' codec"),
        (damaged({"a": {"dtype": "U8"}}), "no safetensors header: 'data_offsets'"),
        (damaged({"a": ENTRY}, b"abc"), "truncated: 1 bytes are missing"),
        (damaged({"a": ENTRY}, b"abcde"), "1 bytes after the last tensor"),
        (damaged({"a": ENTRY, "b": ENTRY}, b"abcd"), "tensor b does not follow the one before"),
        (
            damaged({"a": {**ENTRY, "dtype": "F32"}}, b"abcd"),
            "tensor a, F32 of shape [4], cannot have 4 bytes",
        ),
        (damaged({"a": {**ENTRY, "data_offsets": [0, -4]}}), "tensor a does not follow the one be"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(TensorFileError) as refusal:
        TensorFile(path)
    assert str(refusal.value).startswith(f"{path}: {message}")


def test_a_file_cut_while_open_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    write(path, {"a": np.zeros(1_000_000, np.uint8)})  # more than Python reads ahead
    with TensorFile(path) as file:
        path.write_bytes(path.read_bytes()[:500_000])
        with pytest.raises(TensorFileError, match=r": truncated while it was read$"):
            file.read("a")
