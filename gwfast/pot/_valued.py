"""POT's functions whose names end in 2: as those without, but the value comes first."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, ParamSpec

P = ParamSpec("P")
DOC = """{summary}

Parameters are those of `{name}`.

Returns
-------
{value} : scalar
    Of the library, dtype and type (a 0-d array or not) of POT's; without entropy.
log : dict
    If asked for, with the plan as "T".
{example}"""


def _example(function: Callable[..., Any]) -> str:
    """The example of a function of the plan, with the value asked for instead."""
    name = function.__name__
    _, heading, lines = (inspect.getdoc(function) or "").partition("\nExamples\n")
    lines = re.sub(rf"plan(?:, _)? = pot\.{name}\(", f"loss = pot.{name}2(", lines)
    call, _, _ = lines.rpartition("\n>>> ")
    return f"{heading}{call}\n>>> round(float(loss), 6) >= 0\nTrue\n" if heading else ""


def valued(
    function: Callable[P, Any], value: str, **defaults: Any
) -> Callable[P, float | Any]:
    """The function whose name ends in 2 for `function`, which returns a plan.

    It has the signature of `function`, but for those `defaults`, and returns what the
    log of that one has under the name `value`.
    """
    signature, name = inspect.signature(function), function.__name__
    own = dict(signature.parameters)
    own |= {key: own[key].replace(default=x) for key, x in defaults.items()}
    signature = signature.replace(parameters=list(own.values()))

    @functools.wraps(function)
    def function2(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}2() {error}") from None
        call.apply_defaults()
        log = call.arguments["log"]
        call.arguments["log"] = True
        plan, entries = function(*call.args, **call.kwargs)
        entries["T"] = plan
        return (entries[value], entries) if log else entries[value]

    # There is none where Python runs with -OO.
    summary = (function.__doc__ or "").partition("\n\n")[0].replace("\n    ", "\n")
    summary = summary.replace(" plan", " loss", 1).replace(f"{name}`", f"{name}2`")
    function2.__doc__ = DOC.format(
        summary=summary, name=name, value=value, example=_example(function)
    )
    function2.__name__ = function2.__qualname__ = f"{name}2"
    returned = float | Any
    function2.__annotations__ = function.__annotations__ | {"return": returned}
    function2.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return function2
