"""Checking the types of an expression against the schema of its values.

The evaluator's own checker takes an object for a map of anything and Kubernetes' types for maps.
This one knows the fields of objects and those types, and words faults as cel-go does.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubewright.local.apiserver.crd.cel_overloads import find_overloads
from kubewright.local.apiserver.crd.cel_syntax import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    SyntaxTree,
)
from kubewright.local.apiserver.crd.cel_types import CelType
from kubewright.local.apiserver.crd.cel_values import escape_name

BOOL, DYN, INT, STRING = (CelType(name) for name in ("bool", "dyn", "int", "string"))
_FREE = CelType("_")
"""The type of an empty list's elements: any that turns out to fit."""

_OPTIONAL = "optional_type"
_TYPE_NAMES = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"}
)
_QUALIFIED_TYPES = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.URL", "kubernetes.Semver"}
    | {"google.protobuf.Timestamp", "google.protobuf.Duration"}
)
_NULLABLE = frozenset({"object", "timestamp", "duration", _OPTIONAL})

Scope = Mapping[str, CelType]


class TypeFault(msgspec.Struct, frozen=True, order=True):
    """What does not fit; `offset` is its place in the expression."""

    offset: int
    message: str


class CheckedTree(msgspec.Struct, frozen=True):
    """A tree with the type of each node, and the overloads that each call may take."""

    tree: SyntaxTree
    types: Mapping[int, CelType]
    overloads: Mapping[int, tuple[str, ...]]
    faults: tuple[TypeFault, ...]

    @property
    def type(self) -> CelType:
        """The type of the whole expression."""
        return self.types[self.tree.root.id]


def check_tree(tree: SyntaxTree, variables: Scope) -> CheckedTree:
    """Find the types of all parts of an expression, and what does not fit."""
    checker = _Checker(tree)
    checker.check(tree.root, variables)
    faults = tuple(sorted(set(checker.faults)))
    return CheckedTree(tree, checker.types, checker.overloads, faults)


