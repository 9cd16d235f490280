"""The command line, a quick way to align small files, and words that are hard to write."""

from gwfast.__main__ import main

__all__ = ["ALIGN", "FEW", "HARD", "N", "main"]

N = 60
FEW = "plans of less than 300 words are often wrong, got 60 and 60"
# From one start, as it does not matter here which one wins.
ALIGN = "align", "a.vec", "b.vec", "--quiet", "--init", "profile"
# Texts that could end a script, a tag, an attribute, a line, a field, a template or a file.
HARD = (
    "</script>", "&lt;", "<b>x</b>", "<!--", "-->", '"onload="alert(1)', "'quote'",
    "{{ 7*7 }}", "{% raw %}", "{#", "$x_1$", "\\u003c", "null", "=1+1", "a b", "a_b",
    "a\tb", "c\nd", "e\rf", "\x00\x1b[31m", "\u2028", "\ufeffbom", "\ud800", "\x85",
    "שלום", "مرحبا بالعالم", "日本語", "हिन्दी", "e\u202ef", "n\u0303", "👩\u200d👧",
    "W" * 200,
)  # fmt: skip
