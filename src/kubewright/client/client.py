"""The client: every verb of the Kubernetes API, with one typed outcome for each answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, overload

import msgspec

from kubewright.api.errors import Expired, TransportError
from kubewright.api.resource import Object, Resource
from kubewright.client import requests
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.kind import ObjectClass, T, TypedObject, TypedT
from kubewright.client.objects import ObjectList, Page, RawObject, decode_object, decode_page
from kubewright.client.refusal import build_error, is_success, read_retry_delay
from kubewright.client.requests import Patch, PatchType, Propagation, Request, Selector
from kubewright.client.rest_mapper import RESTMapper
from kubewright.client.server_warning import WarningLog
from kubewright.client.transport import Query, Response, Transport
from kubewright.client.user_agent import build_user_agent
from kubewright.client.watch import EventReader, WatchEvent

PAGE_SIZE = 500
WATCH_TIMEOUT = timedelta(minutes=5)
MAX_IN_FLIGHT = 32

_MAX_RETRIES = 5
_MAX_RETRY_SECONDS = 10
# How long a server may be late to close a watch before its connection counts as dead.
_WATCH_GRACE_SECONDS = 30.0


class Client:
    """Talk to one API server.

    A *kind* is a `Resource`, whose objects are dicts, or a custom resource class, whose objects are
    its instances. Every method raises an APIError of the class that the server's answer means, or
    TransportError where no answer came. Where the server answers 429 or 503 and says when to come
    back, the client does so: at most five times and ten seconds in all; then the error is raised.
    Any other request is sent once: after a TransportError nobody knows whether a write happened.

    Arguments:
        transport: carries the requests; `connect` builds one from a `KubeConfig`.
        field_manager: who owns the fields that are written, unless a call says otherwise.
        user_agent: how the client names itself; by default program, version and platform.
        clock: what it waits by.
        max_in_flight: how many of its requests are under way at once; others wait. Watches do not
            count.

    Attributes:
        mapper: finds the `Resource` of an object by its apiVersion and kind.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "kubewright",
        user_agent: str = "",
        clock: Clock | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.mapper = RESTMapper(lambda path: self.request("GET", path))
        self._clock = clock or SystemClock()
        self._slots = asyncio.Semaphore(max_in_flight)
        self._warnings = WarningLog()
        self._headers = {
            "Accept": requests.JSON,
            "User-Agent": user_agent or build_user_agent(),
        }

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        await self.transport.close()

    @overload
    async def get(
        self,
        kind: Resource,
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object: ...
    @overload
    async def get(
        self,
        kind: ObjectClass[T],
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> T: ...
    async def get(
        self,
        kind: Resource | ObjectClass[T],
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Any:
        """Read one object, or a subresource of it such as `scale`.

        Raises:
            NotFound: there is no such object.
        """
        resource, decode = _decoder_of(kind)
        return decode(
            await self.get_raw(resource, name, namespace=namespace, subresource=subresource)
        )

    async def get_raw(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        query: Query = (),
    ) -> bytes:
        """Read one object's JSON text, or the body of a subresource such as `log`.

        Raises:
            NotFound: there is no such object.
        """
        path = requests.build_path(resource, name, namespace=namespace, subresource=subresource)
        return await self._send(Request("GET", path, query))

    @overload
    async def list(
        self,
        kind: Resource,
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        limit: int = PAGE_SIZE,
    ) -> ObjectList[Object]: ...
    @overload
    async def list(
        self,
        kind: ObjectClass[T],
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        limit: int = PAGE_SIZE,
    ) -> ObjectList[T]: ...
    async def list(
        self,
        kind: Resource | ObjectClass[T],
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        limit: int = PAGE_SIZE,
    ) -> Any:
        """Read all objects of a kind that selectors choose, in pages of `limit`.

        Without a namespace, a namespaced kind is read from all namespaces. What is returned is
        consistent at one resource version; see `list_raw`.

        Raises:
            DecodeError: an object does not fit the class; `list_raw` gets them all the same.
        """
        resource, decode = _decoder_of(kind)
        whole = await self.list_raw(
            resource, namespace=namespace, labels=labels, fields=fields, limit=limit
        )
        return ObjectList([decode(item.raw) for item in whole.items], whole.resource_version)

    async def list_raw(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        limit: int = PAGE_SIZE,
    ) -> Page:
        """Read all objects, in pages of `limit`, as one page consistent at one resource version.

        Where the version of the first page expires before the last one is read, everything is read
        again in one answer, as the API asks.
        """
        items: list[RawObject] = []
        version = ""
        pages = self.list_pages(
            resource, namespace=namespace, labels=labels, fields=fields, limit=limit
        )
        try:
            async for page in pages:
                items += page.items
                version = page.resource_version
        except Expired:
            request = requests.build_list(
                resource, namespace=namespace, labels=labels, fields=fields
            )
            return decode_page(await self._send(request))[0]
        return Page(items, version)

    async def list_pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        limit: int = PAGE_SIZE,
        resource_version: str | None = None,
    ) -> AsyncIterator[Page]:
        """Read a list in pages of `limit` objects; all pages are of one resource version.

        Without a `resource_version` the newest state is read; "0" accepts any cached one.

        Raises:
            Expired: the version became too old between two pages: begin again.
        """
        token = ""
        while True:
            request = requests.build_list(
                resource,
                namespace=namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                token=token,
                resource_version=resource_version,
            )
            page, token = decode_page(await self._send(request))
            yield page
            if not token:
                return

    async def read_version(self, resource: Resource, *, namespace: str | None = None) -> str:
        """Read the resource version that the objects of a kind are at, without the objects.

        It is that of the API server's newest state, not of a cache.
        """
        request = requests.build_list(resource, namespace=namespace, limit=1)
        return decode_page(await self._send(request))[0].resource_version

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Selector | None = None,
        fields: Selector | None = None,
        resource_version: str | None = None,
        timeout: timedelta = WATCH_TIMEOUT,
        send_initial_events: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Open a watch for the changes after a resource version.

        The iterator ends when the server closes the watch, at the latest after `timeout`: that is
        normal, go on with the last version seen. BOOKMARK events carry only that version. With
        `send_initial_events` the present state comes first, as ADDED events and a BOOKMARK that
        ends them (KEP-3157); servers that cannot do that refuse it, or send none.

        Raises:
            Expired: the version is too old (as an answer or as an event): list again.
            APIError: the server refused the watch or ended it with an error.
            TransportError: the connection broke, or the server kept silent after `timeout`.
        """
        request = requests.build_watch(
            resource,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            timeout_seconds=max(1, int(timeout.total_seconds())),
            send_initial_events=send_initial_events,
        )
        return self._open_watch(request, timeout.total_seconds() + _WATCH_GRACE_SECONDS)

    @asynccontextmanager
    async def _open_watch(
        self, request: Request, patience: float
    ) -> AsyncGenerator[AsyncIterator[WatchEvent]]:
        deadline = asyncio.get_running_loop().time() + patience
        stream = self.transport.stream(
            request.method, request.path, query=request.query, headers=self._headers
        )
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(deadline):
                    answer = await stack.enter_async_context(stream)
            except TimeoutError as error:
                raise TransportError(f"the watch of {request.path} got no answer") from error
            if not is_success(answer.status):
                body = b"".join([chunk async for chunk in answer.chunks])
                raise build_error(answer.status, answer.headers, body)
            yield EventReader(answer.chunks, deadline=deadline)

    @overload
    async def create(self, obj: Object, *, dry_run: bool = False) -> Object: ...
    @overload
    async def create(self, obj: TypedT, *, dry_run: bool = False) -> TypedT: ...
    async def create(self, obj: Object | TypedT, *, dry_run: bool = False) -> Any:
        """Create an object and return what the server made of it.

        Raises:
            AlreadyExists: an object of this name is there.
            Invalid: the object breaks a rule of its kind.
        """
        resource, body = await self._prepare(obj)
        request = requests.build_create(resource, body, manager=self.field_manager, dry_run=dry_run)
        return _decode_like(obj, await self._send(request))

    @overload
    async def replace(
        self, obj: Object, *, subresource: str | None = None, dry_run: bool = False
    ) -> Object: ...
    @overload
    async def replace(
        self, obj: TypedT, *, subresource: str | None = None, dry_run: bool = False
    ) -> TypedT: ...
    async def replace(
        self, obj: Object | TypedT, *, subresource: str | None = None, dry_run: bool = False
    ) -> Any:
        """Replace an object whole, if it still has the resource version that `obj` carries.

        Raises:
            Conflict: the object changed since it was read.
            NotFound: the object is gone.
        """
        resource, body = await self._prepare(obj)
        request = requests.build_replace(
            resource,
            body,
            subresource=subresource,
            manager=self.field_manager,
            dry_run=dry_run,
        )
        return _decode_like(obj, await self._send(request))

    @overload
    async def patch(
        self,
        kind: Resource,
        name: str,
        patch: Patch,
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object: ...
    @overload
    async def patch(
        self,
        kind: ObjectClass[T],
        name: str,
        patch: Patch,
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T: ...
    async def patch(
        self,
        kind: Resource | ObjectClass[T],
        name: str,
        patch: Patch,
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Change parts of an object; a resource version inside the patch guards it.

        `type` says how `patch` is read: a JSON patch is a list of operations, the others are dicts.

        Raises:
            Conflict: the patch names a resource version that is no longer the newest.
            Invalid: a JSON patch does not fit, or its test fails.
        """
        resource, decode = _decoder_of(kind)
        path = requests.build_path(resource, name, namespace=namespace, subresource=subresource)
        request = requests.build_patch(
            path, patch, type=type, manager=self.field_manager, dry_run=dry_run
        )
        return decode(await self._send(request))

    async def apply(
        self,
        obj: Object,
        *,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
    ) -> Object:
        """Apply the fields of `obj` on the server; fields applied before and left out now go.

        `obj` holds only what the manager wants to own, with apiVersion, kind and name. An object
        that does not exist is created. With `force`, fields that others own are taken over.

        Raises:
            Invalid: the object that results breaks a rule of its kind.
            Conflict: without `force`, another manager owns a field and wants another value.
        """
        resource = await self.mapper.resource_of(obj)
        request = requests.build_apply(
            resource,
            obj,
            subresource=subresource,
            manager=field_manager or self.field_manager,
            force=force,
            dry_run=dry_run,
        )
        return decode_object(await self._send(request))

    async def delete(
        self,
        kind: Resource | ObjectClass[Any],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; with finalizers or a grace period it lives on for a while.

        Arguments:
            kind: what it is; the others name it.
            name: its name.
            namespace: its namespace.
            uid: delete only the object that has it.
            resource_version: delete the object only as it was at this version.
            propagation: what becomes of its dependents: `Background` deletes them after it,
                `Foreground` before it, `Orphan` leaves them.
            grace_period_seconds: how long a pod may take to end; None is as the object says, 0 is
                at once.

        Raises:
            NotFound: there is no such object.
            Conflict: the object is not the one of `uid` or `resource_version`.
        """
        resource, _ = _decoder_of(kind)
        request = requests.build_delete(
            requests.build_path(resource, name, namespace=namespace),
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period_seconds=grace_period_seconds,
        )
        await self._send(request)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Object | None = None,
        content_type: str = requests.JSON,
    ) -> bytes:
        """Send any other request and return the body of the answer.

        `body` is sent as JSON, named as `content_type`; None sends none.
        """
        encoded = b"" if body is None else msgspec.json.encode(body)
        return await self._send(
            Request(method, path, query, encoded, content_type if encoded else "")
        )

    async def _prepare(self, obj: Object | TypedObject) -> tuple[Resource, Object]:
        if isinstance(obj, dict):
            return await self.mapper.resource_of(obj), obj
        return obj.resource, obj.to_object()

    async def _send(self, request: Request) -> bytes:
        """Send a request, come back when the server asks for it, and return a success's body."""
        retries, waited = 0, 0
        while True:
            response = await self._exchange(request)
            if is_success(response.status):
                return response.body
            delay = read_retry_delay(response.status, response.headers)
            if delay is None or retries == _MAX_RETRIES or waited + delay > _MAX_RETRY_SECONDS:
                raise build_error(response.status, response.headers, response.body)
            await self._clock.sleep(delay)
            retries, waited = retries + 1, waited + delay

    async def _exchange(self, request: Request) -> Response:
        headers = {**self._headers, **request.headers}
        if request.content_type:
            headers["Content-Type"] = request.content_type
        async with self._slots:
            response = await self.transport.request(
                request.method,
                request.path,
                query=request.query,
                headers=headers,
                body=request.body,
            )
        self._warnings.tell(request.method, request.path, response.headers)
        return response


def _decoder_of(kind: Resource | ObjectClass[T]) -> tuple[Resource, Callable[[bytes], Any]]:
    if isinstance(kind, Resource):
        resource = kind
        return resource, lambda raw: decode_object(raw, resource)
    return kind.resource, kind.decode


def _decode_like(obj: Object | TypedT, raw: bytes) -> Any:
    if isinstance(obj, dict):
        return decode_object(raw)
    kind: Any = type(obj)
    return kind.decode(raw)
