"""A room imports only what stands below it (the drawing in CONTRIBUTING.md), and no
modules import one another in a circle.
"""

import ast
import re
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
SOURCES = [path for path in sorted(PACKAGE.rglob("*.p*")) if path.suffix in SUFFIXES]


def module_of(path):
    """Return the names that lead to a module, or to the package of an ``__init__``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(path) for path in SOURCES}


def imports(path):
    """Return the modules of the package that a file imports, also inside functions."""
    above, text, found = path.relative_to(PACKAGE).parts[:-1], path.read_text(), set()
    if path.suffix in (".pyx", ".pxd"):  # of Cython, the imports alone
        lines = re.findall(r"^ *(from [.\w]+ c?import (?:\([^)]*\)|.*))", text, re.M)
        text = "\n".join(lines).replace("cimport", "import")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = above[: len(above) - node.level + 1]
            for alias in node.names:
                target = *base, *(node.module or "").split("."), alias.name
                target = tuple(name for name in target if name)
                while target not in MODULES:
                    target = target[:-1]
                found.add(target)
        elif isinstance(node, ast.Import) and "gwfast" in [alias.name for alias in node.names]:
            found.add(())
    return found


IMPORTS = [(module_of(path), imports(path) - {module_of(path)}) for path in SOURCES]


def test_every_module_is_in_a_room():
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*ROOMS}


def test_a_room_imports_only_what_stands_below_it():
    def floor(module):
        # The root has public names of all rooms up to `alignment`.
        return FLOOR[module[0] if module else "alignment"]

    upwards = [
        f"{module} imports {target}"
        for module, targets in IMPORTS
        for target in targets
        if module[:1] != target[:1] and module and module[0] in ROOMS
        and floor(target) >= FLOOR[module[0]]
    ]  # fmt: skip
    assert not upwards


def test_no_modules_import_one_another_in_a_circle():
    left = {module: set() for module in MODULES}
    for module, targets in IMPORTS:
        left[module] |= targets
    while free := [module for module in left if not left[module] & left.keys()]:
        left = {module: left[module] for module in left.keys() - free}
    assert not left  # or what they import


def test_no_function_shadows_the_module_that_it_lives_in():
    """``gwfast.align`` is the public function; ``gwfast.alignment.align`` stays a module."""
    for path in PACKAGE.glob("*/__init__.py"):
        modules = {other.stem for other in path.parent.glob("*.py")}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not modules & {alias.asname or alias.name for alias in node.names}


def test_files_are_short():
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert not {path: n_lines for path, n_lines in lengths.items() if n_lines > 600}
