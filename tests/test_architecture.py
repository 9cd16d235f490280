"""A room imports only what stands below it (the drawing in CONTRIBUTING.md), and no
modules import one another in a circle.
"""

import ast
import re
from functools import cache
from pathlib import Path

import gwfast

PACKAGE = Path(gwfast.__file__).parent
ROOT = {"__init__", "__main__", "_api", "_source_tree", "_version"}
# From bottom to top, thirteen of rooms; rooms on one line do not know each other.
FLOORS = """
_version
kernels
utils
results
linear
problems
quadratic
solvers
words
alignment
pot plot singlecell
gradients spatial
distributed
cli
""".split("\n")
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}
ROOMS = sorted(FLOOR.keys() - ROOT)


SUFFIXES = ".py", ".pyi", ".pyx", ".pxd"
SOURCES = [one for one in sorted(PACKAGE.rglob("*.p*")) if one.suffix in SUFFIXES]


def module_of(path):
    """The names that lead to a module; to an ``__init__``, those of its package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(path) for path in SOURCES}


@cache
def tree(path):
    text = path.read_text()
    if path.suffix in (".pyx", ".pxd"):  # of Cython, the imports alone
        found = re.findall(r"^ *(from [.\w]+ c?import (?:\([^)]*\)|.*))", text, re.M)
        text = "\n".join(found).replace("cimport", "import")
    return ast.parse(text)


def imports(path):
    """The modules of the package that one imports, also inside functions."""
    above = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = above[: len(above) - node.level + 1]
            for one in node.names:
                target = (*base, *(node.module or "").split("."), one.name)
                target = tuple(name for name in target if name)
                while target not in MODULES:
                    target = target[:-1]
                yield target
        elif isinstance(node, ast.Import):
            if "gwfast" in [one.name for one in node.names]:
                yield ()


def floor(module):
    # The root has the public names, of which those of `alignment` are the highest.
    return FLOOR[module[0] if module else "alignment"]


def test_every_module_is_in_a_room():
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*ROOMS}


def test_a_room_imports_only_what_stands_below_it():
    upwards = [
        f"{path.relative_to(PACKAGE)} imports {'.'.join(target)}"
        for path in SOURCES
        for target in imports(path)
        if (room := module_of(path)[:1])
        and room[0] in ROOMS
        and room != target[:1]
        and floor(target) >= FLOOR[room[0]]
    ]
    assert not upwards


def test_no_modules_import_one_another_in_a_circle():
    left = {module: set() for module in MODULES}
    for path in SOURCES:
        left[module_of(path)] |= {*imports(path)} - {module_of(path)}
    while free := [one for one in left if not left[one] & left.keys()]:
        left = {one: left[one] for one in left.keys() - free}
    assert not [".".join(one) for one in left]  # or what they import


def test_no_function_shadows_the_module_that_it_lives_in():
    """``gwfast.align`` is the public one; ``gwfast.alignment.align`` stays a module."""
    for path in PACKAGE.glob("*/__init__.py"):
        modules = {one.stem for one in path.parent.glob("*.py")}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not modules & {one.asname or one.name for one in node.names}


def test_files_are_short():
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert not {path: n_lines for path, n_lines in lengths.items() if n_lines > 600}
