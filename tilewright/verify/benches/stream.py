"""Benches of the stream blocks."""

import numpy as np

from tilewright.golden.params.stream import (
    ArbiterParams,
    QueueParams,
    RegisterSliceParams,
)
from tilewright.verify.bench import PortColumns, StreamBench


class RegisterSliceBench(StreamBench[RegisterSliceParams]):
    """Bench of the register slice: words come out as they went in."""

    def expected(self, params: RegisterSliceParams, columns: PortColumns) -> PortColumns:
        return {"o": columns["i"]}


class QueueBench(StreamBench[QueueParams]):
    """Bench of the queue: words come out as they went in."""

    def expected(self, params: QueueParams, columns: PortColumns) -> PortColumns:
        return {"o": columns["i"]}


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
