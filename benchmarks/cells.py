"""``python -m benchmarks.cells``: see quality/cells.py."""

from .quality.cells import main

if __name__ == "__main__":
    main()
