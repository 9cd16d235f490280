"""Nothing of optimal transport: arguments, memory, progress, files."""
