"""The last reconciles of each object are kept: bounded, as text, without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.errors import TransportError
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import NO_HEADERS, Query, Response, Transport
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.attempt import Attempt, Outcome, Write, current_attempt
from kubewright.runtime.manager import Manager
from kubewright.runtime.operator import Operator
from kubewright.telemetry.reconcile_records import (
    ReconcileRecords,
    describe_path,
    is_kind,
    note_write,
)
from tests.runtime.conftest import eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.telemetry.running import run_manager


def build_attempt(name: str = "a", *steps: str, resource: Resource = builtin.SECRET) -> Attempt:
    key = NamespacedName("default", name)
    attempt = Attempt("c", resource, key, started=0.0, ids=Random(0))
    attempt.steps = steps
    return attempt


def names(records: ReconcileRecords, **query: str) -> list[str]:
    return [history[0].attempt.key.name for history in records.find(**query)]


def test_keeps_the_last_ones_of_an_object() -> None:
    records = ReconcileRecords(per_object=3)
    for number in range(10):
        records.add(build_attempt("a", f"step {number}"))

    (history,) = records.find()

    assert [record.attempt.steps for record in history] == [("step 7",), ("step 8",), ("step 9",)]
    assert len(records) == 3


def test_forgets_the_objects_that_were_worked_on_longest_ago() -> None:
    records = ReconcileRecords(per_object=3, total=4)
    for name in ("a", "b", "c", "a", "d", "e"):
        records.add(build_attempt(name, "step"))

    assert names(records) == ["e", "d", "a"]
    assert len(records) == 4


def test_reconciles_that_did_nothing_are_one_record_and_push_out_nothing() -> None:
    records = ReconcileRecords(per_object=2)
    records.add(build_attempt("a", "create it"))
    for _ in range(100):
        records.add(build_attempt("a"))

    (history,) = records.find()

    assert [(record.attempt.steps, record.repeats) for record in history] == [
        (("create it",), 0),
        ((), 99),
    ]


def test_a_failure_is_never_idle() -> None:
    records = ReconcileRecords()
    for _ in range(2):
        attempt = build_attempt()
        attempt.outcome, attempt.failure = Outcome.ERROR, "refused"
        records.add(attempt)

    assert len(records) == 2


@pytest.mark.parametrize("kind", ["Deployment", "deployment", "deployments", "deployments.apps"])
def test_finds_a_kind_as_kubectl_names_it(kind: str) -> None:
    assert is_kind(builtin.DEPLOYMENT, kind)
    assert not is_kind(builtin.SECRET, kind)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/api/v1/namespaces/team-a/configmaps/web", "ConfigMap team-a/web"),
        ("/apis/apps/v1/namespaces/a/deployments/web/status", "Deployment a/web (status)"),
        ("/api/v1/nodes/one", "nodes one"),
        ("/api/v1/namespaces/team-a", "namespaces team-a"),
        ("/apis/example.com/v1/widgets/b%3Ac", "widgets.example.com b:c"),
    ],
)
def test_a_path_is_told_as_people_name_the_object(path: str, text: str) -> None:
    kinds = {("", "configmaps"): "ConfigMap", ("apps", "deployments"): "Deployment"}

    assert describe_path(path, kinds) == text


def test_of_very_many_writes_the_first_and_the_last_are_kept() -> None:
    attempt = build_attempt()
    for number in range(1000):
        note_write(attempt, Write("apply", f"/api/v1/nodes/{number}", "200", 0.0))

    assert attempt.writes is not None
    assert len(attempt.writes) == 64
    assert attempt.writes[-1].path.endswith("/999")


class Answering:
    """Answer 201, or nothing."""

    is_open = True

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if not self.is_open:
            raise TransportError("cut off")
        return Response(201)

    def stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """Hold nothing."""


async def test_notes_the_writes_of_the_reconcile_that_sends_them() -> None:
    inner = Answering()
    transport: Transport = ReconcileRecords().note_writes(inner)
    attempt = build_attempt()
    apply = {"Content-Type": "application/apply-patch+yaml"}
    await transport.request("DELETE", "/api/v1/pods/before")
    token = current_attempt.set(attempt)
    try:
        await transport.request("GET", "/api/v1/pods/a")
        await transport.request("POST", "/api/v1/pods", body=b'{"metadata":{"name":"made"}}')
        await transport.request("POST", "/api/v1/pods", body=b"\x00")
        await transport.request("PATCH", "/api/v1/pods/a", headers=apply)
        inner.is_open = False
        with pytest.raises(TransportError):
            await transport.request("PATCH", "/api/v1/pods/a")
    finally:
        current_attempt.reset(token)

    assert attempt.writes is not None
    assert [(write.verb, write.path, write.answer) for write in attempt.writes] == [
        ("create", "/api/v1/pods/made", "201"),
        ("create", "/api/v1/pods/?", "201"),
        ("apply", "/api/v1/pods/a", "201"),
        ("patch", "/api/v1/pods/a", "cut off"),
    ]


async def test_tells_what_an_object_wants_and_what_was_done_and_keeps_secrets() -> None:
    operator = Operator("keeper")

    @operator.desired(Pool, owns=[builtin.SECRET, builtin.CONFIG_MAP])
    def children(pool: Pool) -> Iterable[Object]:
        data = {"password": "aHVudGVyMi1odW50ZXIy"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}}
        yield {**secret, "data": data, "stringData": {"other": "hunter2-hunter2"}}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}

    records = ReconcileRecords()
    async with serve(ServerOptions(listening=False)) as server:
        client = Client(records.note_writes(server.client_transport()))
        await build_operator().ensure_crds(client)
        await client.create(build_pool("default"))
        manager = Manager(client, observer=records, namespaces=["default"])
        operator.add_to(manager)
        async with run_manager(manager):
            await eventually(lambda: is_ready(client))
            # Change what is in the Secret, so that a plan has to put it right.
            spoiled = {"data": {"password": "c3BvaWxlZC1zcG9pbGVk"}}
            await client.patch(
                builtin.SECRET, "login", spoiled, type=PatchType.MERGE, namespace="default"
            )
            await eventually(lambda: was_repaired(records))
            answer = records.answer({"kind": "pool", "name": "pool", "namespace": "default"})

    (told,) = json.loads(answer.text)["objects"]
    for text in ("hunter2", "aHVudGVyMi1odW50ZXIy", "c3BvaWxlZC1zcG9pbGVk"):
        assert text not in answer.text
    assert (told["kind"], told["exists"], told["generation"]) == ("Pool", True, 1)
    assert told["wanted"] == ["Secret default/login", "ConfigMap default/settings"]
    first = told["reconciles"][-1]
    assert first["plan"][0].startswith("create Secret default/login: it does not exist")
    written = [(write["verb"], write["object"], write["answer"]) for write in first["writes"]]
    assert ("apply", "Secret default/login", "201") in written
    assert ("apply", "Pool default/pool (status)", "200") in written
    assert first["versions"]["Pool default/pool"]
    woken = [trigger for record in told["reconciles"] for trigger in record["triggers"]]
    assert any(trigger.startswith("MODIFIED Secret default/login at") for trigger in woken)


async def is_ready(client: Client) -> bool:
    pool = await client.get(Pool.resource, "pool", namespace="default")
    conditions = (pool.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def was_repaired(records: ReconcileRecords) -> bool:
    (history,) = records.find(kind="pool")
    return any("apply Secret" in step for record in history for step in record.attempt.steps)
