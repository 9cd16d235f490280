"""The cluster that a command runs on, where it is asked for one."""

import contextlib

import click

# Seconds to look for a scheduler.
PATIENCE = 30


@contextlib.contextmanager
def connected(address):
    """A block in which large problems are solved by the workers of a Dask scheduler;
    None is here.
    """
    if address is None:
        yield
        return
    try:
        from distributed import Client

        from ..distributed import cluster
    except ImportError:
        raise click.UsageError(
            "--scheduler needs dask: pip install 'gwfast-ot[distributed]'"
        ) from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--scheduler {address}: {error}") from error
    with client, cluster(client):
        yield
