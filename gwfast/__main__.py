"""The command ``gwfast``, also ``python -m gwfast``."""

import sys
from importlib.util import find_spec


def main(argv=None):
    """Run the command line, and return its exit status.

    The status is 0; 1 for closed output or a missing word; 2 for bad input; 130 after Ctrl-C.
    """
    needed = ("click", "rich", "matplotlib", "jinja2", "joblib")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        message = f'the command line needs {", ".join(missing)}: pip install "gwfast-ot[cli]"'
        print(f"gwfast: error: {message}", file=sys.stderr)
        return 2
    from . import cli

    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main())
