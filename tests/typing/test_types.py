"""All public names have annotations, and stubs name what there is."""

import ast
import enum
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import gwfast
from gwfast import plot, pot, words

PACKAGE = Path(gwfast.__file__).parent


def functions():
    for room in (gwfast, words, plot, pot):
        for name in room.__all__:
            x = getattr(room, name)
            if inspect.isfunction(x):
                yield f"{room.__name__}.{name}", x
            elif inspect.isclass(x) and not issubclass(x, enum.Enum):
                for method, y in vars(x).items():
                    y = y.fget if isinstance(y, property) else y
                    y = y.__func__ if isinstance(y, classmethod) else y
                    if inspect.isfunction(y) and not method.startswith("_"):
                        yield f"{room.__name__}.{name}.{method}", y


@pytest.mark.parametrize("name, function", dict(functions()).items())
def test_public_functions_are_annotated(name, function):
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert set(bare) <= {"self", "cls"}
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.pyi")), ids=lambda path: path.stem)
def test_stub_has_the_signatures_of_the_compiled_module(path):
    module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    homes = {name: getattr(x, "__module__", "") for name, x in vars(module).items()}
    stub = ast.parse(path.read_text()).body
    stubbed = {node.name: node for node in stub if hasattr(node, "name")}
    assert stubbed.keys() == {x for x in homes if x[0] != "_" and homes[x] == module.__name__}
    for name, node in stubbed.items():
        own = getattr(module, name)
        if isinstance(node, ast.ClassDef):
            members = {getattr(x, "name", None) or x.target.id for x in node.body}
            assert members <= set(dir(own))
        else:
            arguments = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
            assert arguments == list(inspect.signature(own).parameters)
