"""Webhooks that answer as a case's script says and keep what they were sent."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from conformance.case import WebhookScript
from kubewright.api.resource import Object
from kubewright.webhook.certificate import (
    ServingCertificate,
    encode_certificates,
    encode_key,
    make_authority,
    make_serving,
)
from kubewright.webhook.tls import SwappableTLS

_HOST = "127.0.0.1"
_LIFETIME = timedelta(days=2)


class ScriptedWebhook:
    """A webhook on the loopback interface: where it is, whom to trust, what it was sent.

    `ca` is base64, as a `caBundle` wants it. `received` holds reviews in the order of arrival.
    """

    def __init__(self, script: WebhookScript, url: str, ca: str) -> None:
        self._script = script
        self.url = url
        self.ca = ca
        self.received: list[Object] = []

    def answer(self, review: Object) -> Object | None:
        """Keep a review and return the one to answer with; None where the script fails."""
        self.received.append(review)
        if self._script.fail:
            return None
        is_conversion = review["kind"] == "ConversionReview"
        answered = self._convert(review) if is_conversion else self._admit()
        return {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": {"uid": review["request"]["uid"], **answered},
        }

    def _admit(self) -> Object:
        response = dict(self._script.response)
        if self._script.patch is not None:
            patch = base64.b64encode(json.dumps(self._script.patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return response

    def _convert(self, review: Object) -> Object:
        objects = copy.deepcopy(review["request"]["objects"])
        for obj in objects:
            obj["apiVersion"] = review["request"]["desiredAPIVersion"]
            forward = obj["apiVersion"].endswith(self._script.to)
            for old, new in self._script.rename:
                move_field(obj, *((old, new) if forward else (new, old)))
        return {"result": self._script.result, "convertedObjects": objects}


@asynccontextmanager
async def serve_webhook(script: WebhookScript) -> AsyncIterator[ScriptedWebhook]:
    """Serve a webhook over HTTPS while the block lasts, with a certificate of its own."""
    now = datetime.now(UTC)
    authority, authority_key = make_authority(now, _LIFETIME)
    serving, key = make_serving(authority, authority_key, [_HOST], now, _LIFETIME)
    tls = SwappableTLS()
    tls.load(ServingCertificate(encode_certificates([serving]), encode_key(key)))
    webhook = ScriptedWebhook(script, "", "")

    async def handle(request: web.Request) -> web.Response:
        answer = webhook.answer(await request.json())
        return web.json_response(answer, status=500 if answer is None else 200)

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, 0, ssl_context=tls.context).start()
        webhook.url = f"https://{_HOST}:{runner.addresses[0][1]}"
        webhook.ca = base64.b64encode(encode_certificates([authority])).decode()
        yield webhook
    finally:
        await runner.cleanup()


def move_field(obj: Object, source: str, target: str) -> None:
    """Move a value between two dotted paths, in place; nothing moves where there is none."""
    *path, leaf = source.split(".")
    holder: Any = obj
    for part in path:
        holder = holder.get(part) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or leaf not in holder:
        return
    value = holder.pop(leaf)
    *path, leaf = target.split(".")
    holder = obj
    for part in path:
        holder = holder.setdefault(part, {})
    holder[leaf] = value
