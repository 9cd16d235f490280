"""Rows of tests/errors for calls with one bad argument."""


def row(call, name, value, shown=None, error=ValueError, **others):
    """Return a call with a bad argument, which the message shows, and with others."""
    argument, shown = name.partition("[")[0], value if shown is None else shown
    return lambda: call(**{argument: value}, **others), name, shown, error


def refused(call, error=ValueError, /, **arguments):
    """Return a row for each bad value of each argument: the message shows the values of a
    list or, if the error is a TypeError, their types; a dict has values by the text that is shown.
    """
    rows = []
    for name, values in arguments.items():
        if not isinstance(values, dict):
            shown = [type(x).__name__ if error is TypeError else x for x in values]
            rows += [row(call, name, x, text, error) for x, text in zip(values, shown, strict=True)]
        else:
            rows += [row(call, name, x, text, error) for text, x in values.items()]
    return rows
