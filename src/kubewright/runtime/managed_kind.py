"""What an operator's author says of one kind: the functions and the kinds that they touch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import GroupVersionKind, Object, Resource
from kubewright.client.kind import ObjectClass
from kubewright.runtime.blocking import BlockingContext
from kubewright.runtime.child_kind import ChildKind
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context
from kubewright.runtime.event_stream import EventStream
from kubewright.runtime.gate import Gate
from kubewright.runtime.read import Readable
from kubewright.runtime.result import Result
from kubewright.runtime.status import StatusValue
from kubewright.runtime.user_function import check_is_plain
from kubewright.runtime.validation import (
    DefaultFunction,
    ValidateDeleteFunction,
    ValidateFunction,
)
from kubewright.runtime.watch import ChangeFilter, Watch


class CustomObject(Protocol):
    """An instance of a custom resource class, as far as the runtime must know it."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""
        ...

    def to_object(self) -> Object:
        """Return the object as JSON has it."""
        ...


T = TypeVar("T")
"""What the functions of a kind get: an instance of a class, or of a `Resource` a dict."""

CustomT = TypeVar("CustomT", bound=CustomObject)
CustomT_co = TypeVar("CustomT_co", bound=CustomObject, covariant=True)


class CustomKind(Protocol[CustomT_co]):
    """A custom resource class: `kubewright.CustomResource`, without pydantic."""

    @property
    def resource(self) -> Resource:
        """The resource that serves the kind."""
        ...

    def decode(self, raw: bytes) -> CustomT_co:
        """Build an instance from JSON text."""
        ...

    def crd(self) -> Object:
        """Return the CustomResourceDefinition."""
        ...


DesiredFunction: TypeAlias = Callable[[T], Iterable[Object | Gate]]
AsyncFunction: TypeAlias = Callable[[T, Context], Awaitable[Result | None]]
BlockingFunction: TypeAlias = Callable[[T, BlockingContext], Result | None]
ReconcileFunction: TypeAlias = AsyncFunction[T] | BlockingFunction[T]
FinalizeFunction: TypeAlias = AsyncFunction[T] | BlockingFunction[T]
StatusFunction: TypeAlias = Callable[[T, Children], StatusValue]

DesiredT = TypeVar("DesiredT", bound=Iterable[Object | Gate])
StatusT = TypeVar("StatusT", bound=StatusValue)


class DesiredDecorator(Protocol[T]):
    """Registers a function and returns it with the type that it has."""

    def __call__(self, function: Callable[[T], DesiredT], /) -> Callable[[T], DesiredT]:
        """Register the function."""
        ...


class ReconcileDecorator(Protocol[T]):
    """Registers a function, async or blocking, and returns it with the type that it has."""

    @overload
    def __call__(self, function: AsyncFunction[T], /) -> AsyncFunction[T]: ...

    @overload
    def __call__(self, function: BlockingFunction[T], /) -> BlockingFunction[T]: ...


class StatusDecorator(Protocol[T]):
    """Registers a function and returns it with the type that it has."""

    def __call__(
        self, function: Callable[[T, Children], StatusT], /
    ) -> Callable[[T, Children], StatusT]:
        """Register the function."""
        ...


class ManagedKind(msgspec.Struct, Generic[T]):
    """One kind of an operator; filled by its decorators."""

    kind: ObjectClass[T]
    prepare: ReconcileFunction[T] | None = None
    desired: DesiredFunction[T] | None = None
    reconcile: ReconcileFunction[T] | None = None
    finalize: FinalizeFunction[T] | None = None
    status: StatusFunction[T] | None = None
    default: list[DefaultFunction[T]] = []
    validate: list[ValidateFunction[T]] = []
    validate_delete: list[ValidateDeleteFunction[T]] = []
    owns: dict[GroupVersionKind, ChildKind] = {}
    reads: list[Readable] = []
    watches: list[Watch] = []
    filter_changes: ChangeFilter | None = None
    sources: list[EventStream] = []
    ordered_deletion: bool = False
    """Whether children go in the reverse order of their gates when the object is deleted."""

    @property
    def resource(self) -> Resource:
        """The resource of the kind."""
        return self.kind.resource

    @property
    def is_plain(self) -> bool:
        """Tell whether the kind is a `Resource`: somebody else's, whose status is not ours."""
        return isinstance(self.kind, Resource)

    @property
    def is_reconciled(self) -> bool:
        """Tell whether there is a function that a controller would run."""
        return any((self.prepare, self.desired, self.reconcile, self.finalize, self.status))

    @property
    def needs_finalizer(self) -> bool:
        """Tell whether something is to be done before an object of the kind may end."""
        return self.finalize is not None or self.ordered_deletion

    @property
    def optional_children(self) -> list[Resource]:
        """The kinds of children that the API server need not serve."""
        kinds = self.owns.values()
        return [kind.resource for kind in kinds if kind.on_missing != "block"]

    @property
    def is_pure(self) -> bool:
        """Whether all that is done for an object follows from it and from what it owns."""
        is_imperative = self.prepare or self.reconcile
        return not (is_imperative or self.reads or self.watches or self.sources)

    def set(self, role: str, function: Callable[..., Any]) -> None:
        """Give the kind its function of a role.

        Raises:
            ConfigurationError: it has one already, or the function is async where it must be pure.
        """
        if role in ("desired", "status"):
            check_is_plain(role, function)
        if getattr(self, role) is not None:
            raise ConfigurationError(
                f"{self.resource.kind} has two @operator.{role} functions: make them one"
            )
        setattr(self, role, function)

    def own(self, children: Iterable[Resource | ChildKind]) -> None:
        """Declare kinds of children."""
        for child in children:
            kind = ChildKind(child) if isinstance(child, Resource) else child
            self.owns[kind.resource.gvk] = kind
