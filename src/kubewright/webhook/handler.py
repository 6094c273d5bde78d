"""Answering over HTTP: a request goes in, and whatever happens, an answer comes out in time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kubewright.api.errors import (
    APIError,
    ConfigurationError,
    InternalError,
    KubewrightError,
    RequestEntityTooLarge,
    UnsupportedMediaType,
)
from kubewright.api.resource import Object
from kubewright.runtime.failure import describe
from kubewright.runtime.operator import CONVERT_PATH, Operator
from kubewright.webhook.bounded_call import BoundedCalls
from kubewright.webhook.configuration import defaulting_webhooks, validating_webhooks
from kubewright.webhook.conversion import ConversionWebhook
from kubewright.webhook.observer import WebhookObserver

if TYPE_CHECKING:
    from aiohttp import web

_logger = logging.getLogger(__name__)


class Webhook(Protocol):
    """What answers at one path: `AdmissionWebhook` and `ConversionWebhook`."""

    @property
    def path(self) -> str:
        """Where it is served."""
        ...

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def body_limit(self) -> int:
        """How many bytes a request may have."""
        ...

    @property
    def default_timeout(self) -> float:
        """The seconds that whoever asks waits, where the request does not tell."""
        ...

    def decode(self, body: bytes) -> Any:
        """Read a request; raise BadRequest where it is none."""
        ...

    def review(self, request: Any) -> Object:
        """Return the review that answers a request."""
        ...

    def refuse(self, request: Any, error: APIError) -> Object:
        """Return the review that refuses a request because of an error."""
        ...


def build_webhooks(operators: Sequence[Operator]) -> list[Webhook]:
    """Build all webhooks of some operators.

    Raises:
        ConfigurationError: a conversion is missing, or two operators answer for one kind.
    """
    webhooks: list[Webhook] = []
    for operator in operators:
        webhooks += defaulting_webhooks(operator)
        webhooks += validating_webhooks(operator)
    conversion = ConversionWebhook(operators)
    if conversion.resources:
        webhooks.append(conversion)
    for path, count in Counter(webhook.path for webhook in webhooks).items():
        if count > 1:
            raise ConfigurationError(
                f"{count} operators answer at {path}: let one of them have all functions of a kind"
            )
    return webhooks


class WebhookHandler:
    """Answers the requests of one webhook.

    What is no review gets an HTTP error and a Status with a sentence. A review is always answered
    with a review: a function that fails or hangs refuses the write and says where in which file.
    """

    def __init__(self, webhook: Webhook, calls: BoundedCalls, observer: WebhookObserver) -> None:
        self._webhook = webhook
        self._calls = calls
        self._observer = observer.webhook(webhook.path, converts=webhook.path == CONVERT_PATH)
        self._told = ""

    async def handle(self, http: web.Request) -> web.Response:
        """Answer a request, and tell the observer."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._observer.called()
        code = 500
        try:
            code, body = await self._respond(http, began)
        finally:
            self._observer.answered(code, loop.time() - began)
        return _build_response(code, body)

    async def _respond(self, http: web.Request, began: float) -> tuple[int, Object]:
        webhook = self._webhook
        deadline = began + read_timeout(http.query, webhook.default_timeout)
        try:
            async with asyncio.timeout_at(deadline):
                body = await _read(http, webhook.body_limit)
            request = webhook.decode(body)
        except TimeoutError:
            late = APIError("the body did not come in time", None, 408, "Timeout")
            return 408, late.to_status()
        except APIError as error:
            _logger.warning("webhook %s: %s", webhook.path, error)
            return error.code, error.to_status()
        return 200, await self._answer(request, deadline)

    async def _answer(self, request: Any, deadline: float) -> Object:
        """Ask the functions until a deadline."""
        seconds = deadline - asyncio.get_running_loop().time()
        try:
            review = await self._calls.call(partial(self._webhook.review, request), seconds)
        except APIError as error:
            self._tell(error, str(error))
            return self._webhook.refuse(request, error)
        except Exception as error:
            text = describe(error)
            self._tell(error, text)
            return self._webhook.refuse(request, InternalError(text, None))
        self._told = ""
        return review

    def _tell(self, error: Exception, text: str) -> None:
        """Log a failure with its traceback; the same one again only when asked for details."""
        self._observer.panicked()
        level = logging.DEBUG if self._told == text else logging.ERROR
        self._told = text
        fault = None if isinstance(error, KubewrightError) else error
        _logger.log(level, "webhook %s: %s", self._webhook.path, text, exc_info=fault)


async def _read(http: web.Request, limit: int) -> bytes:
    """Read the body.

    Raises:
        UnsupportedMediaType: it is not JSON.
        RequestEntityTooLarge: it is larger than a review can be.
    """
    if http.content_type != "application/json":
        raise UnsupportedMediaType(f"send application/json, not {http.content_type}", None)
    too_large = RequestEntityTooLarge(f"the review has more than {limit} bytes", None)
    if (http.content_length or 0) > limit:
        raise too_large
    chunks, size = [], 0
    async for chunk in http.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise too_large
    return b"".join(chunks)


def read_timeout(query: Mapping[str, str], default: float) -> float:
    """Return the seconds that functions may take: what the API server waits, less a margin.

    It says in the query how long it waits, such as `?timeout=10s`.
    """
    text = query.get("timeout") or ""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = default
    if not 0 < seconds <= default * 10:
        seconds = default
    return seconds - min(1.0, max(0.2, seconds / 10)) if seconds > 0.4 else seconds / 2


def _build_response(status: int, body: Object) -> web.Response:
    from aiohttp import web

    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )
