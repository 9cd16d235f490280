"""The parts of the experiments: what is kept, found, printed and claimed."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

import gwfast
from gwfast.experiments import published
from gwfast.experiments.data import DINU, MUSE, first_file
from gwfast.experiments.runner import Experiment, Job, run
from gwfast.experiments.show import print_columns
from gwfast.experiments.store import Store, identity
from gwfast.utils.progress import console
from gwfast.words import load_sample


def test_published_numbers():
    """Some of each table, read off the paper a second time."""
    one, two = published.TABLE1, published.TABLE2
    assert [len(row.accuracy) for row in one.values()] == [10] * 5
    assert [len(row.accuracy) for row in two.values()] == [4] * 5
    assert one["conneau"].accuracy["ru-en"] == "61.4"
    assert one["gw 1e-4"].accuracy["en-ru"] == "26.1"
    assert one["gw 1e-5"].accuracy["de-en"] == "72.8"
    assert one["gw 1e-5"].minutes == {"": "37"}
    assert two["gw"].accuracy["en-fi"] == "6.8" and two["gw"].minutes["en-fi"] == "15.6"
    assert two["gw normalize"].accuracy["en-es"] == "37.60"
    assert two["gw normalize"].minutes["en-it"] == "36"


def test_store(tmp_path):
    """What it cannot make sense of counts as not done."""
    store = Store(tmp_path / "kept")
    key, result = {"a": [1, "é"], "b": None}, {"x": 0.1, "word": "\udc80"}
    assert store.get(key) is None
    store.put(key, result)
    assert store.get(dict(reversed(key.items()))) == result
    assert store.get({**key, "b": 1}) is None
    (file,) = (tmp_path / "kept").iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"[]", whole.replace(b"1,", b"2,")):
        file.write_bytes(damaged)
        assert store.get(key) is None
    with pytest.raises(ValueError):
        store.put(key, {"x": float("nan")})  # not JSON
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [file.name]
    store.put(key, result)
    assert store.get(key) == result
    assert Store(None).get(key) is None
    Store(None).put(key, result)


@pytest.mark.parametrize("width", [40, 200])
def test_wide_tables_come_in_parts(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    columns = [f"c{k}" for k in range(30)]
    rows = [
        ("first", {name: f"{k}.5" for k, name in enumerate(columns)}),
        ("only c29", {"c29": "x"}),
    ]
    print_columns(console(), "numbers", ("",), columns, rows, note="[bold]")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= min(width, 80)
    parts = out.split("numbers")[1:]
    assert len(parts) > 1 and all(part.startswith(", cont") for part in parts[1:])
    heads = [part.splitlines()[2].split() for part in parts]
    assert [name for head in heads for name in head] == columns
    shown = [line.split()[1:] for line in out.splitlines() if " first " in line]
    assert [text for line in shown for text in line] == [f"{k}.5" for k in range(30)]
    assert ["only c29" in part for part in parts] == [False] * (len(parts) - 1) + [True]
    assert out.rstrip().endswith("[bold]")


def test_names_that_files_are_found_under(tmp_path):
    for name in ("wiki.en.vec", "wiki.fr.vec.gz", "wiki.de.npz", "wiki.it.vec.npz",
                 "wiki.ru.bin", "wiki.multi.zh.vec", "wiki.es.vec.bak"):  # fmt: skip
        (tmp_path / name).touch()
    (tmp_path / "wiki.pt.vec").mkdir()
    assert MUSE.languages(tmp_path) == ["de", "en", "fr", "it"]
    assert first_file(tmp_path, MUSE.vectors_names("it")).name == "wiki.it.vec.npz"
    (tmp_path / "dictionaries").mkdir()
    (tmp_path / "dictionaries" / "en-it.5000-6500.txt.gz").touch()
    found, absent = MUSE.find(tmp_path, ["en-it", "ru-en"], "test")
    assert {part: path.name for part, path in found.pop("en-it").items()} == {
        "source": "wiki.en.vec",
        "target": "wiki.it.vec.npz",
        "dictionary": "en-it.5000-6500.txt.gz",
    }
    needs = ["wiki.ru.vec", "crosslingual/dictionaries/ru-en.5000-6500.txt"]
    assert (found, absent) == ({}, {"ru-en": needs})
    (tmp_path / "data").mkdir()
    names = "IT.200K.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt", "en.emb.txt"
    (tmp_path / "data" / names[0]).touch()
    (tmp_path / names[1]).touch()
    (tmp_path / "en-it.test.txt").touch()
    found, _ = DINU.find(tmp_path, ["en-it"], "test")
    assert [path.name for path in found["en-it"].values()] == [names[1], names[0], "en-it.test.txt"]


def test_scaling_costs_is_scaling_epsilon():
    """What the note says: by the product of the two scales."""
    x, y = (side.vectors[:300] for side in load_sample()[:2])
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    scales = [(1.0 - z @ z.T).mean() for z in (x, y)]
    assert np.prod(scales) < 0.6
    options = {"normalize": (), "init": "profile"}
    scaled = gwfast.align(x, y, epsilon=2e-3, scale_costs="mean", **options)
    plain = gwfast.align(x, y, epsilon=2e-3 * np.prod(scales), **options)
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-3


def test_files_are_told_apart_by_what_is_in_them(tmp_path):
    """Name, size and time alone may be those of another folder's file. The words beside
    belong to it."""
    found = []
    for folder, first in (("one", 1.0), ("other", 2.0)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "vectors.npy"
        np.save(path, np.full((4, 3), first, dtype=np.float32))
        path.with_suffix(".words").write_text("a\nb\nc\nd\n")
        for file in (path, path.with_suffix(".words")):
            os.utime(file, (1e9, 1e9))
        found.append(identity(path))
    assert found[0] != found[1]
    path = tmp_path / "one" / "vectors.npy"
    assert found[0] == identity(path)
    path.with_suffix(".words").write_text("b\na\nc\nd\n")
    assert identity(path) != found[0]


def test_a_folder_that_cannot_be_written_is_found_before_the_work(tmp_path):
    """A file in place of a folder does for a folder without permission."""
    (tmp_path / "jobs").write_text("no folder")
    options = SimpleNamespace(
        n_threads=1, n_jobs=1, output=tmp_path, state=None, force=True, again=False,
        as_json=False, quiet=True,
    )  # fmt: skip

    class Never(Experiment):
        name = title = "never"

        def jobs(self):
            return [Job("job", {}, pytest.fail, ("it was started",))]

        def missing(self):
            return []

        collect = show = draw = summary = None

    with pytest.raises(OSError, match="jobs"):
        run(Never(), options)
