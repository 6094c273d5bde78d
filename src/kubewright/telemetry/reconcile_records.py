"""The record of the last reconciles of each object: what woke them, and what they did."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from kubewright.api.errors import TransportError
from kubewright.api.resource import NamespacedName, Resource
from kubewright.api.time import format_micro_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Transport,
    find_header,
)
from kubewright.runtime.attempt import Attempt, Outcome, Write, current_attempt
from kubewright.runtime.observer import NoControllerObserver, NoObserver
from kubewright.telemetry.endpoints import Answer

_MOST_OBJECTS = 100
"""How many objects one answer tells of."""
_MOST_WRITES = 64
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Record(msgspec.Struct):
    """One reconcile; `repeats` more before it did nothing at all either."""

    attempt: Attempt
    ended: datetime
    repeats: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether it did nothing, and had nothing to do."""
        attempt = self.attempt
        is_quiet = attempt.outcome in (Outcome.SUCCESS, Outcome.REQUEUE_AFTER)
        return is_quiet and not attempt.steps and not attempt.writes and not attempt.failure


class ReconcileRecords(NoObserver):
    """Keep the last reconciles of each object, and tell of them when asked.

        records = ReconcileRecords()
        client.transport = records.note_writes(client.transport)
        manager = Manager(client, observer=records)

    Bounded: `per_object` records of one object, `total` of all; the objects that were reconciled
    longest ago are forgotten first. Reconciles in a row that did nothing are one record. What is
    kept is text: neither objects nor what a Secret holds. JSON is made when somebody asks.
    """

    detailed = True

    def __init__(
        self, *, per_object: int = 10, total: int = 1000, clock: Clock | None = None
    ) -> None:
        self._per_object = per_object
        self._total = total
        self._clock: Clock = SystemClock() if clock is None else clock
        self._caches: list[Cache] = []
        self._histories: OrderedDict[tuple[str, NamespacedName], deque[Record]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def attached(self, cache: Cache) -> None:
        """Remember the cache: it knows how an object is now."""
        self._caches.append(cache)

    def controller(self, name: str, workers: int) -> NoControllerObserver:
        """Return what hears of a controller."""
        return _Recording(self)

    def note_writes(self, transport: Transport) -> Transport:
        """Return a transport like this one that notes writes in the reconcile that sends them."""
        return _NotingTransport(transport, self._clock)

    def add(self, attempt: Attempt) -> None:
        """Record a reconcile that ended."""
        key = (attempt.controller, attempt.key)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = deque()
        else:
            self._histories.move_to_end(key)
        record = Record(attempt, self._clock.now())
        if history and history[-1].is_idle and record.is_idle:
            record.repeats = history.pop().repeats + 1
            self._count -= 1
        elif len(history) >= self._per_object:
            history.popleft()
            self._count -= 1
        history.append(record)
        self._count += 1
        while self._count > self._total:
            self._forget_oldest()

    def find(self, *, kind: str = "", namespace: str = "", name: str = "") -> list[list[Record]]:
        """Return the histories of objects, the one reconciled last first; empty texts match all.

        A kind is named as kubectl takes it: `Deployment`, `deployments` or `deployments.apps`.
        """
        return [
            [*history]
            for (_, key), history in reversed(self._histories.items())
            if name in ("", key.name)
            and namespace in ("", key.namespace)
            and is_kind(history[-1].attempt.resource, kind)
        ]

    def answer(self, query: Mapping[str, str]) -> Answer:
        """Answer `/debug/reconciles?kind=…&namespace=…&name=…` with JSON."""
        found = self.find(
            kind=query.get("kind", ""),
            namespace=query.get("namespace", ""),
            name=query.get("name", ""),
        )
        told = [self._describe(history) for history in found[:_MOST_OBJECTS]]
        body = {"objects": told, "more": max(len(found) - _MOST_OBJECTS, 0)}
        return Answer(200, msgspec.json.encode(body).decode(), "application/json")

    def _forget_oldest(self) -> None:
        key = next(iter(self._histories))
        history = self._histories[key]
        history.popleft()
        self._count -= 1
        if not history:
            del self._histories[key]

    def _describe(self, history: list[Record]) -> dict[str, Any]:
        last = history[-1].attempt
        entry = self._find_entry(last.resource, last.key)
        wants = (r.attempt.wanted for r in reversed(history) if r.attempt.wanted is not None)
        kinds = {(r.group, r.plural): r.kind for r in self._resources()}
        return {
            "controller": last.controller,
            "group": last.resource.group,
            "kind": last.resource.kind,
            "namespace": last.key.namespace,
            "name": last.key.name,
            **describe_object(entry),
            "wanted": next(wants, None),
            "reconciles": [describe_record(record, kinds) for record in reversed(history)],
        }

    def _resources(self) -> Iterator[Resource]:
        for cache in self._caches:
            for reflector in cache.reflectors:
                yield reflector.store.resource

    def _find_entry(self, resource: Resource, key: NamespacedName) -> Entry | None:
        for cache in self._caches:
            for reflector in cache.reflectors:
                if reflector.store.resource == resource and (entry := reflector.store.get(key)):
                    return entry
        return None


def is_kind(resource: Resource, name: str) -> bool:
    """Tell whether a kind is meant by a name, in capitals or not; an empty name means all."""
    names = (resource.kind, resource.plural, resource.group_resource)
    return not name or name.lower() in {each.lower() for each in names}


def describe_object(entry: Entry | None) -> dict[str, Any]:
    """Describe how an object is now: what its conditions say, and nothing of what it holds."""
    if entry is None:
        return {"exists": False}
    status = entry.object().get("status")
    status = status if isinstance(status, dict) else {}
    return {
        "exists": True,
        "deleting": entry.meta.is_deleting,
        "generation": entry.meta.generation,
        "observedGeneration": status.get("observedGeneration"),
        "conditions": status.get("conditions") or [],
    }


def describe_record(record: Record, kinds: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Describe one reconcile; `kinds` names the kinds of resources by group and plural."""
    attempt = record.attempt
    return {
        "id": attempt.id,
        "ended": format_micro_time(record.ended),
        "seconds": round(attempt.seconds, 6),
        "outcome": attempt.outcome.value,
        "failure": attempt.failure,
        "failures": attempt.failures,
        "retryAfter": attempt.retry_after,
        "triggers": [str(trigger) for trigger in attempt.triggers],
        "versions": dict(attempt.versions),
        "waited": attempt.waited,
        "settled": attempt.settled,
        "plan": attempt.steps,
        "writes": [
            {
                "verb": write.verb,
                "object": describe_path(write.path, kinds),
                "answer": write.answer,
                "seconds": round(write.seconds, 6),
            }
            for write in attempt.writes or ()
        ],
        "repeats": record.repeats,
    }


def describe_path(path: str, kinds: Mapping[tuple[str, str], str]) -> str:
    """Write the path of an object as people name it: `Deployment team-a/web (status)`."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = f"{rest[1]}/", rest[2:]
    kind = kinds.get((group, rest[0]), f"{rest[0]}.{group}" if group else rest[0])
    name = rest[1] if len(rest) > 1 else "?"
    subresource = f" ({rest[2]})" if len(rest) > 2 else ""
    return f"{kind} {namespace}{name}{subresource}"


class _Recording(NoControllerObserver):
    def __init__(self, records: ReconcileRecords) -> None:
        self._records = records

    def reconciled(self, attempt: Attempt) -> None:
        self._records.add(attempt)


class _Named(msgspec.Struct):
    metadata: dict[str, Any]


class _NotingTransport(PassingTransport):
    """Pass requests on, and note the writes of the reconcile that the running code belongs to."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        attempt = current_attempt.get() if method in _VERBS else None
        send = self._inner.request(method, path, query=query, headers=headers, body=body)
        if attempt is None:
            return await send
        began, answer = self._clock.monotonic(), "no answer"
        try:
            response = await send
            answer = str(response.status)
            return response
        except TransportError as error:
            answer = str(error)
            raise
        finally:
            seconds = self._clock.monotonic() - began
            target = f"{path}/{_name_of(body)}" if method == "POST" else path
            note_write(attempt, Write(_verb_of(method, headers), target, answer, seconds))


def note_write(attempt: Attempt, write: Write) -> None:
    """Note a write of a reconcile; of very many the first ones and the last one."""
    if attempt.writes is None:
        attempt.writes = []
    if len(attempt.writes) < _MOST_WRITES:
        attempt.writes.append(write)
    else:
        attempt.writes[-1] = write


def _verb_of(method: str, headers: Mapping[str, str]) -> str:
    is_apply = method == "PATCH" and "apply-patch" in find_header(headers, "Content-Type")
    return "apply" if is_apply else _VERBS[method]


def _name_of(body: bytes) -> str:
    """Return the name in the body of a create; the path of the collection does not have it."""
    try:
        metadata = msgspec.json.decode(body, type=_Named).metadata
    except msgspec.MsgspecError:
        return "?"
    names: Iterable[object] = (metadata.get("name"), metadata.get("generateName"))
    return next((str(name) for name in names if name), "?")
