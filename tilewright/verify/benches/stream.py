"""Benches of the stream blocks."""

from tilewright.golden.params.stream import QueueParams, RegisterSliceParams
from tilewright.verify.bench import PortColumns, StreamBench


class RegisterSliceBench(StreamBench[RegisterSliceParams]):
    """Bench of the register slice: words leave as they entered."""

    def expected(self, params: RegisterSliceParams, columns: PortColumns) -> PortColumns:
        return {"o": columns["i"]}


class QueueBench(StreamBench[QueueParams]):
    """Bench of the queue: words leave as they entered."""

    def expected(self, params: QueueParams, columns: PortColumns) -> PortColumns:
        return {"o": columns["i"]}
