"""A reconcile is a span, its writes are spans below it, and nothing is loaded unasked."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError, Conflict, NotFound
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.telemetry.traces import Traces, build_provider, resource_of
from tests.telemetry.running import run_manager


class Tracing:
    """A provider whose spans are kept."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.traces = Traces(self.provider)

    def find(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


async def test_a_reconcile_is_a_span_with_its_writes_and_the_users_spans_below() -> None:
    tracing = Tracing()
    ids: list[str] = []
    outcomes = [Conflict("raced"), ValueError("Bearer 0123456789"), None]
    done = asyncio.Event()

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        if key.name != "target" or not outcomes:
            return
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        assert ctx.attempt is not None
        ids.append(ctx.attempt.id)
        with tracing.provider.get_tracer("user").start_as_current_span("user span"):
            metadata = {"name": "made", "namespace": "default"}
            await ctx.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        with pytest.raises(NotFound):
            await ctx.delete(builtin.CONFIG_MAP, NamespacedName("default", "other"))
        done.set()

    async with serve(ServerOptions(listening=False)) as server:
        client = Client(tracing.traces.trace_writes(server.client_transport()))
        meta = {"name": "target", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        manager = Manager(client, observer=tracing.traces, namespaces=["default"])
        manager.add(Controller("c", builtin.SECRET, reconcile))
        async with run_manager(manager):
            async with asyncio.timeout(5):
                await done.wait()
            await asyncio.sleep(0.05)

    reconciles = [
        span
        for span in tracing.find("reconcile Secret")
        if (span.attributes or {})["kubewright.object.name"] == "target"
    ]
    raced, failed, done_span = reconciles[:3]
    assert raced.status.status_code is StatusCode.UNSET
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.status.description or "").startswith("ValueError: Bearer *** (")
    assert done_span.attributes is not None
    assert dict(done_span.attributes) == {
        "kubewright.controller": "c",
        "kubewright.reconcile_id": ids[0],
        "kubewright.object.kind": "Secret",
        "kubewright.object.name": "target",
        "kubewright.outcome": "success",
        "k8s.namespace.name": "default",
    }
    (user,) = tracing.find("user span")
    (created,) = tracing.find("POST configmaps")
    (deleted,) = tracing.find("DELETE configmaps")
    assert parent_of(user) == parent_of(deleted) == done_span.context.span_id
    assert parent_of(created) == user.context.span_id
    assert (created.attributes or {})["http.response.status_code"] == 201
    assert deleted.status.status_code is StatusCode.ERROR


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/a/pods", "pods"),
        ("/api/v1/namespaces/a/pods/b", "pods"),
        ("/apis/apps/v1/namespaces/a/deployments/b/status", "deployments/status"),
        ("/api/v1/nodes/a", "nodes"),
        ("/api/v1/namespaces/a", "namespaces"),
    ],
)
def test_names_of_objects_are_not_in_names_of_spans(path: str, resource: str) -> None:
    assert resource_of(path) == resource


def test_without_an_exporter_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)

    with pytest.raises(ConfigurationError, match="install opentelemetry-exporter-otlp-proto-http"):
        build_provider("operator")


def test_a_provider_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    assert build_provider("operator") is provider


def test_opentelemetry_is_not_loaded_unasked() -> None:
    code = (
        "import sys, kubewright.telemetry\n"
        "from kubewright.cli.probes import Probes\n"
        "Probes.parse(':0', ':0', '127.0.0.1:0').observer\n"
        "print('opentelemetry' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"
