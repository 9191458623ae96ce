"""Storage of weights against the figures of the DECA paper."""

from fractions import Fraction

import pytest

from tests.support.claims import claim
from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme


def test_bytes_of_a_tile_are_those_of_the_paper():
    published = claim("deca.bytes_per_tile")
    ours = {name.replace("%", ""): resolve_weight_scheme(name).tile_bytes for name in PAPER_SCHEMES}
    assert ours | {"bf16": resolve_weight_scheme("bf16").tile_bytes} == published


def test_density_makes_a_scheme_sparse():
    dense, sparse = resolve_weight_scheme("bf8"), resolve_weight_scheme("bf8_12.5%")
    assert (dense.config.sparse, sparse.config.sparse) == (False, True)
    assert sparse.density == Fraction(1, 8)
    assert resolve_weight_scheme("Q8_12.5%").config == sparse.config


def test_uncompressed_is_bf16_alone():
    kinds = {name: resolve_weight_scheme(name).compressed for name in ("bf16", "bf16_50%", "int4")}
    assert kinds == {"bf16": False, "bf16_50%": True, "int4": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bf9", "unknown scheme 'bf9'; did you mean bf8"),
        ("bf8_0%", r"'bf8_0%': density must be above 0% and at most 100%"),
        ("bf8_101%", r"'bf8_101%': density must be above 0% and at most 100%"),
        ("mxfp4,group=3", "group must be a power of two"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ValueError, match=message):
        resolve_weight_scheme(text)
