"""The command line, and the folder of results that it writes.

Needs click, rich, matplotlib, jinja2 and joblib (the extra ``cli``), as `gwfast.__main__` checks.
"""

from .menu import cli as cli
from .menu import main as main
