"""Expansion crossbar.

Lane k takes the word that lies as many places below it as ``mask`` has clear bits below bit k.
That distance never falls from one lane to the next and grows by at most 1, so every lane can move
its word by one power of two after another, the longest first, steered by its own distance alone:
whatever a lane passes on half-way is what its reader expects, because both have the same distance
but for the part already gone. That takes ``lanes * log2(lanes)`` two-way multiplexers where a
multiplexer of every word for every lane takes half the square of ``lanes``.
"""

from types import SimpleNamespace

from amaranth import Module, Mux, Value

from tilewright.golden.params.arith import ExpandParams, PrefixStyle
from tilewright.hw.arith.prefix_sum import prefix_level, prefix_network
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


def move_up(words: list[Value], distances: list[Value], bit: int) -> list[Value]:
    """Each lane's word, or the one ``2**bit`` lanes below where ``distances`` has that bit set."""
    step = 1 << bit
    # A lane never takes from below lane 0, so the lower lanes need no multiplexer: the triangle.
    moved = zip(words[step:], words, distances[step:], strict=False)
    return words[:step] + [Mux(far[bit], below, word) for word, below, far in moved]


class Expand(PipelinedUnit[ExpandParams]):
    """Moves the words of ``x``, in order, to the lanes whose ``mask`` bit is set; 0 elsewhere.

    One a cycle, latency ``params.latency``. Stages: the levels of the prefix sum that counts the
    clear bits, then the moves, one per bit of the distance.
    """

    def stages(self) -> list[Stage]:
        network = prefix_network(PrefixStyle.SKLANSKY, self.params.lanes)
        counts = [self._count(k, adders) for k, adders in enumerate(network)]
        moves = [self._move(bit) for bit in reversed(range((self.params.lanes - 1).bit_length()))]
        return [*counts, *moves]

    def _count(self, k: int, adders: dict[int, int]) -> Stage:
        def stage(m: Module, s: SimpleNamespace) -> dict:
            clear = s.clear if k else [~bit for bit in s.mask]
            return {"clear": prefix_level(clear, adders), "mask": s.mask, "x": list(s.x)}

        return stage

    def _move(self, bit: int) -> Stage:
        def stage(m: Module, s: SimpleNamespace) -> dict:
            distances = [None, *s.clear[:-1]]  # lane 0 never moves
            x = move_up(s.x, distances, bit)
            if bit:
                return {"clear": s.clear, "mask": s.mask, "x": x}
            return {"y": [Mux(keep, word, 0) for keep, word in zip(s.mask, x, strict=True)]}

        return stage
