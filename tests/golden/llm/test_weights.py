"""Weight-only quantisation of tiny models, and the text that ships with Python."""

import numpy as np
import pytest

from tilewright.golden.llm.sites import LINEAR_SITES, Site
from tilewright.golden.llm.text import default_text, digest, read_text
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.llm.weights import mean_squares, searched, searched_weights
from tilewright.golden.weights import dequantise, quantise

TOKENS = np.random.default_rng(0).integers(0, 128, 60)


def weighted_error(matrix, weights, importance):
    return float(((dequantise(weights) - matrix) ** 2 @ importance).sum())


def test_search_lessens_the_error_that_it_weighs():
    rng = np.random.default_rng(2)
    matrix = rng.standard_t(4, (40, 200)).astype(np.float32)
    importance = rng.random(200) ** 4
    nearest, best = quantise(matrix), searched(matrix, importance, 4)
    error = weighted_error(matrix, best, importance)
    assert error < 0.8 * weighted_error(matrix, nearest, importance)
    # No group is worse: the scale of `nearest` is among those tried.
    for piece in (slice(0, 128), slice(128, 200)):
        rows = [
            ((dequantise(w) - matrix) ** 2 * importance)[:, piece].sum(1) for w in (best, nearest)
        ]
        assert (rows[0] <= rows[1] * (1 + 1e-5)).all()


def test_every_projection_is_searched_with_what_it_receives():
    model = tiny_model("llama")
    searches = [searched_weights(model, k, TOKENS) for k in range(2)]
    squares = mean_squares(model, TOKENS)
    for index, site, name in (
        (0, Site.A_O, "output"),
        (1, Site.A_U, "gate"),
        (1, Site.A_D, "down"),
    ):
        want = searched(model.layers[index].linears[name].weight, squares[index, site], 4)
        assert np.array_equal(searches[index][name].values, want.values)
        assert np.array_equal(searches[index][name].scales, want.scales)


def test_calibration_is_the_mean_square_of_what_each_site_receives():
    model = tiny_model("llama")
    squares = mean_squares(model, TOKENS)
    x = model.embedding[TOKENS].astype(float)
    normed = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    normed *= model.layers[0].attention_norm.gain
    assert np.allclose(squares[0, Site.A_QKV], (normed**2).mean(axis=0), rtol=1e-5)
    assert set(squares) == {(layer, site) for layer in range(2) for site in LINEAR_SITES}


def test_refusals():
    tiny = np.full((2, 64), 1e-9, np.float32)
    with pytest.raises(ValueError, match=r"^a group of weights is too small for an fp16 scale$"):
        searched(tiny, np.ones(64), 4)


def test_default_text_is_prose_of_some_length():
    text = default_text()
    paragraphs = text.rstrip("\n").split("\n\n")
    assert len(text.split()) > 15000
    assert len(set(paragraphs)) == len(paragraphs)
    assert all(p[0].isupper() and p[-1] in ".:" and "\n" not in p for p in paragraphs)
    assert len(digest(text)) == 16


def test_text_files(tmp_path):
    (tmp_path / "a.txt").write_bytes("é\n".encode())
    assert read_text(tmp_path / "a.txt") == "é\n"
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"a\.txt: no UTF-8 text: "):
        read_text(tmp_path / "a.txt")
