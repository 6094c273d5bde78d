"""Strategic merge patch: a merge patch that knows the keys of lists, with directives.

`$patch` (merge, replace, delete), `$retainKeys`, `$setElementOrder/LIST` and
`$deleteFromPrimitiveList/LIST` are those of "Strategic Merge Patch" (sig-api-machinery).
"""

from __future__ import annotations

from typing import Any

from kubewright.api.errors import APIError, BadRequest, Invalid
from kubewright.local.apiserver.patch.element_order import merge_sorted, sort_by_order
from kubewright.local.apiserver.schema.json_value import GO_TYPES, copy_value, format_go
from kubewright.local.apiserver.schema.node import DEDUCED, SchemaNode

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ORDER = "$setElementOrder"
_DELETE_FROM = "$deleteFromPrimitiveList"
_RETAIN_STRATEGY = "retainKeys"


def apply_patch(doc: dict[str, Any], patch: Any, schema: SchemaNode) -> dict[str, Any]:
    """Return the document with the patch merged in by its schema; neither is changed.

    Nulls inside a list item that is new stay: decoding drops them.

    Raises:
        BadRequest: the patch is not an object, or a directive's value has the wrong form.
        Invalid: it holds a list of lists.
        APIError: 500 without a reason: an unknown `$patch`, a missing merge key, an order that
            contradicts the list (as kube-apiserver answers it).
    """
    if not isinstance(patch, dict):
        if patch is None:
            patch = {}
        else:
            kind = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
            raise BadRequest(
                f"json: cannot unmarshal {kind} into Go value of type {GO_TYPES[dict]}", None
            )
    return _merge_map(copy_value(doc), copy_value(patch), schema)


def _failure(message: str) -> APIError:
    return APIError(message, None)


def _child(node: SchemaNode, key: str) -> SchemaNode:
    child = node.fields.get(key) or node.values
    if child is None:
        raise _failure(f'unable to find api field in struct {node.name} for the json field "{key}"')
    return child


def _strategy(node: SchemaNode) -> str:
    return next(iter(node.patch_strategy - {_RETAIN_STRATEGY}), "")


