"""What lies in a folder."""


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
