"""The command ``gwfast``, also ``python -m gwfast``."""

import sys
from importlib.util import find_spec


def main(argv=None):
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        Exit status: 0; 1 for closed output; 2 for bad input; 130 after Ctrl-C.
    """
    needed = ("click", "rich", "matplotlib", "jinja2", "joblib")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        print(
            f"gwfast: error: the command line needs {', '.join(missing)}:"
            ' pip install "gwfast-ot[cli]"',
            file=sys.stderr,
        )
        return 2
    try:
        from . import cli
    except KeyboardInterrupt:
        print("gwfast: interrupted", file=sys.stderr)
        return 130
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main())
