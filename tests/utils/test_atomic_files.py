"""Files that appear whole, and what stays of writers that were killed."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from helpers.processes import environment, full_disk

from gwfast.utils.atomic_files import replacing, temporary_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such locks")

WRITE = """
import pathlib, sys
from gwfast.utils.atomic_files import replacing, temporary_folder
folder = pathlib.Path(sys.argv[1])
with temporary_folder(folder) as made, replacing(folder / "file") as stream:
    (made / "part").write_text("half")
    stream.write(b"half")
    stream.flush()
    print("ready", flush=True)
    sys.stdin.read()
    stream.write(b" and half")
"""


@contextmanager
def writer(folder):
    """A process in the middle of a file and of a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(folder)], env=environment(), cwd=folder,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == b"ready\n"
        yield process


def hidden(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith(".")}


def write(folder):
    with temporary_folder(folder), replacing(folder / "other") as stream:
        stream.write(b"whole")


@pytest.mark.slow
@pytest.mark.process
def test_what_killed_writers_left_is_removed(tmp_path):
    """And what one that lives is writing is not."""
    with writer(tmp_path) as killed:
        killed.send_signal(signal.SIGKILL)
    left = hidden(tmp_path)
    assert len(left) == 2
    with writer(tmp_path) as living:
        theirs = hidden(tmp_path)
        assert len(theirs) == 2 and not theirs & left
        write(tmp_path)
        assert hidden(tmp_path) == theirs
        living.communicate(b"", timeout=60)
    assert living.returncode == 0
    assert hidden(tmp_path) == set()
    assert (tmp_path / "file").read_bytes() == b"half and half"
    assert (tmp_path / "other").read_bytes() == b"whole"


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("name, age, stays", [
    # Other machines' and other versions', whose locks may not be seen.
    (".gwfast-00000000-0123456789abcdef", 3600, True),
    (".gwfast-00000000-0123456789abcdef", 30 * 24 * 3600, False),
    (".gwfast-0123456789abcdef", 30 * 24 * 3600, False),
    (".gwfast-abcd_123", 3600, True),
    (".gwfast-abcd_123", 30 * 24 * 3600, False),
    (".gwfast-notes-of-mine", 30 * 24 * 3600, True),
    (".gwfast", 30 * 24 * 3600, True),
])  # fmt: skip
def test_strange_ones_must_be_old(tmp_path, folder, name, age, stays):
    path = tmp_path / name
    (path.mkdir if folder else path.touch)()
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    write(tmp_path)
    assert path.exists() == stays
    assert hidden(tmp_path) == ({name} if stays else set())


def test_one_process_writes_many_at_a_time(tmp_path):
    with replacing(tmp_path / "a") as a, replacing(tmp_path / "b") as b:
        a.write(b"1")
        write(tmp_path)
        b.write(b"2")
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [
        b"1", b"2", b"whole",
    ]  # fmt: skip


def test_errors_name_the_file_that_was_given(tmp_path):
    """Neither a temporary one nor, where a disk is full, none."""
    path = os.fsencode(tmp_path / "file")
    with full_disk(1000), pytest.raises(OSError) as caught:
        with replacing(path) as stream:
            stream.write(bytes(5000))
    assert caught.value.filename == str(tmp_path / "file")
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "no/such"):
        pass
    assert caught.value.filename == str(tmp_path / "no/such")


def test_links_are_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    link = tmp_path / ".gwfast-abcd_123"
    link.symlink_to(tmp_path / "kept", target_is_directory=True)
    os.utime(link, (0, 0), follow_symlinks=False)
    write(tmp_path)
    assert (tmp_path / "kept").is_dir() and link.is_symlink()
