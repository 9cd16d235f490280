"""Fresh processes that import the same gwfast as this one."""

import os
import struct
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import gwfast


def environment(**changes):
    """Ours, with the gwfast of this process and no terminal; None removes a variable.

    PYTHONPATH matters where gwfast was built in place instead of installed.
    """
    variables = {
        **os.environ,
        "PYTHONPATH": str(Path(gwfast.__file__).resolve().parents[1]),
        **dict.fromkeys(("COLUMNS", "FORCE_COLOR", "NO_COLOR")),
        **changes,
    }
    return {name: value for name, value in variables.items() if value is not None}


def run_python(code, *, check=True, **changes):
    """Run `code`, away from the source tree: its gwfast folder holds no compiled
    kernels, but would be found first in the current folder."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment(**changes),
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=check,
    )


def command(*arguments, cwd, **changes):
    """Run gwfast in a process whose output is piped."""
    return subprocess.run(
        [sys.executable, "-m", "gwfast", *arguments],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        timeout=120,
        check=False,
    )


def on_terminal(*arguments, cwd, stdout=None):
    """Run gwfast on a pseudo-terminal of 80 columns, but for `stdout` if that is given;
    returns the exit status, and the text of the terminal and of the pipe."""
    import fcntl
    import pty
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "gwfast", *arguments],
        cwd=cwd,
        env=environment(TERM="xterm-256color"),
        stdin=follower,
        stdout=stdout or follower,
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    with open(leader, "rb", buffering=0) as terminal, suppress(OSError):
        # Linux says by an error that the other end is closed.
        while more := terminal.read(1 << 16):
            shown += more
    piped, _ = process.communicate(timeout=120)
    return process.returncode, shown.decode(), (piped or b"").decode()


@contextmanager
def full_disk(n_bytes):
    """A block in which no file of this process can grow beyond so many bytes."""
    resource = pytest.importorskip("resource")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def kill_once_written(path, arguments, *, cwd, pause=0.0):
    """Start a Python process with these arguments, and kill it `pause` seconds after it
    has written the file; returns its exit status, which is 0 if it was done by then.
    """
    before = path.stat().st_mtime_ns if path.exists() else 0
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(),
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while process.poll() is None:
        if path.exists() and path.stat().st_mtime_ns != before:
            time.sleep(pause)
            process.kill()
            break
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return process.wait()
