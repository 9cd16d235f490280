"""Arguments, memory, progress and files; no optimal transport."""
