"""The command line, and the folder of results that it writes; needs the extra ``cli``."""

from .commands import cli as cli
from .commands import main as main
