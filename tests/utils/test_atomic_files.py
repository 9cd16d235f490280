"""Files that appear whole or not at all."""

import os
import signal

import pytest
from helpers.processes import full_disk, run_python

from gwfast.utils.atomic_files import replacing


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    with pytest.raises(ZeroDivisionError), replacing(path) as stream:
        stream.write(b"half")
        _ = 1 // 0
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]


KILLED = """
import os, signal
from gwfast.utils.atomic_files import replacing
with replacing({path!r}) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="has no SIGKILL")
def test_a_killed_process_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    done = run_python(KILLED.format(path=str(path)), check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_errors_name_the_file_that_was_given(tmp_path):
    """A temporary file is never named, and a full disk names a file."""
    path = os.fsencode(tmp_path / "file")
    with full_disk(1000), pytest.raises(OSError) as caught:
        with replacing(path) as stream:
            stream.write(bytes(5000))
    assert caught.value.filename == str(tmp_path / "file")
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "no/such"):
        pass
    assert caught.value.filename == str(tmp_path / "no/such")
