"""A room imports only what stands below it: the drawing in CONTRIBUTING.md."""

import ast
from pathlib import Path

import pytest

import gwfast

PACKAGE = Path(gwfast.__file__).parent
ROOT = {"__init__", "__main__", "_api", "_source_tree", "_version"}
# From bottom to top, twelve of rooms; those on one line do not know each other.
FLOORS = """
_version
kernels
utils
results
linear
problems
quadratic
solvers
alignment
words pot plot singlecell
distributed
experiments
cli
""".split("\n")
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}
ROOMS = sorted(FLOOR.keys() - ROOT)


def imports(path, room):
    """The other rooms that a module imports, also inside functions, by line."""
    above = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = above[: len(above) - node.level + 1]
            names = [node.module] if node.module else [one.name for one in node.names]
            for name in names:
                target = (*base, *name.split("."))[0]
                if target != room:
                    yield node.lineno, target
        elif isinstance(node, ast.Import):
            if "gwfast" in [one.name for one in node.names]:
                yield node.lineno, "alignment"  # the highest of the public names


def test_every_module_is_in_a_room():
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_stands_below_it(room):
    upwards = [
        f"{path.relative_to(PACKAGE)}:{line} imports {target}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for line, target in imports(path, room)
        if FLOOR[target] >= FLOOR[room]
    ]
    assert not upwards


def test_no_function_shadows_the_module_that_it_lives_in():
    """``gwfast.align`` is the public one; ``gwfast.alignment.align`` stays a module."""
    for path in PACKAGE.glob("*/__init__.py"):
        modules = {one.stem for one in path.parent.glob("*.py")}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not modules & {one.asname or one.name for one in node.names}


def lengths():
    """Every function and class of the package, and its lines but for its docstring."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                n_lines = node.end_lineno - node.lineno + 1
                if ast.get_docstring(node) is not None:
                    first = node.body[0]
                    n_lines -= first.end_lineno - first.lineno + 1
                yield f"{path.relative_to(PACKAGE)}:{node.name}", type(node), n_lines


@pytest.mark.parametrize("kind, longest", [(ast.FunctionDef, 60), (ast.ClassDef, 200)])
def test_functions_and_classes_are_short(kind, longest):
    too_long = {
        name: n_lines
        for name, came, n_lines in lengths()
        if came is kind and n_lines > longest
    }
    assert not too_long
