"""``python -m benchmarks.optimum``: see quality/optimum.py."""

from .quality.optimum import main

if __name__ == "__main__":
    main()
