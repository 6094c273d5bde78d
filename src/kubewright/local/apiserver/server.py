"""The API server: from a request to its answer."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubewright.api.errors import APIError, InternalError, KubewrightError
from kubewright.local.apiserver.admission import Admission, Plugin
from kubewright.local.apiserver.admission_plugins import builtin_plugins
from kubewright.local.apiserver.aggregation import Aggregator
from kubewright.local.apiserver.aggregation.proxy import AggregatedProxy
from kubewright.local.apiserver.authentication import ADMIN, Authenticator, impersonated
from kubewright.local.apiserver.authorization import (
    AuthenticatedMayAll,
    Authorizer,
    forbidden,
)
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.builtin import builtin_kinds
from kubewright.local.apiserver.crd.controller import with_definition_rules
from kubewright.local.apiserver.exchange import (
    Answer,
    Request,
    Response,
    User,
    Verb,
    encode_json,
    json_response,
    text_response,
)
from kubewright.local.apiserver.health import answer_health
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.lazy_module import lazy_module
from kubewright.local.apiserver.metrics import Metrics
from kubewright.local.apiserver.namespace_lifecycle import NamespaceLifecycle
from kubewright.local.apiserver.negotiation import Media, negotiate
from kubewright.local.apiserver.node_proxy import HTTPNodeProxy, NodeProxy
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.representation import represent
from kubewright.local.apiserver.request import RequestInfo, parse_request
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.proxy import ClusterProxy
from kubewright.local.apiserver.rest.routes import (
    find_handler,
    is_review,
    method_not_allowed,
    missing_resource,
)
from kubewright.local.apiserver.selectors import parse_field_selector
from kubewright.local.apiserver.version import build_version
from kubewright.local.apiserver.webhook_call import WebhookCaller
from kubewright.local.store import VersionedStore

if TYPE_CHECKING:
    from kubewright.local.apiserver import discovery, openapi
    from kubewright.local.apiserver.front_proxy import FrontProxy
    from kubewright.local.apiserver.memory import MemoryTransport
    from kubewright.local.apiserver.rest import review, subresources
    from kubewright.local.apiserver.tokens import TokenIssuer
else:
    discovery = lazy_module("kubewright.local.apiserver.discovery")
    openapi = lazy_module("kubewright.local.apiserver.openapi")
    review = lazy_module("kubewright.local.apiserver.rest.review")
    subresources = lazy_module("kubewright.local.apiserver.rest.subresources")

logger = logging.getLogger(__name__)


class APIServer:
    """A Kubernetes API server over a `VersionedStore`.

    `handle` answers one request, whoever carries it: the HTTPS listener, or `MemoryTransport` for
    clients in the same process. The server itself starts no task; `run` does what goes on in the
    background and ends by cancellation.

    Args:
        store: the objects.
        authenticator: tells who asks.
        authorizer: decides who may; everybody known may all by default.
        issuer: signs and reads ServiceAccount tokens; without it there are none.
        nodes: reaches the nodes for logs.
        front_proxy: how aggregated API servers know this one.
        plugins: admission plugins after those that are always there.
        now, monotonic, rng: time and randomness.
    """

    def __init__(
        self,
        store: VersionedStore,
        *,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        issuer: TokenIssuer | None = None,
        nodes: NodeProxy | None = None,
        front_proxy: FrontProxy | None = None,
        plugins: Sequence[Plugin] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.registry = Registry(with_definition_rules(builtin_kinds()))
        self.backend = Backend(store, self.registry, now=now, monotonic=monotonic, rng=rng)
        self._nodes = nodes or HTTPNodeProxy()
        self.aggregator = self._build_aggregator(front_proxy)
        self._proxy = ClusterProxy(self._nodes)
        self.webhooks = WebhookCaller(store, self._nodes, self.backend.random)
        always = builtin_plugins(self.backend, self.webhooks)
        self.admission = Admission([NamespaceLifecycle(store), *always])
        for plugin in plugins:
            self.admission.add(plugin)
        self.metrics = Metrics()
        self.ready = False
        self.address = ""
        self._authenticator = authenticator or Authenticator()
        self._authorizer = authorizer or AuthenticatedMayAll()
        self._issuer = issuer
        self._subresources = cache(
            lambda: subresources.build_subresources(issuer, self._nodes, self._proxy)
        )

    def _build_aggregator(self, front: FrontProxy | None) -> Aggregator:
        proxy = AggregatedProxy(
            self.store,
            self._nodes,
            self.backend.random,
            certificate=front.certificate if front else None,
            key=front.key if front else None,
        )
        return Aggregator(self.backend, proxy)

    @cached_property
    def _discovery(self) -> discovery.Discovery:
        return discovery.Discovery(self.registry, self.aggregator)

    @cached_property
    def _openapi(self) -> openapi.OpenAPI:
        return openapi.OpenAPI(self.registry)

    @cached_property
    def _reviewer(self) -> review.Reviewer:
        return review.Reviewer(self._authenticator, self._authorizer, self._issuer)

    @property
    def store(self) -> VersionedStore:
        """The objects."""
        return self.backend.store

    async def handle(self, request: Request, user: User | None = None) -> Answer:
        """Answer a request. `user` is who asks, where the carrier knows it already.

        It raises nothing but cancellation: what goes wrong is answered as a Status.
        """
        started = self.backend.monotonic()
        info = parse_request(request)
        try:
            answer = await self._answer(request, info, user)
        except APIError as error:
            answer = self._refuse(request, error)
        except KubewrightError as error:
            answer = self._refuse(request, InternalError(f"Internal error occurred: {error}"))
        except Exception as error:
            # The server must outlive a fault in the handling of one request, and say so.
            logger.exception("%s %s failed", request.method, request.path)
            answer = self._refuse(request, InternalError(f"Internal error occurred: {error!r}"))
        if request.warnings:
            texts = dict.fromkeys(request.warnings)
            answer.headers += [("Warning", f'299 - "{_quote(text)}"') for text in texts]
        self.metrics.count(
            info.verb, info.group, info.version, info.resource, info.subresource, answer.status
        )
        if isinstance(answer, Response):
            self.metrics.observe(self.backend.monotonic() - started)
        return answer

    async def _answer(self, request: Request, info: RequestInfo, user: User | None) -> Answer:
        asking = user or self._authenticator.authenticate(request)
        request.user = asking
        acting = impersonated(request)
        if acting is not None:
            self._authorize_impersonation(request, acting)
            request.user = acting
        self._authorize(request, _authorized_as(request, info))
        if not info.is_resource:
            found = await self._forward_path(request)
            return found or self._answer_path(request)
        kind = self.registry.find(info.group, info.version, info.resource)
        if kind is None:
            return await self._answer_unknown(request, info)
        handler = find_handler(kind, info, request.method, self._subresources)
        if kind.deprecation_warning:
            request.warnings.append(kind.deprecation_warning)
        streams = info.verb in (Verb.LIST, Verb.WATCH)
        media = negotiate(request.header("accept"), streams=streams)
        storage = self.backend.storage(kind)
        call = Call(
            self.backend,
            self.admission,
            request,
            info,
            kind,
            storage,
            media,
            lambda verb: self._authorize(request, replace(info, verb=verb)),
        )
        if is_review(kind.resource):
            return await self._reviewer.create(call)
        return await handler(call)

    def _authorize_impersonation(self, request: Request, acting: User) -> None:
        """Check that the one who asks may act as another user, in each of his groups.

        Raises:
            Forbidden: he may not.
        """
        wanted = [("users", acting.name)]
        wanted += [("groups", group) for group in request.headers.get("impersonate-group") or ()]
        for resource, name in wanted:
            info = RequestInfo(True, "impersonate", resource=resource, name=name)
            self._authorize(request, info)

    def _authorize(self, request: Request, info: RequestInfo) -> None:
        if not self._authorizer.allows(request.user, info, request.path):
            raise forbidden(request.user, info, request.path)

    async def _answer_unknown(self, request: Request, info: RequestInfo) -> Answer:
        served = self.aggregator.find(info.group, info.version)
        if served is not None:
            is_stream = info.verb == Verb.WATCH or request.flag("follow")
            return await self.aggregator.forward(served, request, is_stream=is_stream)
        if info.group and not self.registry.is_builtin_group(info.group):
            return page_not_found()
        raise missing_resource()

    async def _forward_path(self, request: Request) -> Answer | None:
        """Answer discovery, or the schemas, of a group version that another server serves."""
        segments = request.path.strip("/").split("/")
        if segments[:2] == ["openapi", "v3"]:
            segments = segments[2:]
        if len(segments) != 3 or segments[0] != "apis":
            return None
        served = self.aggregator.find(segments[1], segments[2])
        if served is None or self.registry.of_version(served.group, served.version):
            return None
        return await self.aggregator.forward(served, request)

    def _answer_path(self, request: Request) -> Response:
        """Answer a path that names no resource: discovery, health, version, metrics."""
        segments = request.path.strip("/").split("/")
        root = segments[0]
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if root in ("api", "apis"):
            found = self._discovery.answer(request, segments, self.address)
            if found is None and (root == "api" or self._is_known_group(segments)):
                raise missing_resource()
            return found or page_not_found()
        if root in ("healthz", "livez", "readyz"):
            return answer_health(request, segments, ready=self.ready) or page_not_found()
        if root == "openapi":
            return self._openapi.answer(request, segments) or page_not_found()
        if segments == ["version"]:
            body = msgspec.json.format(encode_json(build_version()), indent=2)
            return represent(request, negotiate(request.header("accept")), 200, body)
        if segments == ["metrics"]:
            return self.metrics.render(
                watches=len(self.backend.hub),
                objects=len(self.store),
                revision=self.store.revision,
            )
        if segments == [""]:
            return json_response(200, {"paths": self._paths()})
        return page_not_found()

    def _is_known_group(self, segments: Sequence[str]) -> bool:
        return len(segments) > 1 and self.registry.is_builtin_group(segments[1])

    def _paths(self) -> list[str]:
        groups = self._discovery.groups()
        versions = [f"{group}/{v}" for group in groups for v in self._discovery.versions(group)]
        paths = [f"/apis/{path}" for path in (*groups, *versions)]
        fixed = ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis"]
        last = [
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        return [*fixed, *sorted(paths), *last]

    def _refuse(self, request: Request, error: APIError) -> Response:
        try:
            media = Media(negotiate(request.header("accept"), convertible=False).media_type)
        except APIError:
            media = Media()
        answer = represent(request, media, error.code, encode_json(error.to_status()))
        if error.retry_after:
            answer.headers.append(("Retry-After", str(error.retry_after)))
        return answer

    def transport(self, user: User = ADMIN) -> MemoryTransport:
        """Return a client's transport into this server, without a network."""
        from kubewright.local.apiserver.memory import MemoryTransport

        return MemoryTransport(self, user)

    def kind(self, group: str, version: str, plural: str) -> ServedKind:
        """Return a kind that the server serves.

        Raises:
            LookupError: it does not.
        """
        return self.backend.storage_of(group, version, plural).kind

    async def close(self) -> None:
        """End all watches and close the store."""
        self.ready = False
        self.backend.hub.close()
        await self._proxy.close()
        await self._nodes.close()
        await self.aggregator.close()
        await self.webhooks.close()
        self.store.close()


def _authorized_as(request: Request, info: RequestInfo) -> RequestInfo:
    """Return the request as authorization sees it: a selector of one name counts as that name."""
    selector = request.param("fieldSelector")
    if not selector or info.name or not info.is_resource:
        return info
    try:
        name = parse_field_selector(selector).exact("metadata.name")
    except APIError:
        return info
    return replace(info, name=name) if name else info


def page_not_found() -> Response:
    """Build the answer for a path that nothing is at."""
    return text_response(404, "404 page not found\n")


def _quote(text: str) -> str:
    r"""Escape a warning's text as an HTTP quoted-string: `"` and `\`."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
