"""Asking a webhook: where it is, what it is sent, what it answers."""

from __future__ import annotations

import base64
import json
import random
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import encode_json
from kubewright.local.apiserver.node_proxy import NodeProxy
from kubewright.local.apiserver.service_endpoint import find_endpoint
from kubewright.local.store import VersionedStore

if TYPE_CHECKING:
    import aiohttp


class WebhookFailed(Exception):
    """A webhook could not be asked, or its answer is none; the text says why."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a webhook is asked: `shown` is the URL of messages, `url` the one that is dialled."""

    shown: str
    url: str
    server_name: str | None = None


class WebhookCaller(msgspec.Struct):
    """Sends reviews to webhooks over HTTPS and returns their answers.

    A Service is reached at one of its ready endpoints, for there is no proxy in between.
    """

    store: VersionedStore
    nodes: NodeProxy
    random: random.Random
    _session: aiohttp.ClientSession | None = None
    _contexts: dict[str, ssl.SSLContext] = {}

    async def ask(self, config: Mapping[str, Any], review: Object, timeout: int) -> Object:
        """Send a review and return the one that is answered.

        Raises:
            WebhookFailed: there is no answer, or none that is a review.
        """
        import aiohttp

        endpoint = self._locate(config, timeout)
        try:
            async with self._open().post(
                endpoint.url,
                data=encode_json(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._context(config.get("caBundle") or ""),
                server_hostname=endpoint.server_name,
                timeout=aiohttp.ClientTimeout(total=timeout),
            ) as response:
                body = await response.read()
                status, is_text = response.status, response.content_type.startswith("text/")
        except TimeoutError:
            raise WebhookFailed(f'Post "{endpoint.shown}": context deadline exceeded') from None
        except aiohttp.ClientError as error:
            raise WebhookFailed(f'Post "{endpoint.shown}": {_explain(error)}') from error
        if status >= 400:
            raise WebhookFailed(_refusal(status, body.decode(errors="replace") if is_text else ""))
        return _decode(body)

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        from kubewright.local.apiserver.cluster_connector import ClusterConnector

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=ClusterConnector(self.store, self.nodes)
            )
        return self._session

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            try:
                text = base64.b64decode(bundle).decode()
                context = ssl.create_default_context(cadata=text or None)
            except (ValueError, ssl.SSLError):
                raise WebhookFailed("unable to load root certificates") from None
            self._contexts[bundle] = context
        return context

    def _locate(self, config: Mapping[str, Any], timeout: int) -> Endpoint:
        if url := config.get("url"):
            shown = f"{url}?timeout={timeout}s"
            return Endpoint(shown, shown)
        service = config.get("service") or {}
        name, namespace = service.get("name") or "", service.get("namespace") or ""
        port, path = service.get("port") or 443, service.get("path") or "/"
        host = f"{name}.{namespace}.svc"
        shown = f"https://{host}:{port}{path}?timeout={timeout}s"
        try:
            found = find_endpoint(self.store, namespace, name, port, self.random)
        except LookupError as error:
            raise WebhookFailed(f'Post "{shown}": {error.args[0]}') from None
        url = f"https://{found.host}:{found.port}{path}?timeout={timeout}s"
        return Endpoint(shown, url, host)


def _explain(error: aiohttp.ClientError) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        host = f"{error.host}:{error.port}"
        return f"dial tcp {host}: connect: connection refused"
    return str(error) or type(error).__name__


_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    503: "the server is currently unable to handle the request",
}


def _refusal(status: int, text: str) -> str:
    """Return the words of client-go for an answer that is no success."""
    if status in _REFUSALS:
        return _REFUSALS[status]
    shown = json.dumps(text.strip() or "unknown", ensure_ascii=False)
    return f"an error on the server ({shown}) has prevented the request from succeeding"


def _decode(body: bytes) -> Object:
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise WebhookFailed(f"the answer is no JSON: {error}") from None
    if not isinstance(answer, dict):
        raise WebhookFailed("the answer is no JSON object")
    return answer
