"""``gwfast experiment distances``."""

import numpy as np
import pytest
from helpers.experiments import results_of

from gwfast.words import read_embeddings
from gwfast.words.languages import language_distances


@pytest.fixture(autouse=True)
def few_random_starts():
    """All of them: distances are to agree, whichever way a pair is solved."""


@pytest.mark.slow
@pytest.mark.process
def test_distances(run, narrow_data, tmp_path):
    muse = narrow_data["muse"]
    status, out, err = run(
        "distances", f"again={muse / 'wiki.en.vec'}", "--data", muse, "--n-words", 30,
        "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert "6 of 6: " in err
    assert all(len(line) <= 80 for line in out.splitlines())
    for name in ("de", "it", "ru", "zh"):
        assert f"  {name}: wiki.{name}.vec" in out
    assert "is a picture without numbers" in out
    found = results_of(tmp_path / "out")
    names = ["again", "en", "es", "fr"]
    assert found["names"] == names
    sides = {name: read_embeddings(muse / f"wiki.{name}.vec") for name in names[1:]}
    expected = language_distances({"again": sides["en"], **sides}, n_words=30)
    matrix = np.array(found["matrix"])
    assert np.allclose(matrix, expected.matrix, rtol=1e-5, atol=0)
    assert matrix[0, 1] == 0
    assert "same" in out and "-" in out
    for row in out.splitlines():
        if row.strip().startswith("fr "):
            shown = row.split()[1:]
            break
    assert shown[0] == f"{100 * matrix[3, 0]:#.4g}" and shown[3] == "0"
    for file in ("distances.png", "dendrogram.png"):
        assert (tmp_path / "out" / file).read_bytes().startswith(b"\x89PNG")
    # Chosen languages, two at a time, and those that are not there.
    status, out, err = run(
        "distances", "--data", muse, "--languages", "en,fr,xx", "--n-words", 30,
        "--jobs", 2, "--output", "two",
    )  # fmt: skip
    assert status == 0, err
    pair = np.array(results_of(tmp_path / "two")["matrix"])[0, 1]
    assert pair == pytest.approx(matrix[1, 3], rel=1e-5)
    assert "  xx: wiki.xx.vec" in out and "  de: " not in out
