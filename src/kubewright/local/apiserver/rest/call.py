"""One request to one kind, on its way through a verb."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kubewright.api.errors import Cause, Conflict, Invalid, NotFound, StatusDetails, Timeout
from kubewright.api.metadata import decode_metadata
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Admission
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.conversion import ObjectNotDecodable
from kubewright.local.apiserver.exchange import Request, Response
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.negotiation import Media
from kubewright.local.apiserver.representation import represent, represent_object
from kubewright.local.apiserver.request import RequestInfo
from kubewright.local.apiserver.storage import ObjectStorage, Stored

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Call(msgspec.Struct):
    """What a verb knows of its request."""

    backend: Backend
    admission: Admission
    request: Request
    info: RequestInfo
    kind: ServedKind
    storage: ObjectStorage
    media: Media
    authorize: Callable[[str], None]
    """Raises Forbidden unless the user may do another verb to the same resource."""

    @property
    def namespace(self) -> str:
        """The namespace of the path; empty for cluster-scoped kinds."""
        return self.info.namespace if self.kind.resource.namespaced else ""

    @property
    def name(self) -> str:
        """The name of the path."""
        return self.info.name

    def named(self, raw: bytes) -> Call:
        """Return the call for one object of its collection, given by its JSON text."""
        meta = decode_metadata(raw)
        info = replace(self.info, namespace=meta.namespace, name=meta.name)
        return replace(self, info=info)

    async def read(self) -> Stored:
        """Read the object that the path names.

        Raises:
            NotFound: it is not there.
            InternalError: it cannot be had in the version of the path.
        """
        try:
            stored = await self.storage.get(self.namespace, self.name)
        except ObjectNotDecodable as error:
            key = self.storage.key(self.namespace, self.name).removeprefix("/registry")
            raise error.to_internal(key) from error
        if stored is None:
            raise self.not_found()
        return stored

    def not_found(self) -> NotFound:
        """Build the answer for a missing object."""
        resource = self.kind.resource
        return NotFound.of(resource.group, resource.plural, self.name)

    def conflict(self, message: str = MODIFIED) -> Conflict:
        """Build the answer for a write that came too late."""
        resource = self.kind.resource
        return Conflict.of(resource.group, resource.plural, self.name, message)

    def invalid(self, name: str, causes: list[Cause]) -> Invalid:
        """Build the answer for an object that breaks rules of its kind, under its stored group."""
        resource = self.kind.stored_as
        return Invalid.of(resource.group, resource.kind, name, causes)

    def answer(self, status: int, raw: bytes) -> Response:
        """Build the answer that shows the object."""
        return represent_object(
            self.request, self.media, status, self.kind, raw, self.backend.now()
        )

    def answer_plain(self, status: int, raw: bytes) -> Response:
        """Build an answer that is no object of the kind, such as a Status or a Scale."""
        return represent(self.request, Media(self.media.media_type), status, raw)

    def answer_object(self, status: int, obj: Object) -> Response:
        """Build the answer that shows a decoded object of the kind."""
        return self.answer(status, self.storage.encode(obj))


def too_large(revision: int, current: int) -> Timeout:
    """Build the answer for a resourceVersion that is not written yet."""
    return Timeout(
        f"Timeout: Too large resource version: {revision}, current: {current}",
        StatusDetails(
            causes=(Cause("ResourceVersionTooLarge", "Too large resource version"),),
            retry_after_seconds=1,
        ),
    )
