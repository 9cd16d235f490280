"""The command line and its writer of results, for tests; a quick way to align small files."""

from gwfast.__main__ import main
from gwfast.cli.outputs import write
from gwfast.cli.page import render
from gwfast.cli.watching import Watch

__all__ = ["ALIGN", "FEW", "N", "Watch", "main", "render", "write"]

N = 60
FEW = "plans of less than 300 words are often wrong, got 60 and 60"
# From one start, as it does not matter here which one wins.
ALIGN = "align", "a.vec", "b.vec", "--quiet", "--init", "profile"
