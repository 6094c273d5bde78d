"""Passing requests on to aggregated API servers, in the name of those who ask."""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from kubewright.api.errors import ServiceUnavailable
from kubewright.local.apiserver.aggregation.api_service import AggregatedVersion, locate
from kubewright.local.apiserver.exchange import (
    Answer,
    Request,
    Response,
    StreamResponse,
    User,
    text_response,
)
from kubewright.local.apiserver.node_proxy import NodeProxy
from kubewright.local.apiserver.proxied_request import ProxiedBody, send_on
from kubewright.local.store import VersionedStore

if TYPE_CHECKING:
    import aiohttp

CHECK_SECONDS = 5.0

_PATH_SAFE = "/:@!$&'()*+,;=~"

# Nobody but this server says who asks.
_IDENTITY = ("x-remote-user", "x-remote-group", "x-remote-uid", "x-remote-extra-")
_CHECKER = User("system:kube-aggregator", ("system:masters",))


class CheckFailed(Exception):
    """An aggregated API server does not answer as it should; the text says how."""


class AggregatedProxy:
    """Asks aggregated API servers, with the front proxy's certificate where there is one.

    The server at the other end trusts the names in the headers because of that certificate
    (requestheader authentication). It must show a certificate for `SERVICE.NAMESPACE.svc` that the
    APIService's `caBundle` signs, unless `insecureSkipTLSVerify` says otherwise.
    """

    def __init__(
        self,
        store: VersionedStore,
        nodes: NodeProxy,
        choose: random.Random,
        *,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._choose = choose
        self._certificate = certificate
        self._key = key
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    async def forward(
        self, version: AggregatedVersion, request: Request, *, is_stream: bool
    ) -> Answer:
        """Pass a request on and return the answer, as it comes where it is a stream."""
        import aiohttp

        if not version.is_available:
            return _refuse(503, "service unavailable")
        if "upgrade" in request.header("connection").lower():
            return _refuse(501, "connections to aggregated API servers are not upgraded")
        given = ProxiedBody.of(request)
        headers = [pair for pair in given.headers if not pair[0].startswith(_IDENTITY)]
        body = ProxiedBody([*headers, *build_identity(request.user)], given.body)
        query = [(name, value) for name, values in request.query.items() for value in values]
        try:
            answer = await self._send(version, request.method, request.path, query, body)
            if is_stream:
                return answer
            whole = b"".join([chunk async for chunk in answer.chunks])
        except LookupError:
            return _refuse(503, "service unavailable")
        except (ServiceUnavailable, aiohttp.ClientError, OSError, ValueError) as error:
            # A ValueError is a caBundle that is none.
            return _refuse(503, str(error))
        return Response(answer.status, whole, answer.content_type, answer.headers)

    async def fetch(
        self, version: AggregatedVersion, path: str, accept: str = "application/json"
    ) -> tuple[str, bytes]:
        """Get a path in this server's own name; return content type and body.

        Raises:
            CheckFailed: there is no answer, or none of success.
        """
        import aiohttp

        reference = version.service
        shown = f"https://{reference.server_name}:{reference.port}{path}"
        body = ProxiedBody([("Accept", accept), *build_identity(_CHECKER)])
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                answer = await self._send(version, "GET", path, (), body)
                whole = b"".join([chunk async for chunk in answer.chunks])
        except LookupError as error:
            raise CheckFailed(str(error.args[0])) from None
        except TimeoutError:
            text = f'Get "{shown}": context deadline exceeded'
            raise CheckFailed(f"failing or missing response from {shown}: {text}") from None
        except (ServiceUnavailable, aiohttp.ClientError, OSError) as error:
            text = f'Get "{shown}": {error}'
            raise CheckFailed(f"failing or missing response from {shown}: {text}") from error
        if not 200 <= answer.status < 300:
            text = f"bad status from {shown}: {answer.status}"
            raise CheckFailed(f"failing or missing response from {shown}: {text}")
        return answer.content_type, whole

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(
        self,
        version: AggregatedVersion,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        body: ProxiedBody,
    ) -> StreamResponse:
        import aiohttp

        from kubewright.local.apiserver.cluster_connector import ClusterConnector

        reference = version.service
        endpoint = locate(self._store, reference, self._choose)
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CHECK_SECONDS)
            connector = ClusterConnector(self._store, self._nodes)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        url = f"https://{endpoint.host}:{endpoint.port}{quote(path, safe=_PATH_SAFE)}"
        return await send_on(
            self._session,
            method,
            url,
            query,
            body,
            context=self._context(version),
            server_name=reference.server_name,
        )

    def _context(self, version: AggregatedVersion) -> ssl.SSLContext:
        key = (version.ca_bundle, version.is_insecure)
        context = self._contexts.get(key)
        if context is None:
            bundle = base64.b64decode(version.ca_bundle).decode()
            context = ssl.create_default_context(cadata=bundle or None)
            if version.is_insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self._certificate and self._key:
                context.load_cert_chain(self._certificate, self._key)
            self._contexts[key] = context
        return context


def build_identity(user: User) -> list[tuple[str, str]]:
    """Build the headers that tell an aggregated API server who asks."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    for key, values in user.extra.items():
        name = f"X-Remote-Extra-{quote(key.lower(), safe='')}"
        headers += [(name, value) for value in values]
    return headers


def _refuse(status: int, text: str) -> Response:
    answer = text_response(status, f"{text}\n")
    answer.headers.append(("X-Content-Type-Options", "nosniff"))
    return answer
