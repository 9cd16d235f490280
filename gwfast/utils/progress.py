"""Telling what is going on while it does."""

import contextlib


@contextlib.contextmanager
def watching(progress):
    """A function ``watch(text, done=None, total=None)`` to report to.

    Parameters
    ----------
    progress : bool or callable
        False: reports are dropped. True: a bar on stderr. Else they go there.

    Raises
    ------
    TypeError
        If it is neither.
    ImportError
        If it is True and rich is not installed.
    """
    if callable(progress):
        yield lambda text, done=None, total=None: progress(text, done, total)
    elif not isinstance(progress, bool):
        raise TypeError(
            f"progress must be a bool or callable, got {type(progress).__name__}"
        )
    elif not progress:
        yield lambda text, done=None, total=None: None
    else:
        yield from _bar()


def console(*, stderr=False):
    """rich's, where words and names may look like its markup: all text is literal."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def _bar():
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise ImportError(
            "progress=True needs the package rich (pip install rich)"
        ) from error
    # Names of starts may look like rich's markup.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(16),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)  # a bar that pulses

        def watch(text, done=None, total=None):
            bar.update(task, description=text, completed=done or 0, total=total)

        yield watch
