"""Tables in Markdown."""


def table(titles, rows):
    """A table whose columns of numbers, all but the first, align to the right."""
    rule = [":--"] + ["--:"] * (len(titles) - 1)
    lines = (" | ".join(map(str, row)) for row in (titles, rule, *rows))
    return "\n".join(f"| {line} |" for line in lines)


def show(title, titles, rows):
    """Print one under its name, or the name alone where there are no rows."""
    print(f"\n**{title}**\n")
    if rows:
        print(table(titles, rows), end="\n\n", flush=True)
