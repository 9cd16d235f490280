"""``python -m benchmarks.accuracy``: see quality/accuracy.py."""

from .quality.accuracy import main

if __name__ == "__main__":
    main()
