"""Payloads of a port: numpy arrays to and from the integers that travel on its wires."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import Field, Port

Columns = dict[str, NDArray]  # field name -> (cases,) or (cases, count) integers


def pack(port: Port, columns: Columns) -> list[int]:
    """One Python integer per case; fields and elements in the order ``port`` declares."""
    if set(columns) != {f.name for f in port.fields}:
        raise ValueError(f"port {port.name}: fields {sorted(columns)} do not match the payload")
    bits = np.concatenate([_to_bits(f, columns[f.name]) for f in port.fields], axis=1)
    rows = np.packbits(bits, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def unpack(port: Port, words: list[int]) -> Columns:
    """Undo :func:`pack`."""
    size = -(-port.bits // 8)
    data = b"".join(word.to_bytes(size, "little") for word in words)
    rows = np.frombuffer(data, dtype=np.uint8).reshape(len(words), size)
    bits = np.unpackbits(rows, axis=1, bitorder="little", count=port.bits)
    columns, start = {}, 0
    for field in port.fields:
        columns[field.name] = _from_bits(field, bits[:, start : start + field.total_bits])
        start += field.total_bits
    return columns


def _to_bits(field: Field, values: NDArray) -> NDArray[np.uint8]:
    values = np.asarray(values)
    want = (len(values),) if field.count is None else (len(values), field.count)
    if values.shape != want:
        raise ValueError(f"field {field.name}: shape {values.shape}, expected {want}")
    low, high = (
        (-(1 << (field.bits - 1)), (1 << (field.bits - 1)) - 1)
        if field.signed
        else (0, (1 << field.bits) - 1)
    )
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        raise ValueError(f"field {field.name}: values leave [{low}, {high}]")
    if field.bits > 64:  # beyond any numpy integer: Python integers, one at a time
        size = -(-field.bits // 8)
        data = b"".join(
            (int(v) & ((1 << field.bits) - 1)).to_bytes(size, "little") for v in values.ravel()
        )
        words = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    else:
        words = values.astype(np.int64 if field.signed else np.uint64).view(np.uint64)
        words = np.ascontiguousarray(words, dtype="<u8").view(np.uint8).reshape(-1, 8)
    bits = np.unpackbits(words, axis=1, bitorder="little", count=field.bits)
    return bits.reshape(len(values), field.total_bits)


def _from_bits(field: Field, bits: NDArray[np.uint8]) -> NDArray:
    cases = len(bits)
    elements = bits.reshape(-1, field.bits)
    packed = np.packbits(elements, axis=1, bitorder="little")
    values: NDArray
    if field.bits > 64:
        values = np.array([int.from_bytes(row.tobytes(), "little") for row in packed], dtype=object)
    else:
        padded = np.zeros((len(packed), 8), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        values = padded.view("<u8")[:, 0].astype(np.uint64)
        if field.signed:
            shift = np.uint64(64 - field.bits)
            values = (values << shift).view(np.int64) >> np.int64(64 - field.bits)
    return values if field.count is None else values.reshape(cases, field.count)
