"""One run of a case: its steps against a server, and the exchanges to compare."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from typing import Any

from conformance.case import Case, Setup, Step
from conformance.comparison import canonical, sort_causes
from conformance.kubelet import build_pod_status, is_report_due
from conformance.normaliser import Normaliser
from conformance.placeholders import Placeholders
from conformance.pointer import find_value, find_values, remove_value
from conformance.server import Headers, Server
from conformance.webhook import ScriptedWebhook, serve_webhook
from kubewright.api.resource import Object
from kubewright.api.time import format_micro_time, format_time
from kubewright.client.clock import Clock

NOT_REACHED = "not reached in time; last"
"""The key of an exchange's body where an `until` step waited in vain."""

_JSON = (("Content-Type", "application/json"),)
_STRATEGIC = (("Content-Type", "application/strategic-merge-patch+json"),)
_SAFE = "/?&=%:,+;*()!~'@$"
_WAIT_SECONDS = 15.0
_WATCH_SECONDS = 3.0
_NAMESPACE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


class CaseFailed(Exception):
    """A case could not be run to its end: what it relies on did not come about."""


class _Request:
    """A request as it is sent."""

    __slots__ = ("body", "headers", "method", "path")

    def __init__(self, method: str, path: str, headers: Headers, body: bytes | None) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body