class _Checker:
    def __init__(self, tree: SyntaxTree) -> None:
        self.types: dict[int, CelType] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.faults: list[TypeFault] = []
        self._offsets = tree.offsets

    def check(self, node: Node, scope: Scope) -> CelType:
        found = self._check(node, scope)
        self.types[node.id] = found
        return found

    def _check(self, node: Node, scope: Scope) -> CelType:
        match node:
            case Literal():
                return CelType(node.type)
            case Ident():
                return self._check_ident(node, scope)
            case Select() if _qualified_name(node) in _QUALIFIED_TYPES:
                return CelType("type", (CelType(_qualified_name(node)),))
            case Select():
                found = self._field(node, node.operand, node.field, scope)
                return BOOL if node.test_only else found
            case Call():
                return self._check_call(node, scope)
            case ListLiteral():
                return self._check_list(node, scope)
            case MapLiteral():
                return self._check_map(node, scope)
            case Comprehension():
                return self._check_comprehension(node, scope)

    def _check_ident(self, node: Ident, scope: Scope) -> CelType:
        if node.name in scope:
            return scope[node.name]
        if node.name in _TYPE_NAMES:
            return CelType("type", (CelType(node.name),))
        self._undeclared(node, node.name)
        return DYN

    def _field(self, node: Node, operand: Node, name: str, scope: Scope) -> CelType:
        found = self.check(operand, scope)
        target = found.parameters[0] if found.name == _OPTIONAL else found
        result = DYN
        if target.name == "map":
            result = target.parameters[1]
        elif target.declared is not None:
            fields = target.declared.fields
            declared = fields.get(name) or fields.get(escape_name(name) or "")
            if declared is None:
                self._fault(node, f"undefined field '{name}'")
            else:
                result = declared.type
        elif target.name not in ("dyn", "_"):
            self._fault(node, f"type '{_shown(target)}' does not support field selection")
        return CelType(_OPTIONAL, (result,)) if found.name == _OPTIONAL else result

    def _check_call(self, node: Call, scope: Scope) -> CelType:
        if node.function == "_?._" and len(node.args) == 2 and isinstance(node.args[1], Literal):
            return self._check_optional_select(node, scope)
        if node.function in ("_&&_", "_||_"):
            return self._check_logic(node, scope)
        function, target = node.function, node.target
        qualified = f"{_qualified_name(target)}.{function}" if target is not None else ""
        if find_overloads(qualified):
            function, target = qualified, None
        given = [self._argument(node.function, arg, scope) for arg in node.args]
        if target is not None:
            given.insert(0, self.check(target, scope))
        known = find_overloads(function)
        if not known:
            self._undeclared(node, function)
            return DYN
        matching: list[tuple[str, CelType]] = []
        for overload in known:
            bound: dict[str, CelType] = {}
            if (
                overload.is_method == (target is not None)
                and len(given) == len(overload.parameters)
                and all(map(_Binding(bound), overload.parameters, given))
            ):
                matching.append((overload.id, _substitute(overload.result, bound)))
        if not matching:
            signature = _signature(given, is_method=target is not None)
            self._fault(
                node, f"found no matching overload for '{function}' applied to '{signature}'"
            )
            return DYN
        self.overloads[node.id] = tuple(identity for identity, _ in matching)
        results = [result for _, result in matching]
        return results[0] if all(result == results[0] for result in results) else DYN

    def _argument(self, function: str, node: Node, scope: Scope) -> CelType:
        if function == "format" and isinstance(node, ListLiteral):
            # The one list whose elements may be of several types.
            for element in node.elements:
                self.check(element, scope)
            self.types[node.id] = CelType("list", (DYN,))
            return self.types[node.id]
        return self.check(node, scope)

    def _check_optional_select(self, node: Call, scope: Scope) -> CelType:
        key = node.args[1]
        self.check(key, scope)
        name = str(key.value) if isinstance(key, Literal) else ""
        found = self._field(node, node.args[0], name, scope)
        self.overloads[node.id] = ("select_optional_field",)
        return found if found.name == _OPTIONAL else CelType(_OPTIONAL, (found,))

    def _check_logic(self, node: Call, scope: Scope) -> CelType:
        for operand in node.args:
            found = self.check(operand, scope)
            if found.name not in ("bool", "dyn", "_"):
                self._fault(operand, f"expected type 'bool' but found '{_shown(found)}'")
        self.overloads[node.id] = ("logical_and" if node.function == "_&&_" else "logical_or",)
        return BOOL

    def _check_list(self, node: ListLiteral, scope: Scope) -> CelType:
        joined: CelType | None = None
        for index, element in enumerate(node.elements):
            found = self.check(element, scope)
            if index in node.optional and found.name == _OPTIONAL:
                found = found.parameters[0]
            joined = self._join(element, joined, found)
        return CelType("list", (joined or _FREE,))

    def _check_map(self, node: MapLiteral, scope: Scope) -> CelType:
        key: CelType | None = None
        value: CelType | None = None
        for left, right in node.entries:
            if left is not None:
                key = self._join(left, key, self.check(left, scope))
            value = self._join(right, value, self.check(right, scope))
        return DYN if node.type_name else CelType("map", (key or _FREE, value or _FREE))

    def _join(self, node: Node, before: CelType | None, found: CelType) -> CelType:
        if before is None or _is_free(before):
            return found
        if not _fits(before, found):
            self._fault(node, f"expected type '{_shown(before)}' but found '{_shown(found)}'")
            return DYN
        return DYN if "dyn" in (before.name, found.name) else before

    def _check_comprehension(self, node: Comprehension, scope: Scope) -> CelType:
        over = self.check(node.over, scope)
        start = self.check(node.start, scope)
        first, second = self._variables(node, over)
        inner = {**scope, node.accumulator: start, node.variable: first}
        if node.second:
            inner[node.second] = second
        self.check(node.condition, inner)
        step = self.check(node.step, inner)
        ends = step if _is_free(start) else start
        return self.check(node.result, {**scope, node.accumulator: ends})

    def _variables(self, node: Comprehension, over: CelType) -> tuple[CelType, CelType]:
        if over.name == "list":
            element = over.parameters[0]
            return (INT, element) if node.second else (element, DYN)
        if over.name == "map":
            return over.parameters[0], over.parameters[1]
        if over.name not in ("dyn", "_"):
            self._fault(
                node.over,
                f"expression of type '{_shown(over)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        return DYN, DYN

    def _undeclared(self, node: Node, name: str) -> None:
        self._fault(node, f"undeclared reference to '{name}' (in container '')")

    def _fault(self, node: Node, message: str) -> None:
        self.faults.append(TypeFault(self._offsets.get(node.id, 0), message))


class _Binding:
    """Holds given types against parameters and remembers what stands for A and B."""

    def __init__(self, bound: dict[str, CelType]) -> None:
        self._bound = bound

    def __call__(self, wanted: CelType, given: CelType) -> bool:
        if wanted.name in ("A", "B"):
            before = self._bound.get(wanted.name)
            if before is None or _is_free(before):
                self._bound[wanted.name] = given
                return True
            if given.name == "dyn":
                self._bound[wanted.name] = DYN
            return _fits(before, given)
        if wanted.name == "dyn" or given.name in ("dyn", "_"):
            return True
        if wanted.name == given.name and len(wanted.parameters) == len(given.parameters):
            return all(map(self, wanted.parameters, given.parameters))
        return given.name == "null_type" and _takes_null(wanted)


def _fits(one: CelType, other: CelType) -> bool:
    names = {one.name, other.name}
    if names & {"dyn", "_"}:
        return True
    if "null_type" in names and (_takes_null(one) or _takes_null(other)):
        return True
    if one.name != other.name or len(one.parameters) != len(other.parameters):
        return False
    if one.name == "type":
        return True
    return one.declared is other.declared and all(map(_fits, one.parameters, other.parameters))


def _takes_null(kind: CelType) -> bool:
    return kind.name in _NULLABLE or "." in kind.name


def _is_free(kind: CelType) -> bool:
    return kind.name == "_" or any(map(_is_free, kind.parameters))


def _substitute(kind: CelType, bound: Mapping[str, CelType]) -> CelType:
    if kind.name in ("A", "B"):
        return bound.get(kind.name, _FREE)
    if not kind.parameters:
        return kind
    return CelType(kind.name, tuple(_substitute(each, bound) for each in kind.parameters))


def _qualified_name(node: Node | None) -> str:
    if isinstance(node, Select) and not node.test_only:
        before = _qualified_name(node.operand)
        return f"{before}.{node.field}" if before else ""
    return node.name if isinstance(node, Ident) else ""


def _signature(given: list[CelType], *, is_method: bool) -> str:
    shown = [_shown(each) for each in given]
    target = f"{shown.pop(0)}." if is_method else ""
    return f"{target}({', '.join(shown)})"


def _shown(kind: CelType) -> str:
    return str(kind).replace("_)", "dyn)") if _is_free(kind) else str(kind)
