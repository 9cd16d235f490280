"""Mistakes of the first day: messages name the remedy."""

import numpy as np
import pytest
from helpers.problems import cloud

import gwfast
from gwfast.words import Embeddings, precision_at_k

X = cloud(9, 3, 0)
WORDS = [f"w{row}" for row in range(9)]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: gwfast.nearest_neighbors(Embeddings(WORDS, X.astype(np.float32)), X),
            TypeError,
            r"^queries must be an array, got Embeddings: pass its vectors",
        ),
        (
            lambda: gwfast.gromov_wasserstein(X, X),
            ValueError,
            r"^x must be square, got shape \(9, 3\); costs of points are PointCl",
        ),
        (
            lambda: gwfast.align(X, X, init=[[0, 1], [1, 2]]),
            ValueError,
            r"^init must have shape \(9, 9\), got \(2, 2\); known pairs are Seeds",
        ),
        (
            lambda: gwfast.align(X, X, epsilon="2 percent"),
            ValueError,
            r"^epsilon must be .* such as \"2%\".*, got '2 percent'",
        ),
        (
            lambda: gwfast.align(X, X).translate(["casa"]),
            ValueError,
            r"^items must be row numbers or vectors, as the source has no words",
        ),
        (
            lambda: precision_at_k([[0]] * 9, ["casa maison"], WORDS, WORDS),
            TypeError,
            r"^dictionary must be a mapping of words to their translations, got list",
        ),
        (
            lambda: gwfast.Seeds.known(["casa maison"], WORDS, WORDS),
            TypeError,
            r"^dictionary must be a mapping of words to their translations, got list",
        ),
    ],
)
def test_it_is_said_what_to_pass(call, error, message):
    with pytest.raises(error, match=message):
        call()
