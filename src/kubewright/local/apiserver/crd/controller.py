"""Serve custom resources: follow the stored definitions, carry out their lifecycle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kubewright.api.conditions import is_condition_true
from kubewright.api.errors import APIError
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.authentication import ADMIN
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.crd.definition_strategy import definition_kind
from kubewright.local.apiserver.crd.lifecycle import CLEANUP_FINALIZER, DefinitionLifecycle
from kubewright.local.apiserver.exchange import Answer, Request, Response, User, encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.lazy_module import lazy_module
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.apiserver.webhook_call import WebhookCaller
from kubewright.local.store import Change

if TYPE_CHECKING:
    from kubewright.local.apiserver.crd import conversion_webhook, custom_kinds
    from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
else:
    conversion_webhook = lazy_module("kubewright.local.apiserver.crd.conversion_webhook")
    custom_kinds = lazy_module("kubewright.local.apiserver.crd.custom_kinds")

logger = logging.getLogger(__name__)

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
_PREFIX = key_prefix(GROUP, PLURAL)
_PATH = f"/apis/{GROUP}/v1/{PLURAL}"
_USER_AGENT = "kube-apiserver/kubewright"
_RETRY_SECONDS = 0.1


class Server(Protocol):
    """What the controller needs of an API server."""

    @property
    def registry(self) -> Registry:
        """The kinds that are served."""
        ...

    @property
    def backend(self) -> Backend:
        """The store and the clock."""
        ...

    @property
    def webhooks(self) -> WebhookCaller:
        """Asks webhooks."""
        ...

    async def handle(self, request: Request, user: User | None = None) -> Answer:
        """Answer a request."""
        ...


def with_definition_rules(kinds: Iterable[ServedKind]) -> list[ServedKind]:
    """Return built-in kinds with the rules of CustomResourceDefinition in place."""
    return [
        definition_kind(kind)
        if (kind.resource.group, kind.resource.plural) == (GROUP, PLURAL)
        else kind
        for kind in kinds
    ]


@asynccontextmanager
async def serve_definitions(server: Server) -> AsyncIterator[DefinitionController]:
    """Serve custom resources while the context lasts; those of stored definitions at once."""
    controller = DefinitionController(server)
    stop = controller.start()
    task = asyncio.create_task(controller.run(), name="custom resource definitions")
    try:
        yield controller
    finally:
        stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class DefinitionController:
    """Keeps the registry and the status of definitions in step with the stored definitions.

    A definition of which the spec or the accepted names change is served anew in the same turn of
    the event loop in which it was written. One that is being deleted is served as it was, so that
    its watches hear of the end of each object, as those of kube-apiserver do. Names, conditions and
    removal follow in `run`.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # Decoded once: all definitions are looked at after each change of one, and some are large.
        self._known: dict[str, Object] = {}
        self._served: dict[str, Any] = {}
        self._terminating: set[str] = set()
        self._changed = asyncio.Event()
        self._lifecycle = DefinitionLifecycle(
            self._definitions,
            self._write_status,
            self._delete_instances,
            self._remove_finalizer,
            lambda: format_time(server.backend.now()),
        )

    def start(self) -> Callable[[], None]:
        """Serve the stored definitions and follow their changes; return what ends that."""
        store = self._server.backend.store
        for item in store.scan(_PREFIX):
            self._serve(decode_json(item.value))
        self._changed.set()
        return store.subscribe(self._on_change)

    async def run(self) -> None:
        """Accept names and finish deletions, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                waiting = await self._lifecycle.run_once()
            except APIError:
                # One definition that cannot be brought forward must not stop the others for good.
                logger.exception("a definition cannot be brought forward; trying again")
                waiting = True
            if waiting:
                # Objects with finalizers of their own hold a definition: look again.
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)

    def _on_change(self, change: Change) -> None:
        if not change.key.startswith(_PREFIX):
            return
        if change.version.value is None:
            name = change.key.removeprefix(_PREFIX)
            self._known.pop(name, None)
            self._served.pop(name, None)
            self._terminating.discard(name)
            self._server.registry.set_custom(name, ())
        else:
            self._serve(decode_json(change.version.value))
        self._changed.set()

    def _serve(self, crd: Object) -> None:
        """Serve a definition's kinds, unless nothing that they are made of changed."""
        name, status = crd["metadata"]["name"], crd.get("status") or {}
        self._known[name] = crd
        if is_condition_true(crd, "Terminating"):
            self._terminating.add(name)
        else:
            self._terminating.discard(name)
        essence = (
            crd["spec"],
            status.get("acceptedNames"),
            is_condition_true(crd, "Established"),
        )
        if self._served.get(name) != essence:
            self._served[name] = essence
            kinds = custom_kinds.custom_kinds(crd, self._webhook, lambda: name in self._terminating)
            self._server.registry.set_custom(name, kinds)

    def _webhook(
        self, crd: Object, schemas: Mapping[str, StructuralSchema]
    ) -> conversion_webhook.ConversionWebhook:
        ask, new_uid = self._server.webhooks.ask, self._server.backend.new_uid
        return conversion_webhook.ConversionWebhook(crd, schemas, ask, new_uid)

    def _definitions(self) -> list[Object]:
        return [self._known[name] for name in sorted(self._known)]

    async def _write_status(self, crd: Object) -> None:
        await self._request("PUT", f"{_PATH}/{crd['metadata']['name']}/status", crd)

    async def _remove_finalizer(self, crd: Object) -> None:
        metadata = dict(crd["metadata"])
        metadata["finalizers"] = [f for f in metadata["finalizers"] if f != CLEANUP_FINALIZER]
        path = f"{_PATH}/{metadata['name']}"
        await self._request("PUT", path, {**crd, "metadata": metadata})

    async def _delete_instances(self, crd: Object) -> int:
        """Delete the objects of a definition's kind and count those that stay."""
        store = self._server.backend.store
        prefix = key_prefix(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        kinds = self._server.registry.custom(crd["metadata"]["name"])
        # The stored version first: no webhook needs to be there for it.
        kinds = tuple(sorted(kinds, key=lambda kind: kind.resource != kind.stored_as))
        for item in list(store.scan(prefix)):
            if not kinds:
                # No version is served: there is nobody whose finalizers could be honoured.
                store.delete(item.key, item.version.revision)
                continue
            metadata = decode_json(item.value)["metadata"]
            if metadata.get("deletionTimestamp") is None:
                namespace = metadata.get("namespace")
                path = kinds[0].resource.path(metadata["name"], namespace=namespace)
                await self._request("DELETE", path, None)
        return sum(1 for _ in store.scan(prefix))

    async def _request(self, method: str, path: str, body: Object | None) -> None:
        """Send a request to the server itself; a lost race is looked at again in the next pass."""
        request = Request(
            method=method,
            path=path,
            headers={
                "user-agent": [_USER_AGENT],
                "content-type": ["application/json"],
            },
            body=b"" if body is None else encode_json(body),
        )
        answer = await self._server.handle(request, ADMIN)
        if not isinstance(answer, Response) or answer.status < 400:
            return
        if answer.status in (404, 409):
            self._changed.set()
            return
        raise APIError.from_status(msgspec.json.decode(answer.body), answer.status)
