"""Benches of the stream blocks."""

import numpy as np

from tilewright.golden.params.stream import (
    ArbiterParams,
    ForkParams,
    JoinParams,
    QueueParams,
    RegisterSliceParams,
    WidthConverterParams,
)
from tilewright.golden.payload import pack, unpack
from tilewright.verify.bench import PortColumns, StreamBench


class RegisterSliceBench(StreamBench[RegisterSliceParams]):
    """Bench of the register slice: words come out as they went in."""

    def expected(self, params: RegisterSliceParams, columns: PortColumns) -> PortColumns:
        return {"o": columns["i"]}


class QueueBench(StreamBench[QueueParams]):
    """Bench of the queue: words come out as they went in."""

    def expected(self, params: QueueParams, columns: PortColumns) -> PortColumns:
        return {"o": columns["i"]}


class ForkBench(StreamBench[ForkParams]):
    """Bench of the fork: every output gives what went in."""

    def expected(self, params: ForkParams, columns: PortColumns) -> PortColumns:
        return {port.name: columns["i"] for port in params.outputs}


class JoinBench(StreamBench[JoinParams]):
    """Bench of the join: word k of the output holds word k of every input."""

    def expected(self, params: JoinParams, columns: PortColumns) -> PortColumns:
        words = [columns[port.name]["data"] for port in params.inputs]
        return {"o": {"data": np.stack(words, axis=-1)}}


class WidthConverterBench(StreamBench[WidthConverterParams]):
    """Bench of the width converter: the same bit stream, cut differently."""

    def expected(self, params: WidthConverterParams, columns: PortColumns) -> PortColumns:
        """Cut the bit stream anew; bits that do not fill an output word stay inside."""
        (taken,), (given,) = params.inputs, params.outputs
        size = -(-taken.bits // 8)
        data = b"".join(word.to_bytes(size, "little") for word in pack(taken, columns["i"]))
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
        bits = np.unpackbits(rows, axis=1, bitorder="little", count=taken.bits).ravel()
        whole = bits[: bits.size // given.bits * given.bits].reshape(-1, given.bits)
        words = np.packbits(whole, axis=1, bitorder="little")
        return {"o": unpack(given, [int.from_bytes(w.tobytes(), "little") for w in words])}


class ArbiterBench(StreamBench[ArbiterParams]):
    """Bench of the arbiter: nothing lost, doubled or reordered within a source."""

    def expected(self, params: ArbiterParams, columns: PortColumns) -> PortColumns:
        """Serve the inputs strictly in turn, as every input always has a word to offer."""
        words = np.stack([columns[port.name]["data"] for port in params.inputs], axis=-1)
        sources = np.broadcast_to(np.arange(params.ways), words.shape)
        return {"o": {"data": words.ravel(), "source": sources.ravel()}}

    def check(self, params: ArbiterParams, columns: PortColumns, got: PortColumns) -> str | None:
        """Compare the words of each source; how they are merged depends on who asked when."""
        data, source = got["o"]["data"], got["o"]["source"].astype(np.int64)
        for k, port in enumerate(params.inputs):
            sent, received = columns[port.name]["data"], data[source == k]
            if len(sent) != len(received):
                return f"input {port.name}: {len(sent)} words went in, {len(received)} came out"
            wrong = np.flatnonzero(sent != received)
            if wrong.size:
                w = wrong[0]
                return f"input {port.name}, word {w}: got {received[w]:#x}, expected {sent[w]:#x}"
        return None
