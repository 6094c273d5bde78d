"""What the client and the cache ask of a custom resource class, without knowing pydantic."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kubewright.api.resource import Object, Resource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ObjectClass(Protocol[T_co]):
    """A class whose instances are the objects of one resource."""

    @property
    def resource(self) -> Resource:
        """The resource that serves the objects."""
        ...

    def decode(self, raw: bytes) -> T_co:
        """Build an instance from JSON text."""
        ...


class TypedObject(Protocol):
    """An instance of an `ObjectClass`."""

    @property
    def resource(self) -> Resource:
        """The resource that serves this object."""
        ...

    def to_object(self) -> Object:
        """Return the object as JSON has it."""
        ...


TypedT = TypeVar("TypedT", bound=TypedObject)
