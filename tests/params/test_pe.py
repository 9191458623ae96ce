"""What the processing elements state of themselves, and what one of another kind can state."""

from dataclasses import dataclass

from tilewright.golden.params.block import Field
from tilewright.golden.params.harmonia import HarmoniaPeParams
from tilewright.golden.params.pe import FignaParams, FpFpParams, IfpuParams, PEParams


@dataclass(frozen=True, kw_only=True)
class SignedParams(PEParams):
    """int8 activations times int8 weights."""

    @property
    def activation(self) -> Field:
        return Field("activation", 8, self.lanes, signed=True)

    @property
    def weight(self) -> Field:
        return Field("weight", 8, self.lanes, signed=True)


def test_activations_may_be_signed():
    activation, weight, *_ = SignedParams(lanes=2).inputs[0].fields
    assert activation == Field("activation", 8, 2, signed=True)
    assert weight.signed


def test_activations_are_words_by_default():
    assert FpFpParams().inputs[0].fields[0] == Field("activation", 16, 4)
    assert IfpuParams().inputs[0].fields[0] == Field("activation", 25, 16)


def test_intervals_are_of_beats():
    """How many beats make a dot product is the user's choice and no property of the element."""
    assert FignaParams().timing.interval == 1
    assert HarmoniaPeParams(sub_elements=4, fold=4).timing.interval == 1
    assert HarmoniaPeParams(sub_elements=4, fold=2).timing.interval == 2