class CaseRun:
    """Runs the steps of one case and keeps every body as it came.

    `setup` is what the cases of the tree rely on; None for those of an API server alone.
    """

    def __init__(
        self,
        case: Case,
        setup: Setup | None,
        server: Server,
        placeholders: Placeholders,
        webhooks: Mapping[str, ScriptedWebhook],
        clock: Clock,
    ) -> None:
        self._case = case
        self._setup = setup
        self._server = server
        self._placeholders = placeholders
        self._webhooks = webhooks
        self._clock = clock
        self._addresses = 0
        self.bodies: list[Any] = []

    async def run(self) -> list[Object]:
        """Run all steps and return their exchanges, without those that are not compared.

        Raises:
            CaseFailed: the namespace or a pod's status could not be written.
        """
        if self._case.namespace:
            await self._make_namespace()
        exchanges = []
        for index, step in enumerate(self._case.steps):
            exchange = await self.do(step)
            if exchange is not None:
                exchanges.append({"step": index, "what": step.label, **exchange})
        return exchanges

    async def clean_up(self) -> None:
        """Delete what the case names, its namespace, and pods that no kubelet would end."""
        for path in self._case.cleanup:
            await self._server.ask("DELETE", self._fill(path))
        namespace = f"/api/v1/namespaces/{self._placeholders.namespace}"
        if self._case.namespace:
            await self._server.ask("DELETE", namespace)
            if self._setup is not None:
                await self._server.ask("DELETE", f"{namespace}/pods?gracePeriodSeconds=0")

    async def do(self, step: Step) -> Object | None:
        """Carry out one step and return what is compared of it, None where nothing is."""
        if step.sleep is not None:
            await self._clock.sleep(step.sleep)
        elif step.forget is not None:
            self._webhooks[step.forget].received.clear()
        elif step.received is not None:
            return self._received(step.received, whole=step.whole)
        elif step.until is not None:
            return await self._until(step, step.until)
        elif step.pods is not None:
            return await self._report_pods(step, step.pods)
        elif step.watch is not None:
            return await self._watch(step, step.watch)
        elif step.do is not None:
            return await self._ask(step, step.do)
        return None

    async def _make_namespace(self) -> None:
        name = self._placeholders.namespace
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        answer = await self._server.ask(
            "POST", "/api/v1/namespaces", _JSON, json.dumps(body).encode()
        )
        if answer.status != 201:
            raise CaseFailed(f"namespace not created: {answer.status} {answer.body[:200]!r}")
        deadline = self._clock.monotonic() + _NAMESPACE_SECONDS
        for path in self._setup.namespace_has if self._setup is not None else ():
            while self._clock.monotonic() < deadline:
                if (await self._server.ask("GET", self._fill(path))).status == 200:
                    break
                await self._clock.sleep(_PAUSE_SECONDS / 2)

    async def _ask(self, step: Step, line: str) -> Object | None:
        request = self._build_request(step, line)
        answer = await self._server.ask(request.method, request.path, request.headers, request.body)
        document = answer.document(is_json=bool(step.only or step.save))
        return self._compared(step, answer.status, answer.headers, document)

    async def _watch(self, step: Step, path: str) -> Object | None:
        request = self._build_request(step, f"GET {path}")
        seconds = _WATCH_SECONDS if step.seconds is None else step.seconds
        watched = await self._server.watch(request.path, request.headers, step.events, seconds)
        body = watched.body[-1:] if step.last_only else watched.body
        return self._compared(step, watched.status, watched.headers, body)

    def _compared(
        self, step: Step, status: int, headers: Mapping[str, list[str]], body: Any
    ) -> Object | None:
        self.bodies.append(body)
        if step.sort is not None and isinstance(body, dict) and isinstance(body.get("items"), list):
            body = body | {"items": _sorted_items(body["items"], step.sort)}
        self._save(step, body)
        if step.compare == "none":
            return None
        if step.any_order and isinstance(body, dict):
            sort_causes(body)
        exchange: Object = {"status": status}
        for header in ("Content-Type", "Warning", *step.with_headers):
            values = headers.get(header.lower())
            if values:
                exchange[header] = sorted(values) if len(values) > 1 else values[0]
        if step.compare != "status":
            exchange["body"] = self._select(step, body)
        return exchange

    def _select(self, step: Step, body: Any) -> Any:
        for pointer in step.ignore:
            remove_value(body, pointer)
        if step.only is not None:
            body = {pointer: find_values(body, pointer) for pointer in self._fill(step.only)}
        common = self._setup.ignore if self._setup is not None else ()
        for pointer in (*step.ignore, *common):
            remove_value(body, pointer)
        return body

    def _received(self, name: str, *, whole: bool) -> Object:
        reviews = [review["request"] for review in self._webhooks[name].received]
        reviews.sort(key=lambda review: json.dumps(review.get("operation", "")))
        return {"body": reviews if whole else len(reviews)}

    async def _until(self, step: Step, line: str) -> Object:
        """Ask until the server answers as wanted; the exchange is the value, or that it is so."""
        line = line if " " in line.split("?")[0] else f"GET {line}"
        request = self._build_request(step, line)
        wanted, at = self._fill(step.wanted), self._fill(step.at)
        deadline = self._deadline(step)
        value, status = None, 0
        while self._clock.monotonic() < deadline:
            answer = await self._server.ask(
                request.method, request.path, request.headers, request.body
            )
            status = answer.status
            if step.code == status:
                return {"status": status}
            if status in (200, 201) and at is not None:
                document = json.loads(answer.body)
                value = find_value(document, at)
                if _is_reached(step, value, wanted):
                    self.bodies.append(document)
                    self._save(step, document)
                    return {"status": 200, "body": value if step.has_wanted else "<reached>"}
            await self._clock.sleep(_PAUSE_SECONDS)
        return {"status": status, "body": {NOT_REACHED: value}}

    async def _report_pods(self, step: Step, which: str) -> Object:
        """Play the kubelet: report what became of bound pods, or end those that terminate."""
        which = self._fill(which)
        found = await self._find_pods(step, which)
        self.bodies.append({"items": found})
        self._save(step, found)
        for pod in found[: step.count]:
            await self._report(step, pod)
        return {"body": f"{min(len(found), step.count)} {step.become}"}

    async def _find_pods(self, step: Step, which: str) -> list[Object]:
        named = "=" not in which
        selector = f"fieldSelector=metadata.name={which}" if named else f"labelSelector={which}"
        path = f"/api/v1/namespaces/{self._placeholders.namespace}/pods?{selector}"
        deadline = self._deadline(step)
        found: list[Object] = []
        while len(found) < step.count and self._clock.monotonic() < deadline:
            pods = json.loads((await self._server.ask("GET", path)).body).get("items", [])
            found = [pod for pod in pods if is_report_due(pod, step.become, named=named)]
            if len(found) < step.count:
                await self._clock.sleep(_PAUSE_SECONDS)
        return found

    async def _report(self, step: Step, pod: Object) -> None:
        name, namespace = pod["metadata"]["name"], self._placeholders.namespace
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        if step.become == "gone":
            await self._server.ask("DELETE", f"{path}?gracePeriodSeconds=0")
            return
        self._addresses += 1
        status = build_pod_status(
            pod,
            step.become,
            exit_code=step.exit,
            address=pod["status"].get("podIP") or f"192.168.7.{self._addresses}",
            at=format_time(self._clock.now()),
        )
        body = json.dumps({"status": status}).encode()
        answer = await self._server.ask("PATCH", f"{path}/status", _STRATEGIC, body)
        if answer.status != 200:
            raise CaseFailed(f"pod not reported: {answer.status} {answer.body[:300]!r}")

    def _build_request(self, step: Step, line: str) -> _Request:
        self._placeholders.set("now", format_micro_time(self._clock.now()))
        method, path = self._fill(line).split(" ", 1)
        headers = [
            (name, self._placeholders.fill_text(value)) for name, value in step.headers.items()
        ]
        if step.user is not None:
            headers.append(("Impersonate-User", self._placeholders.fill_text(step.user)))
            headers += [("Impersonate-Group", self._fill(group)) for group in step.groups]
        named = {name.lower() for name, _ in headers}
        if "accept" not in named:
            headers.append(("Accept", "application/json"))
        body: bytes | None = None
        if step.body is not None:
            filled = self._fill(step.body)
            body = (filled if isinstance(filled, str) else json.dumps(filled)).encode()
            if "content-type" not in named:
                headers += _JSON
        elif step.base64 is not None:
            body = self._placeholders.fill_bytes(base64.b64decode(step.base64))
        return _Request(method, urllib.parse.quote(path, safe=_SAFE), headers, body)

    def _save(self, step: Step, body: Any) -> None:
        for word, pointer in step.save.items():
            self._placeholders.set(word, find_value(body, pointer))

    def _deadline(self, step: Step) -> float:
        seconds = _WAIT_SECONDS if step.seconds is None else step.seconds
        return self._clock.monotonic() + seconds

    def _fill(self, value: Any) -> Any:
        return self._placeholders.fill(value)


