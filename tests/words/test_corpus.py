"""Files that fuzzing began with and found; `tests/heavy/fuzz_readers.py` looks for more."""

from pathlib import Path

import pytest
from helpers.readers import READERS, read

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("reader", READERS)
def test_a_value_or_an_error_that_names_the_file(tmp_path, reader):
    files = sorted(path for path in CORPUS.rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) < 200_000
    for path in files:
        for size in (None, path.stat().st_size // 2):
            read(reader, path.read_bytes()[:size], tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_some_files_are_read(tmp_path, reader):
    assert any(read(reader, path.read_bytes(), tmp_path) for path in (CORPUS / reader).iterdir())
