"""The software decompression of DECA's tiles: its bits, and its instructions per tile."""

import numpy as np
import pytest

from tilewright.golden.deca import compress, decompress_tiles, resolve_scheme
from tilewright.golden.sparamx.core import Core
from tilewright.golden.sparamx.software_deca import decompress_rows, tile_instructions

SCHEMES = ("bf8", "mxfp4", "bf16", "e4m3", "mxfp6_e3m2", "int7,scale=none", "int1,scale=none")


@pytest.mark.parametrize("density", [None, 0.5, 0.05])
@pytest.mark.parametrize("name", SCHEMES)
def test_bits_are_those_of_the_decompressor(name, density):
    weights = np.random.default_rng(0).normal(0, 0.05, (40, 100)).astype(np.float32)
    compressed = compress(weights, resolve_scheme(name), density)
    core = Core()
    got = decompress_rows(core, compressed.scheme, compressed.tiles)
    expected = decompress_tiles(compressed.scheme.lut_image(), compressed.tiles)
    assert np.array_equal(got, expected)
    counted = tile_instructions(compressed.scheme)
    assert core.counts == {k: n for k, n in counted.items() if not k.startswith("t")}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # A load or expansion, a store.
        ("bf16,sparse=true", {"vpexpandw": 1, "store": 1}),
        # Four tables of 64 words, three choices between them, on two bits of the code.
        ("bf8", {"load": 1, "vpmovzxbw": 1, "vpermi2w": 4, "vptestmw": 2, "vmovdqu16": 3,
                 "store": 1}),
        ("bf8,sparse=true", {"load": 1, "vpexpandb": 1, "vpmovzxbw": 1, "vpermi2w": 4,
                             "vptestmw": 2, "vmovdqu16": 4, "store": 1}),
        ("mxfp4", {"load": 1, "vpbroadcastw": 2, "vpermb": 1, "vpadd": 2, "vpmultishiftqb": 1,
                   "vpand": 2, "vpmovzxbw": 1, "vpermw": 1, "vptestmw": 1, "store": 1}),
    ],
)  # fmt: skip
def test_instructions_of_a_row(name, counts):
    counted = tile_instructions(resolve_scheme(name))
    assert counted.pop("tileloadd") == 2 and counted.pop("tdpbf16ps") == 1
    assert counted == {instruction: 16 * n for instruction, n in counts.items()}


def test_refusals():
    weights = np.ones((16, 64), np.float32)
    with pytest.raises(ValueError, match=r"^bf16 scales of groups of 32 have no vector kernel$"):
        compressed = compress(weights, resolve_scheme("nf4"))
        decompress_rows(Core(), compressed.scheme, compressed.tiles)
    with pytest.raises(ValueError, match=r"^int8 tiles have no software kernel$"):
        compressed = compress(weights, resolve_scheme("int8_tile"))
        decompress_rows(Core(), compressed.scheme, compressed.tiles)