async def run_case(
    case: Case, setup: Setup | None, server: Server, rng: random.Random, clock: Clock
) -> list[Object]:
    """Run a case in a namespace of its own and return its normalised exchanges.

    Raises:
        CaseFailed: what the case relies on did not come about.
        aiohttp.ClientError: the server could not be reached.
    """
    placeholders = Placeholders(rng)
    async with _serve_webhooks(case, placeholders) as webhooks:
        run = CaseRun(case, setup, server, placeholders, webhooks, clock)
        try:
            exchanges = await run.run()
        finally:
            await run.clean_up()
    compared: list[Object] = canonical(Normaliser(placeholders).normalise(exchanges, run.bodies))
    return compared


@contextlib.asynccontextmanager
async def _serve_webhooks(
    case: Case, placeholders: Placeholders
) -> AsyncIterator[dict[str, ScriptedWebhook]]:
    async with contextlib.AsyncExitStack() as stack:
        webhooks = {}
        for name, script in case.webhooks.items():
            webhook = await stack.enter_async_context(serve_webhook(script))
            placeholders.set(f"{name}.url", webhook.url)
            placeholders.set(f"{name}.ca", webhook.ca)
            webhooks[name] = webhook
        yield webhooks


def _is_reached(step: Step, value: Any, wanted: Any) -> bool:
    if step.has_wanted:
        return bool(value == wanted)
    return step.exists is not None and step.exists == (value is not None)


def _sorted_items(items: list[Any], pointers: list[str]) -> list[Any]:
    return sorted(
        items, key=lambda item: json.dumps([find_value(item, pointer) for pointer in pointers])
    )
