"""Estimating how much an expression costs at most, as cel-go's checker does.

Costs decide which rules kube-apiserver takes, so the figures are part of its API. Sizes and costs
are ranges of unsigned 64-bit integers that stop at the largest instead of overflowing.
"""

from __future__ import annotations

import msgspec

from kubewright.local.apiserver.crd.cel_call_cost import estimate_call
from kubewright.local.apiserver.crd.cel_checker import CheckedTree
from kubewright.local.apiserver.crd.cel_estimate import (
    ANY,
    LARGEST,
    NOTHING,
    ONE,
    CallCost,
    Entries,
    Path,
    Range,
    Sized,
)
from kubewright.local.apiserver.crd.cel_syntax import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from kubewright.local.apiserver.crd.cel_types import CelType, DeclaredType

_LIST, _MAP, _MESSAGE = 10, 30, 40
_ACCUMULATORS = ("@result", "__result__")
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


class _Variable(msgspec.Struct, frozen=True):
    path: Path
    size: Range | None = None
    entries: Entries | None = None


def estimate_cost(checked: CheckedTree, root: DeclaredType) -> int:
    """Return what an expression on a value of a declared type costs at most."""
    return _Estimator(checked, root).cost(checked.tree.root).high


class _Estimator:
    def __init__(self, checked: CheckedTree, root: DeclaredType) -> None:
        self._checked = checked
        self._root = root
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}
        self._variables: dict[str, list[_Variable]] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Literal():
                return NOTHING
            case Ident():
                self._paths[node.id] = self._path(node) or (node.name,)
                return ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                is_bind = (
                    isinstance(node.over, ListLiteral)
                    and not node.over.elements
                    and isinstance(node.condition, Literal)
                    and not node.condition.value
                    and node.accumulator not in _ACCUMULATORS
                )
                return self._bind(node) if is_bind else self._comprehension(node)

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        self._paths[node.id] = (*self._path(node.operand), node.field)
        kind = self._type(node.operand)
        return cost + ONE if kind.name in ("map", "_") or kind.declared is not None else cost

    def _call(self, node: Call) -> Range:
        if node.function == "dyn" and len(node.args) == 1:
            cost = self.cost(node.args[0])
            self._copy(node, node.args[0])
            return cost + ONE
        costs = [self.cost(arg) for arg in node.args]
        args = [self._sized(arg) for arg in node.args]
        overloads = self._checked.overloads.get(node.id, ("",))
        target, total = None, NOTHING
        # The target of a function with a qualified name, such as `sets.contains`, is no value.
        if node.target is not None and node.target.id in self._checked.types:
            total = self.cost(node.target)
            target = self._sized(node.target)
        called, size = Range(LARGEST, 0), None
        for overload in overloads:
            one = self._overload(node, overload, target, args, costs)
            called |= one.cost
            if one.size is not None:
                size = one.size if size is None else size | one.size
            if overload in ("index_list", "index_map") and node.args:
                entries = self._entries_of(node.args[0])
                size = entries.value if entries is not None else None
                below = "@items" if overload == "index_list" else "@values"
                self._paths[node.id] = (*self._path(node.args[0]), below)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node.id] = size
        return total + called

    def _overload(
        self,
        node: Call,
        overload: str,
        target: Sized | None,
        args: list[Sized],
        costs: list[Range],
    ) -> CallCost:
        if overload in ("logical_or", "logical_and"):
            return CallCost(Range(costs[0].low, (costs[0] + costs[1]).high))
        if overload == "conditional":
            self._join_entries(node, node.args[1], node.args[2])
            size = (args[1].size or ANY) | (args[2].size or ANY)
            return CallCost(costs[0] + (costs[1] | costs[2]), size)
        if overload in ("add_string", "add_bytes", "add_list"):
            self._join_entries(node, node.args[0], node.args[1])
        called = estimate_call(self, node.function, overload, target, args)
        return CallCost(sum(costs, called.cost), called.size)

    def _join_entries(self, node: Node, one: Node, other: Node) -> None:
        left, right = self._entries_of(one), self._entries_of(other)
        if left is not None and right is not None:
            self._entries[node.id] = left | right

    def _list(self, node: ListLiteral) -> Range:
        total = Range(_LIST, _LIST)
        size = Range(LARGEST if node.elements else 0, 0)
        for element in node.elements:
            total += self.cost(element)
            size |= self._size(element) or ANY
        self._entries[node.id] = Entries(True, ONE, size)
        return total

    def _map(self, node: MapLiteral) -> Range:
        base = _MESSAGE if node.type_name else _MAP
        total = Range(base, base)
        keys = values = Range(LARGEST if node.entries else 0, 0)
        for key, value in node.entries:
            if key is not None:
                total += self.cost(key)
                keys |= self._size(key) or ANY
            total += self.cost(value)
            values |= self._size(value) or ANY
        if not node.type_name:
            self._entries[node.id] = Entries(False, keys, values)
        return total

    def _bind(self, node: Comprehension) -> Range:
        total = self.cost(node.over) + self.cost(node.start)
        self._push(node.accumulator, self._local(node.start))
        total += self.cost(node.result)
        self._pop(node.accumulator)
        self._copy(node, node.result)
        return total

    def _comprehension(self, node: Comprehension) -> Range:
        total = self.cost(node.over) + self.cost(node.start)
        self._push(node.accumulator, self._local(node.start))
        keys, values = self._iterated(node.over)
        if node.second:
            self._push(node.variable, keys)
            self._push(node.second, values)
        else:
            self._push(node.variable, values if values.path[-1] == "@items" else keys)
        each = self.cost(node.condition)
        each = self.cost(node.step) + each
        self._pop(node.variable)
        if node.second:
            self._pop(node.second)
        total += self.cost(node.result)
        self._pop(node.accumulator)
        count = self._size(node.over) or ANY
        if isinstance(node.start, Literal):
            self._sizes[node.id] = self._size(node.start) or ANY
        elif isinstance(node.start, ListLiteral | MapLiteral):
            self._sizes[node.id] = count
            entries = self._entries_of(node.step)
            if entries is not None:
                self._entries[node.id] = entries
        return total + count * each

    def _iterated(self, over: Node) -> tuple[_Variable, _Variable]:
        """Return what the variables of a loop stand for: keys or indices, and values."""
        entries, path = self._entries_of(over), self._path(over)
        is_list = entries.is_list if entries is not None else self._type(over).name == "list"
        key_size, value_size = (entries.key, entries.value) if entries else (None, None)
        key = _Variable((*path, "@indices" if is_list else "@keys"), key_size)
        value = _Variable((*path, "@items" if is_list else "@values"), value_size)
        return key, value

    def _local(self, node: Node) -> _Variable:
        return _Variable(self._path(node), self._size(node), self._entries_of(node))

    def _push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _pop(self, name: str) -> None:
        self._variables[name].pop()

    def _variable(self, node: Node) -> _Variable | None:
        held = self._variables.get(node.name) if isinstance(node, Ident) else None
        return held[-1] if held else None

    def _type(self, node: Node) -> CelType:
        return self._checked.types.get(node.id, CelType("dyn"))

    def _path(self, node: Node) -> Path:
        variable = self._variable(node)
        return variable.path if variable is not None else self._paths.get(node.id, ())

    def _sized(self, node: Node) -> Sized:
        path = self._path(node)
        if path and path[0] in _ACCUMULATORS:
            path = ()
        return Sized(node, self._type(node), path, self._size(node))

    def _copy(self, node: Node, source: Node) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[node.id] = size
        if entries is not None:
            self._entries[node.id] = entries

    def _entries_of(self, node: Node) -> Entries | None:
        variable = self._variable(node)
        return self._entries.get(node.id) or (variable.entries if variable is not None else None)

    def _size(self, node: Node) -> Range | None:
        if node.id in self._sizes:
            return self._sizes[node.id]
        written = _written_size(node)
        if written is not None:
            return Range(written, written)
        declared = self.declared_size(self._path(node))
        if declared is not None:
            self._sizes[node.id] = declared
            return declared
        kind = self._type(node)
        if kind.name in _SCALARS or (kind.parameters and _is_scalar_optional(kind)):
            return ONE
        variable = self._variable(node)
        return variable.size if variable is not None else None

    def declared_size(self, path: Path) -> Range | None:
        """Return the size that the schema allows at a path below a variable."""
        if not path:
            return None
        at: DeclaredType | None = self._root
        for name in path[1:]:
            if at is None:
                return None
            if name in ("@items", "@values"):
                at = at.element
            elif name == "@keys":
                at = at.key
            else:
                at = at.fields.get(name)
        return None if at is None else Range(0, at.max_elements)


def _written_size(node: Node) -> int | None:
    if isinstance(node, Literal):
        return len(node.value) if node.type in ("string", "bytes") else 1
    if isinstance(node, ListLiteral):
        return len(node.elements)
    if isinstance(node, MapLiteral) and not node.type_name:
        return len(node.entries)
    return None


def _is_scalar_optional(kind: CelType) -> bool:
    return kind.name == "optional_type" and kind.parameters[0].name in _SCALARS
