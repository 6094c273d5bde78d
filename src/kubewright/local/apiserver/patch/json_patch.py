"""JSON patch (RFC 6902), with the leniencies of the library that kube-apiserver uses.

Those are: `replace` of a missing key adds it; a null value is as good as none; an operation without
a `value` means null; negative indices count from the end; a path need not begin with a slash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from kubewright.api.errors import BadRequest, Invalid, RequestEntityTooLarge
from kubewright.local.apiserver.schema.json_value import GO_TYPES, copy_value

MAX_OPERATIONS = 10_000

Operation: TypeAlias = dict[str, Any]
Container: TypeAlias = dict[str, Any] | list[Any]

_REFUSED = "the server rejected our request due to an error in our request"
# What the library says of a path that leads nowhere; mutating webhooks are told so.
_MISSING = {
    "add": 'add operation does not apply: doc is missing path: "{}"',
    "remove": 'remove operation does not apply: doc is missing path: "{}"',
    "replace": "replace operation does not apply: doc is missing path: {}",
    "move": "move operation does not apply: doc is missing from path: {}",
    "copy": "copy operation does not apply: doc is missing from path: {}",
    "test": "test operation does not apply: is missing path: {}",
}
_INDEX = re.compile(r"[+-]?[0-9]+")


class _Failure(Exception):
    """An operation does not apply to the document."""


class TestFailed(_Failure):
    """What a patch tests for is not so."""

    __test__ = False


class _MissingPath(_Failure):
    """The document has nothing that could hold what a path names."""


def apply_patch(doc: Any, operations: Any) -> Any:
    """Return the document with the operations applied; the one given is not changed.

    Raises:
        BadRequest: the patch is not a list of operations.
        RequestEntityTooLarge: it has more operations than the server takes.
        Invalid: an operation cannot be applied. kube-apiserver does not say which.
    """
    _check_operations(operations)
    root: list[Any] = [copy_value(doc)]
    try:
        for operation in operations:
            _apply(root, operation or {})
    except _Failure as failure:
        raise Invalid(_REFUSED) from failure
    return root[0]


def _check_operations(operations: Any) -> None:
    prefix = "error decoding patch: json: cannot unmarshal"
    if not isinstance(operations, list):
        raise BadRequest(
            f"{prefix} {_json_type(operations)} into Go value of type []handlers.jsonPatchOp", None
        )
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise BadRequest(
                f"{prefix} {_json_type(operation)} into Go value of type handlers.jsonPatchOp", None
            )
        for name in ("op", "path", "from"):
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                raise BadRequest(
                    f"{prefix} {_json_type(value)} into Go struct field "
                    f"jsonPatchOp.{name} of type string",
                    None,
                )
    if len(operations) > MAX_OPERATIONS:
        raise RequestEntityTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}",
            None,
        )


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return {"string": "string", "[]interface {}": "array"}.get(GO_TYPES[type(value)], "object")


def _apply(root: list[Any], operation: Operation) -> None:
    apply = _OPERATIONS.get(operation.get("op") or "")
    if apply is None:
        raise _Failure(f"unknown operation {operation.get('op')!r}")
    try:
        apply(root, operation)
    except _MissingPath:
        op = operation["op"]
        path = operation.get("from" if op in ("copy", "move") else "path")
        raise _Failure(f"{_MISSING[op].format(path)}: missing value") from None


def _add(root: list[Any], operation: Operation) -> None:
    container, key = _find(root, _text(operation, "path"))
    _insert(container, key, copy_value(operation.get("value")))


def _remove(root: list[Any], operation: Operation) -> None:
    _delete(*_find(root, _text(operation, "path")))


def _replace(root: list[Any], operation: Operation) -> None:
    path, value = _text(operation, "path"), copy_value(operation.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise _Failure("the document can only be replaced by an object or a list")
        root[0] = value
        return
    container, key = _find(root, path)
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(key, len(container))] = value


def _move(root: list[Any], operation: Operation) -> None:
    container, key = _find(root, _text(operation, "from"))
    value = _get(container, key)
    _delete(container, key)
    _insert(*_find(root, _text(operation, "path")), value)


def _copy(root: list[Any], operation: Operation) -> None:
    value = copy_value(_get(*_find(root, _text(operation, "from"))))
    _insert(*_find(root, _text(operation, "path")), value)


def _test(root: list[Any], operation: Operation) -> None:
    path, wanted = _text(operation, "path"), operation.get("value")
    found = root[0] if path == "" else _get(*_find(root, path))
    if not _is_same(found, wanted):
        raise TestFailed(f"testing path {path} failed")


_OPERATIONS: dict[str, Callable[[list[Any], Operation], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _text(operation: Operation, name: str) -> str:
    value = operation.get(name)
    if value is None:
        raise _Failure(f"the operation has no {name}")
    return str(value)


def _find(root: list[Any], path: str) -> tuple[Container, str]:
    """Return the container that holds the last step of a path, and that step."""
    steps = path.split("/")
    if len(steps) < 2:
        raise _Failure(f"{path!r} is not a path")
    current: Any = root[0]
    for step in steps[1:-1]:
        if not isinstance(current, dict | list):
            raise _MissingPath
        current = _get(current, _unescape(step))
    if not isinstance(current, dict | list):
        raise _MissingPath
    return current, _unescape(steps[-1])


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _get(container: Container, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _insert(container: Container, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1), value)


def _delete(container: Container, key: str) -> None:
    if isinstance(container, dict):
        if key not in container:
            raise _Failure(f"{key!r} is missing")
        del container[key]
    else:
        del container[_index(key, len(container))]


def _index(key: str, size: int) -> int:
    if not _INDEX.fullmatch(key):
        raise _Failure(f"{key!r} is not an index")
    index = int(key)
    if not -size <= index < size:
        raise _Failure(f"index {index} is out of range")
    return index + size if index < 0 else index


def _is_same(left: Any, right: Any) -> bool:
    # Numbers are compared as they are written: 1 is not 1.0.
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(
            _is_same(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right)
