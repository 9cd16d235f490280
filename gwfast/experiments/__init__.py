"""The paper's experiments as commands."""
