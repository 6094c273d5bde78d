"""Conversion between versions by others than this server: what it is asked for, how it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kubewright.api.errors import APIError, Cause, InternalError, StatusDetails
from kubewright.api.resource import Object


class VersionConverter(Protocol):
    """Turns objects of a custom kind into another of its versions; to do so it may wait."""

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Return fresh objects of a version, in the order of those given.

        Raises:
            ConversionFailed: one of them cannot be had, so none is returned.
        """
        ...

    def complete(self, obj: Object) -> None:
        """Prune a stored object and fill in its defaults, by its own version's schema, in place."""
        ...

    def prune(self, obj: Object) -> None:
        """Drop what the schema of the object's own version does not declare, in place."""
        ...


class ConversionFailed(APIError):
    """A webhook refused to convert, or returned what it may not. Mend the webhook."""


class ConversionUnanswered(ConversionFailed):
    """A webhook could not be asked: asking for other objects would fail likewise."""


class ObjectNotDecodable(APIError):
    """A stored object cannot be had in the version that is asked for. Mend the webhook."""

    @classmethod
    def of(cls, revision: int, cause: ConversionFailed) -> ObjectNotDecodable:
        """Build the error of an object that was written at a revision."""
        return cls(f"object not decodable revision={revision}: {cause.message}", None)

    def at(self, key: str) -> str:
        """Return the message of the storage, which names the object's key."""
        return (
            f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: {self.message}"
        )

    def to_internal(self, key: str) -> InternalError:
        """Build the answer of a read of this one object."""
        problem = self.at(key)
        details = StatusDetails(causes=(Cause("", problem),))
        return InternalError(f"Internal error occurred: {problem}", details)


class StorageReadError(APIError):
    """Some objects of a list cannot be had in the version that is asked for. Mend the webhook."""

    default_reason = "StorageReadError"

    @classmethod
    def of(
        cls, group: str, plural: str, failed: Sequence[tuple[str, ObjectNotDecodable]]
    ) -> StorageReadError:
        """Build the error of a list; `failed` are keys and what is wrong there."""
        causes = [
            Cause("UnexpectedServerResponse", error.at(key), key)
            for key, error in failed[:_MOST_CAUSES]
        ]
        if len(failed) > _MOST_CAUSES:
            causes.append(Cause("FieldValueTooMany", _TRUNCATED))
        told = causes[0].message
        if len(causes) > 1:
            told += f" (and {len(causes) - 1} more)"
        resource = f"{plural}.{group}" if group else plural
        return cls(
            f"failed to read one or more {resource} from the storage: {told}",
            StatusDetails(name="list", group=group, kind=plural, causes=tuple(causes)),
        )


_MOST_CAUSES = 100
_TRUNCATED = "too many errors, the list is truncated"
