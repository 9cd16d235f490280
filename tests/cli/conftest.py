import pytest
from helpers.cli import write_files


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Run the command in a folder of small files, on a terminal of 80 columns."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path
