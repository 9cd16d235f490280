"""What notebooks show in place of text."""

import html
from collections.abc import Iterable, Sequence

_TABLE = '<table style="text-align: left; font-variant-numeric: tabular-nums">'


def facts(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """HTML of a title and of names with their values; all text is literal."""
    lines = "".join(f"<tr><th>{_text(k)}</th><td>{_text(v)}</td></tr>" for k, v in rows)
    return f"<div><strong>{_text(title)}</strong>{_TABLE}{lines}</table></div>"


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """HTML of a title and of a table; all text is literal."""
    head = "".join(f"<th>{_text(name)}</th>" for name in heads)
    lines = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<div><strong>{_text(title)}</strong>{_TABLE}<thead><tr>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _text(value):
    return html.escape(str(value))
