"""Files that appear whole or not at all, and errors that name them."""

import os
import signal

import numpy as np
import pytest
from helpers.processes import full_disk, run_python

import gwfast


def test_a_full_disk_leaves_the_file_as_it_was_and_is_named(tmp_path):
    result = gwfast.gromov_wasserstein(np.eye(40), np.eye(40)[::-1], init="product", epsilon=0)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with full_disk(1000), pytest.raises(OSError) as caught:
        result.save(os.fsencode(path))
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError) as caught:
        result.save(tmp_path / "no/such")
    assert caught.value.filename == str(tmp_path / "no/such")
    result.save("/dev/null")  # a device is written to as it is


KILLED = """
import resource, signal
import numpy as np, gwfast
result = gwfast.gromov_wasserstein(np.eye(40), np.eye(40)[::-1], init="product", epsilon=0)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # kills this process amid the file
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
result.save({path!r})
"""


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="limits of files are of POSIX")
def test_a_killed_process_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    done = run_python(KILLED.format(path=str(path)), check=False)
    assert done.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == b"old"
