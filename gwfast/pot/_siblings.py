"""Only until barycenters, dictionaries and linear problems have docstrings of their own."""

import inspect
import re


def like(*siblings):
    """Decorate a function to say which functions describe its other parameters."""

    def complete(function):
        text, _, _ = inspect.getdoc(function).partition("\n\nExamples\n")
        begin, *rest = re.split(r"(\n\n(?:Parameters|Returns)\n.*)", text, flags=re.DOTALL)
        names = " and ".join(f"`{sibling.__name__}`" for sibling in siblings)
        said = f"\n\nParameters that are not described here are those of {names}."
        function.__doc__ = begin + said + "".join(rest)
        return function

    return complete
