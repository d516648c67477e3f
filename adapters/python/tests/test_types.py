"""The stubs say of the native part what is there. (`mypy --strict` takes half a minute.)"""

import ast
import inspect
import pathlib

import manyway
from manyway import _native


def names_of(function):
    return [argument.arg for argument in function.args.args]


def test_stubs_are_as_the_native_part():
    folder = pathlib.Path(manyway.__file__).parent
    assert (folder / "py.typed").exists()
    stub = ast.parse((folder / "_native.pyi").read_text())
    told = {"__version__"}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            told.add(node.name)
            theirs = inspect.signature(getattr(_native, node.name))
            assert list(theirs.parameters) == names_of(node), node.name
        elif isinstance(node, ast.ClassDef):
            told.add(node.name)
            own = getattr(_native, node.name)
            for method in node.body:
                if not isinstance(method, ast.FunctionDef) or method.name == "__new__":
                    continue
                theirs = getattr(own, method.name)
                if callable(theirs):
                    assert list(inspect.signature(theirs).parameters) == names_of(method)
    assert told == set(_native.__all__)


def test_everything_public_has_a_docstring():
    for name in manyway.__all__:
        thing = getattr(manyway, name)
        if name == "__version__":
            continue
        assert thing.__doc__, name
        for method in vars(thing) if inspect.isclass(thing) else ():
            if not method.startswith("_") and callable(getattr(thing, method)):
                assert getattr(thing, method).__doc__, f"{name}.{method}"
