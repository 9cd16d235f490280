"""What functions have from their siblings: descriptions of arguments, returns and
examples; and those whose names end in 2, which return the value in place of the plan.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
RETURNS = """{value} : scalar
    As POT's, of its library, dtype and type (a 0-d array or not): without entropy, but
    for unbalanced problems.
log : dict
    If asked for, that of `{name}`;
    where that returns one plan, this is in it as "T"."""


def like(sibling: Callable[..., Any], *others: Callable[..., Any]) -> Callable[[F], F]:
    """A decorator that completes a docstring by those of functions.

    It adds descriptions of parameters, and those sections that `sibling` has, with what
    its examples begin with. If that is not fused and the function is, the example and
    the log are changed accordingly.
    """

    def complete(function: F) -> F:
        parameters, own = inspect.signature(function).parameters, _sections(function)
        theirs, name = _sections(sibling), function.__name__
        if not own:  # Python runs with -OO
            return function
        example = theirs["Examples"].replace(f"{sibling.__name__}(", f"{name}(")
        begin, call, rest = re.split(r"(?m)^(>>> .*pot\..*)", example, maxsplit=1)
        if "M" in parameters and "M" not in inspect.signature(sibling).parameters:
            begin, call = (
                begin + ">>> M = np.abs(np.subtract.outer(x, x[::-1]))\n",
                call.replace("(C1", "(M, C1"),
            )
            returns = re.sub(r'"(\w*)gw_dist"', r'"\1fgw_dist"', theirs["Returns"])
            theirs["Returns"] = (
                returns + '\n    With the parts of the loss, "lin_loss" and "quad_loss".'
            )
        own["Examples"] = begin + own.get("Examples", call + rest)
        theirs.pop("Warns", None)
        known = [_sections(one)["Parameters"] for one in (*others, sibling)]
        known += [own["Parameters"]] if "Parameters" in own else []
        own["Parameters"] = _parameters("\n".join(known), parameters)
        function.__doc__ = _joined(theirs | own)
        return function

    return complete


def valued(function: Callable[P, Any], value: str, **defaults: Any) -> Callable[P, float | Any]:
    """The function whose name ends in 2 for `function`, which returns a plan.

    It has the signature of `function`, but for those `defaults`, and returns what the
    log of that one has under the name `value`.
    """
    signature, name = inspect.signature(function), function.__name__
    own = dict(signature.parameters)
    own |= {key: own[key].replace(default=x) for key, x in defaults.items()}
    signature = signature.replace(parameters=list(own.values()))
    places = {key: place for place, key in enumerate(own)}
    at = places["log"]

    @functools.wraps(function)
    def function2(*args: P.args, **kwargs: P.kwargs) -> Any:
        # To bind arguments to their names takes a tenth of a small problem.
        given = {key: x for key, x in defaults.items() if places[key] >= len(args)}
        given |= kwargs
        positional = len(args) > at
        log = args[at] if positional else kwargs.get("log")
        asked = True if log else "value"
        if positional:
            args = *args[:at], asked, *args[at + 1 :]  # type: ignore[assignment]
        else:
            given["log"] = asked
        try:
            plan, *others, entries = function(*args, **given)
        except TypeError:
            _check_call(signature, f"{name}2", args, given)
            raise
        if not others:
            entries["T"] = plan
        return (entries[value], entries) if log else entries[value]

    sections = _sections(function)
    if sections:
        summary = re.sub(r" plans?\b", " loss", sections[""], count=1)
        sections[""] = summary.replace(f"{name}`", f"{name}2`")
        sections["Parameters"] = _parameters(sections["Parameters"], own)
        sections["Returns"] = RETURNS.format(value=value, name=name)
        example, _, _ = sections["Examples"].rpartition("\n>>> ")
        example = re.sub(r">>> plan.* = (pot\.\w+)", r">>> loss = \g<1>2", example)
        sections["Examples"] = f"{example}\n>>> round(float(loss), 6) >= 0\nTrue"
        function2.__doc__ = _joined(sections)
    function2.__name__ = function2.__qualname__ = f"{name}2"
    returned = float | Any
    function2.__annotations__ = function.__annotations__ | {"return": returned}
    function2.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return function2


def _check_call(
    signature: inspect.Signature, name: str, args: Any, kwargs: Mapping[str, Any]
) -> None:
    """Raise a TypeError that has this name where arguments do not fit a signature."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def _sections(function: Callable[..., Any]) -> dict[str, str]:
    """The text of a docstring by headings, its beginning by ''."""
    text = inspect.getdoc(function)
    if text is None:
        return {}
    begin, *others = re.split(r"\n\n(\w+)\n-+\n", text)
    return {"": begin} | dict(zip(others[::2], others[1::2], strict=True))


def _joined(sections: Mapping[str, str]) -> str:
    headed = (
        f"\n\n{heading}\n{'-' * len(heading)}\n{text}" if heading else text
        for heading, text in sections.items()
    )
    return "".join(headed) + "\n"


def _parameters(text: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """The last description of each of these, with its default here."""
    known: dict[str, str] = {}
    for described in re.split(r"\n(?=\S)", text):
        names = re.split(" :|\n", described, maxsplit=1)[0].split(", ")
        known |= dict.fromkeys(names, described)
    found = []
    for name, parameter in parameters.items():
        default = parameter.default
        default = str(default).removesuffix(".0").replace("e-0", "e-")
        head, _, rest = known[name].partition("\n")
        head = re.sub(r"default=[\d.e-]+", f"default={default}", head)
        found.append(head + "\n" + rest if rest else head)
    return "\n".join(dict.fromkeys(found))
