"""``python -m benchmarks.paper`` on a few words of the bundled sample."""

from pathlib import Path

import pytest
from helpers.vector_files import write_vectors

from gwfast.words import load_sample

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks" / "paper").is_dir():
    pytest.skip("the benchmarks are not there", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("muse")
    spanish, french, dictionary = load_sample()
    for name, side in (("es", spanish), ("fr", french)):
        write_vectors(folder / f"wiki.{name}.vec", side.words[:300], side.vectors[:300])
    lines = "".join(f"{word} {other}\n" for word, right in dictionary.items() for other in right)
    for fold in ("0-5000", "5000-6500"):
        (folder / f"es-fr.{fold}.txt").write_text(lines, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["table1", "--pairs", "es-fr", "--n-words", "60"], "Procrustes: csls"),
        (["table2"], "en-it is not run"),
        (["dynamics", "--pairs", "es-fr"], "P@1 of the plan"),
        (["distances", "--languages", "es", "fr", "--n-words", "100"], "distances of 100 words"),
    ],
)
def test_an_experiment_of_the_paper(folder, tmp_path, monkeypatch, capsys, arguments, told):
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from benchmarks.paper.__main__ import main

    main([*arguments, "--data", str(folder), "--output", str(tmp_path), "--threads", "1"])
    assert told in capsys.readouterr().out
    pictures = {"dynamics": 1, "distances": 2}.get(arguments[0], 0)
    assert len([*tmp_path.glob("*.png")]) == pictures
