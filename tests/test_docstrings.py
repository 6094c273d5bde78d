"""Every public name tells what it guarantees, what it takes and how it fails.

What can be checked of that: a docstring of its own; every parameter spoken of, unless "Words of
signatures" in `docs/concepts.md` says once for all what it is; every error that it raises named.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import msgspec

import kubewright

ROOMS = (
    *("kubewright", "kubewright.api", "kubewright.client", "kubewright.cache"),
    *("kubewright.runtime", "kubewright.webhook", "kubewright.telemetry", "kubewright.testing"),
)
SOURCES = Path(kubewright.__file__).parent
CONCEPTS = Path(__file__).parents[1] / "docs" / "concepts.md"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Named:
    """A public callable: its name, what documents it, and what is called."""

    name: str
    doc: str
    call: Callable[..., Any]
    cls: type | None = None


def public_objects() -> dict[str, Any]:
    """Return what the faces hold, by its first public name."""
    found: dict[int, tuple[str, Any]] = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            found.setdefault(id(getattr(module, name)), (f"{room}.{name}", getattr(module, name)))
    return dict(found.values())


OBJECTS = public_objects()
CLASSES = {name: each for name, each in OBJECTS.items() if inspect.isclass(each)}
FUNCTIONS = {name: each for name, each in OBJECTS.items() if inspect.isfunction(each)}


def members_of(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods and properties that a class defines itself."""
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        function = function.fget if isinstance(function, property) else function
        if inspect.isfunction(function) and not name.startswith("_"):
            yield name, inspect.unwrap(function)


def callables() -> Iterator[Named]:
    """Yield public functions, methods, and the constructors of public classes."""
    for name, function in FUNCTIONS.items():
        yield Named(name, function.__doc__ or "", inspect.unwrap(function))
    for name, cls in CLASSES.items():
        for member, method in members_of(cls):
            yield Named(f"{name}.{member}", method.__doc__ or "", method, cls)
        for special in ("__init__", "__post_init__"):
            constructor = vars(cls).get(special)
            if inspect.isfunction(constructor) and is_written(constructor, cls):
                yield Named(f"{name}()", cls.__doc__ or "", constructor, cls)


def is_written(constructor: Callable[..., Any], cls: type) -> bool:
    """Tell whether a constructor has a source: those of dataclasses and protocols are generated."""
    generated = constructor.__code__.co_filename.startswith("<")
    return constructor.__module__ == cls.__module__ and not generated


