"""``python -m benchmarks.search``: see quality/search.py."""

from .quality.search import main

if __name__ == "__main__":
    main()
