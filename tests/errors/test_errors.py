"""Bad arguments are refused by an error that names the argument and its value.

Each row of the tables `of_*.py` is a call, the name and the value that the message must hold (the
name of a type if the type is wrong), and the error unless it is a ValueError. Sentences are not
tested.
"""

import importlib
import inspect
import pathlib
import re
from importlib.util import find_spec

import pytest

ROWS = [
    pytest.param(*row, *[ValueError][len(row) - 3 :], id=f"{path.stem[3:]}-{row[1]}-{number}")
    for path in sorted(pathlib.Path(__file__).parent.glob("of_*.py"))
    if path.stem != "of_plot" or find_spec("matplotlib")
    for number, row in enumerate(importlib.import_module(f"errors.{path.stem}").ROWS)
]


@pytest.mark.parametrize("call, name, value, error", ROWS)
def test_bad_argument_is_named(call, name, value, error, tmp_path):
    with pytest.raises(error) as caught:
        # A call with a parameter wants a folder for files.
        call(tmp_path) if inspect.signature(call).parameters else call()
    message = str(caught.value)
    assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message), message
    assert value is None or str(value) in message, message