def _merge_map(original: dict[str, Any], patch: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    if _PATCH in patch:
        directive = patch.pop(_PATCH)
        if directive == "replace":
            return patch
        if directive == "delete":
            return {}
        raise _bad_directive(directive, {_PATCH: directive, **patch})
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        _merge_ordered(original, patch, key, node)
    # Deletions come first, so that what a patch adds beside them stays. The real server walks the
    # patch in random order.
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(original, _directive_key(key, _DELETE_FROM), value, node)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            continue
        if value is None:
            original.pop(key, None)
        else:
            _merge_field(original, key, value, node)
    return original


def _bad_directive(directive: Any, item: dict[str, Any]) -> APIError:
    return _failure(f"unknown patch type: {format_go(directive)} in map: {format_go(item)}")


def _directive_key(key: str, prefix: str) -> str:
    name, slash, rest = key.partition("/")
    if slash and name == prefix:
        return rest
    what = "primitive list" if prefix == _DELETE_FROM else "setElementOrder list"
    raise BadRequest(f"invalid patch format of {what}", None)


def _merge_field(original: dict[str, Any], key: str, value: Any, node: SchemaNode) -> None:
    current = original.get(key)
    if isinstance(current, dict) and isinstance(value, dict):
        child = _child(node, key)
        if _strategy(child) != "replace":
            value = _merge_map(current, value, child)
        original[key] = value
    elif isinstance(current, list) and isinstance(value, list):
        original[key] = _merge_list(current, value, _child(node, key))
    elif isinstance(value, dict) and _PATCH in value:
        # There is nothing that the directive could work on.
        original.pop(key, None)
    else:
        original[key] = _without_directives(_without_nulls(value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return value


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(part) for key, part in value.items() if not _is_directive(part)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN_KEYS not in patch:
        return
    kept = patch.pop(_RETAIN_KEYS)
    misplaced = not isinstance(kept, list) or any(
        key not in kept
        for key, value in patch.items()
        if value is not None and not key.startswith((_SET_ORDER, _DELETE_FROM))
    )
    if misplaced:
        raise BadRequest("invalid patch format of retainKeys", None)
    for key in [key for key in original if key not in kept]:
        del original[key]


def _delete_from(original: dict[str, Any], key: str, value: Any, node: SchemaNode) -> None:
    current = original.get(key)
    if value is None:
        original.pop(key, None)
    elif isinstance(current, list) and isinstance(value, list):
        if not current and not value:
            return
        if _element_type(current, value) is dict:
            original[key] = _merge_list(current, value, _child(node, key))
        else:
            original[key] = [item for item in current if item not in value]


def _merge_list(original: list[Any], patch: list[Any], node: SchemaNode) -> list[Any]:
    if _strategy(node) != "merge":
        return patch
    if not original and not patch:
        return original
    kind = _element_type(original, patch)
    if kind is not dict:
        merged = list(dict.fromkeys([*original, *patch]))
        return _order(merged, patch, original, "")
    key = node.patch_merge_key
    if not key:
        raise _failure(f"cannot merge lists without merge key for {node.items.name}")
    original, patch = _apply_item_directives(original, patch, key)
    merged = _merge_items(list(original), patch, key, node.items)
    return _order(merged, patch, original, key)


def _element_type(*lists: list[Any]) -> type:
    types = [type(item) for items in lists for item in items]
    if not types:
        raise _failure("no elements in any of the given slices")
    if types[0] is list:
        raise Invalid("the server rejected our request due to an error in our request")
    if any(kind is not types[0] for kind in types):
        raise _failure(f"list element types are not identical: {format_go(list(lists))}")
    return types[0]


def _apply_item_directives(
    original: list[Any], patch: list[Any], key: str
) -> tuple[list[Any], list[Any]]:
    plain: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(_PATCH)
        if _PATCH not in item:
            plain.append(item)
        elif directive == "delete":
            gone = _merge_key(item, key)
            original = [old for old in original if old.get(key) != gone]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise _failure("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_directive(directive, item)
    return (plain, []) if replace else (original, plain)


def _merge_key(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise _failure(f"expected a {GO_TYPES[dict]}, but received a {GO_TYPES[type(item)]}")
    if key not in item:
        raise _failure(f"map: {format_go(item)} does not contain declared merge key: {key}")
    return item[key]


def _merge_items(
    merged: list[Any], patch: list[Any], key: str, node: SchemaNode | None
) -> list[Any]:
    for item in patch:
        wanted = _merge_key(item, key)
        for index, old in enumerate(merged):
            if key in old and old[key] == wanted:
                merged[index] = _merge_map(old, item, node or DEDUCED)
                break
        else:
            merged.append(item)
    return merged


def _order(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Return the list with the patch's items in its order, the others where they were."""
    names = [_name(item, key) for item in order]
    server_names = [_name(item, key) for item in server]
    patched = [item for item in merged if _name(item, key) in names]
    others = [item for item in merged if _name(item, key) not in names]
    return merge_sorted(
        sort_by_order(others, server_names, lambda item: _name(item, key)),
        sort_by_order(patched, names, lambda item: _name(item, key)),
        server_names,
        lambda item: _name(item, key),
    )


def _name(item: Any, key: str) -> Any:
    return _merge_key(item, key) if key else item


def _merge_ordered(
    original: dict[str, Any], patch: dict[str, Any], directive: str, node: SchemaNode
) -> None:
    """Merge a list whose order the patch gives beside it, and put it into that order."""
    order = patch.pop(directive)
    key = _directive_key(directive, _SET_ORDER)
    current, changes = original.get(key), patch.get(key)
    for value in (order, *(part[key] for part in (original, patch) if key in part)):
        if not isinstance(value, list):
            raise _failure(f"expected a {GO_TYPES[list]}, but received a {GO_TYPES[type(value)]}")
    child = _child(node, key)
    merge_key = child.patch_merge_key
    _check_order(changes or [], order, merge_key)
    if current is None and changes is None:
        return
    if changes is None:
        merged = list(current or [])
    elif current is None:
        merged = _without_directives(changes)
    else:
        merged = _merge_list(current, changes, child)
    server = _server_order(current or [], changes or [], merge_key)
    original[key] = _order(merged, order, server, merge_key)
    patch.pop(key, None)


def _check_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Check that the items of a patch stand in the order that it gives beside them."""
    if not order or not changes:
        return
    kept = [item for item in changes if not (_is_directive(item) and item[_PATCH] == "delete")]
    place = position = 0
    while place < len(kept) and position < len(order):
        if _is_directive(kept[place]):
            place += 1
            continue
        if _name(kept[place], key) == _name(order[position], key):
            place += 1
        position += 1
    if place < len(kept):
        raise _failure(
            f"The order in patch list:\n{format_go(changes)}\n "
            f"doesn't match {_SET_ORDER} list:\n{format_go(order)}\n"
        )


def _server_order(current: list[Any], changes: list[Any], key: str) -> list[Any]:
    """Return the server's order of items, as it is once the patch has been merged.

    kube-apiserver merges in place: new items stand where deleted ones stood, as long as there is
    room, and that place then decides where they come in the result.
    """
    if not key or not current:
        return current
    cells, size = list(current), len(current)
    for item in changes:
        if item.get(_PATCH) == "delete":
            rest = [old for old in cells[:size] if old.get(key) != item[key]]
            cells[: len(rest)] = rest
            size = len(rest)
    if any(item.get(_PATCH) == "replace" for item in changes):
        return cells
    known = [_merge_key(old, key) for old in cells[:size]]
    added = [item for item in changes if not _is_directive(item) and item[key] not in known]
    room = added[: len(cells) - size]
    cells[size : size + len(room)] = room
    return cells