@cache
def tree_of(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    loaded = importlib.import_module(module)
    assert isinstance(loaded, ModuleType)
    return ast.parse(inspect.getsource(loaded))


def nodes_of(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose errors a function passes on.

    Functions inside it run at another time, and what is tried may be caught.
    """
    tried = function.body if isinstance(function, ast.Try) and function.handlers else []
    for child in ast.iter_child_nodes(function):
        if child not in tried and not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            yield child
            yield from nodes_of(child)


def private_functions(call: Callable[..., Any], cls: type | None) -> dict[str, Function]:
    """Return the private functions of a callable's module, and methods of its class, by name."""
    found: dict[str, Function] = {}
    for node in tree_of(call.__module__).body:
        inside = node.body if isinstance(node, ast.ClassDef) and cls is not None else []
        if isinstance(node, ast.ClassDef) and (cls is None or node.name != cls.__name__):
            inside = []
        for each in (node, *inside):
            if isinstance(each, Function) and each.name.startswith("_"):
                found[each.name] = each
    return found


def raised_by(named: Named) -> set[str]:
    """Return the errors that a callable raises, itself or by a private function of its module."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(named.call))).body
    private = private_functions(named.call, named.cls)
    seen: set[str] = set()
    errors: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in nodes_of(waiting.pop()):
            if isinstance(node, ast.Raise) and node.exc is not None:
                error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                errors.add(ast.unparse(error).rpartition(".")[2])
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).removeprefix("self.").removeprefix("cls.")
                if called in private and called not in seen:
                    seen.add(called)
                    waiting.append(private[called])
    return {error for error in errors if error[:1].isupper()}


def known_words() -> set[str]:
    """Return the parameters that the concepts explain for all functions."""
    table = CONCEPTS.read_text().partition("## Words of signatures")[2]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])}


def is_record(cls: type | None) -> TypeGuard[type[msgspec.Struct]]:
    """Tell a class whose fields are the parameters of its constructor."""
    return cls is not None and issubclass(cls, msgspec.Struct)


def parameters_of(named: Named) -> list[str]:
    """Return the names of what a caller passes."""
    if named.name.endswith("()") and is_record(named.cls):
        return []
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(named.call).parameters.values()
    names = [each.name for each in parameters if each.kind not in kinds]
    return [name for name in names if name not in ("self", "cls")]


def texts_about(named: Named) -> str:
    """Return all that a reader of a callable is told: of it, of its class, of what that fulfils.

    A class fulfils the public protocols, and the classes that its docstring names, where they have
    a method of that name.
    """
    if named.cls is None:
        return named.doc
    about, member = named.cls.__doc__ or "", named.name.rpartition(".")[2]
    texts = [named.doc, about]
    for cls in CLASSES.values():
        is_model = getattr(cls, "_is_protocol", False) or f"`{cls.__name__}`" in about
        if is_model and cls is not named.cls:
            texts.append(getattr(vars(cls).get(member), "__doc__", None) or "")
    return "\n".join(texts)


def is_told(word: str, text: str) -> bool:
    """Tell whether a text speaks of a parameter or field."""
    spoken = re.escape(word).replace("_", "[_ -]")
    return re.search(rf"\b{spoken}s?\b", text, re.IGNORECASE) is not None


def fields_told_beside(cls: type) -> set[str]:
    """Return the fields of a class that have a text of their own below them."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        ast.unparse(node.target)
        for node, after in pairwise(tree.body)
        if isinstance(node, ast.AnnAssign) and is_text(after)
    }


def is_text(node: ast.AST) -> bool:
    """Tell whether a statement is a text, which documents the one before it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@cache
def documented_constants() -> set[str]:
    """Return the names that a module assigns and tells about below."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        body = ast.parse(path.read_text()).body
        for node, after in pairwise(body):
            if isinstance(node, ast.Assign | ast.AnnAssign) and is_text(after):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {ast.unparse(target) for target in targets}
    return found


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    documented = {
        **{name: vars(cls).get("__doc__") for name, cls in CLASSES.items()},
        **{named.name: named.doc for named in callables()},
        **{name: each.__doc__ for name, each in FUNCTIONS.items()},
    }
    # A dataclass without a docstring gets its signature as one.
    lacking = [
        name
        for name, doc in documented.items()
        if not doc or doc.startswith(f"{name.rpartition('.')[2]}(")
    ]

    assert lacking == []


def test_every_public_constant_tells_what_it_is() -> None:
    names = {
        name.rpartition(".")[2]
        for name, each in OBJECTS.items()
        if name not in CLASSES and name not in FUNCTIONS and not isinstance(each, ModuleType)
    }

    assert sorted(names - documented_constants()) == []


def test_errors_are_found_also_in_private_functions() -> None:
    named = {each.name: each for each in callables()}

    assert raised_by(named["kubewright.Quantity()"]) == {"ValueError"}
    assert "NotFound" in raised_by(named["kubewright.webhook.Registration.ensure"])


def test_every_error_that_is_raised_is_named() -> None:
    lacking = {
        named.name: sorted(untold)
        for named in callables()
        if (untold := {error for error in raised_by(named) if error not in named.doc})
    }

    assert lacking == {}


def test_every_parameter_is_spoken_of() -> None:
    words = known_words()
    assert {"kind", "namespace", "clock"} <= words
    lacking = {
        named.name: untold
        for named in callables()
        if len(parameters := parameters_of(named)) > 1
        and (text := texts_about(named))
        and (untold := [p for p in parameters if p not in words and not is_told(p, text)])
    }

    assert lacking == {}


def test_every_field_of_a_record_is_spoken_of() -> None:
    words = known_words()
    lacking = {}
    for name, cls in CLASSES.items():
        if not is_record(cls):
            continue
        fields = {each for each in cls.__struct_fields__ if not each.startswith("_")}
        told = words | fields_told_beside(cls)
        untold = sorted(each for each in fields - told if not is_told(each, cls.__doc__ or ""))
        if untold:
            lacking[name] = untold

    assert lacking == {}
