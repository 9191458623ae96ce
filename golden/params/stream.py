"""Parameters of the stream building blocks (``hw/stream``)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from tilewright.golden.params.block import BlockParams, Timing, at_least, stream


@dataclass(frozen=True, kw_only=True)
class WordParams(BlockParams):
    """A block between streams of words of ``width`` bits; by default from ``i`` to ``o``."""

    width: Annotated[int, at_least(1)] = 32

    inputs = stream("i", data="width")
    outputs = stream("o", data="width")


@dataclass(frozen=True, kw_only=True)
class RegisterSliceParams(WordParams):
    """Cuts payload, valid and ready paths with registers; one word a cycle."""

    block: ClassVar[str] = "register_slice"
    summary: ClassVar[str] = "registers on payload, valid and ready"
    PRESETS: ClassVar = {"default": {}, "tiny": {"width": 4}, "line": {"width": 512}}

    timing = Timing(latency=1)


@dataclass(frozen=True, kw_only=True)
class QueueParams(WordParams):
    """First in, first out; ``depth`` words.

    No path from one side's handshake to the other's, so a full queue takes its next word the cycle
    after it gave one: a queue of depth 1 passes a word every second cycle.
    """

    block: ClassVar[str] = "queue"
    summary: ClassVar[str] = "first-in first-out queue"
    PRESETS: ClassVar = {
        "default": {},
        "tiny": {"width": 4, "depth": 2},
        "single": {"depth": 1},
        "odd": {"width": 24, "depth": 5},
    }

    depth: Annotated[int, at_least(1)] = 8

    @property
    def timing(self) -> Timing:
        return Timing(latency=1, interval=Fraction(2 if self.depth == 1 else 1))


STREAM_BLOCKS = (RegisterSliceParams, QueueParams)
