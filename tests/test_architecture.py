"""A room imports only what stands below it (the drawing in CONTRIBUTING.md), and no
modules import one another in a circle.
"""

import ast
import re
from collections import defaultdict
from importlib.util import resolve_name
from pathlib import Path

import gwfast

PACKAGE = Path(gwfast.__file__).parent
ROOT = {"__init__", "__main__", "_api", "_source_tree", "_version"}
CONTRIBUTING = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
DRAWN = re.findall(r"^(\w+)/ {2,}", CONTRIBUTING.read_text("utf-8"), re.MULTILINE)
FLOOR = {room: number for number, room in enumerate(["_version", *DRAWN[::-1]])}
ROOMS = {*DRAWN} - {"csrc"}
FLOOR["gwfast"] = FLOOR["alignment"]  # the root has public names of all rooms up to this one
SUFFIXES = ".py", ".pyi", ".pyx", ".pxd"
SOURCES = [path for path in sorted(PACKAGE.rglob("*.p*")) if path.suffix in SUFFIXES]


def module_of(path):
    """Return the name of a module, or of the package of an ``__init__``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def room_of(module):
    return module.split(".")[:2][-1]


MODULES = {module_of(path) for path in SOURCES}


def imports(path):
    """Return the modules of the package that a file imports, also inside functions, but for
    annotations.
    """
    package, text, found = module_of(path.with_name("__init__.py")), path.read_text(), set()
    if path.suffix in (".pyx", ".pxd"):  # of Cython, the imports alone
        lines = re.findall(r"^ *(from [.\w]+ c?import (?:\([^)]*\)|.*))", text, re.M)
        text = "\n".join(lines).replace("cimport", "import")
    tree = ast.parse(text)
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    annotations = {node for block in blocks for node in block.body}
    for node in set(ast.walk(tree)) - annotations:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{base}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else base for name in names}
        elif isinstance(node, ast.Import) and "gwfast" in [alias.name for alias in node.names]:
            found.add("gwfast")
    return found - {module_of(path)}


IMPORTS = defaultdict(set)
for path in SOURCES:
    IMPORTS[module_of(path)] |= imports(path)


def test_every_module_is_in_a_room():
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == ROOMS


def test_a_room_imports_only_what_stands_below_it():
    upwards = [
        f"{module} imports {target}"
        for module, targets in IMPORTS.items()
        for target in targets
        if room_of(module) in ROOMS
        and room_of(target) != room_of(module)
        and FLOOR[room_of(target)] >= FLOOR[room_of(module)]
    ]
    assert not upwards


def test_no_modules_import_one_another_in_a_circle():
    left = dict(IMPORTS)
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
