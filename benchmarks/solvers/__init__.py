"""gwfast and its peers on the same problems, each in a process of its own."""

WORKER = f"{__name__}.worker"
