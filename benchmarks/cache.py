"""Measure a cache of many objects beside one of plain dicts, in one run, and print a table.

    python benchmarks/cache.py [--objects 50000] [--events 20000]

A process serves Deployments of 2.3 KB from memory; each form of the cache reads them in a process
of its own. Columns: CPU seconds from the first request until all objects are held, memory that
this took, the longest time for which the event loop was blocked, CPU per event of a watch.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api import builtin
from kubewright.cache import Cache
from kubewright.client import Client, HTTPTransport, event_loop
from kubewright.client.objects import decode_object

PAGE = 500
BATCH = 20
"""Events that a busy server sends at once."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def build_object(number: int, version: int) -> bytes:
    """Build a Deployment as a server has it, with managedFields: 2.3 KB."""
    name = f"web-{number}"
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "someone"}
    container = {
        "name": "main",
        "image": f"registry.example/team/web:{number}",
        "env": [{"name": f"KEY_{key}", "value": f"{name}-{key}"} for key in range(10)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "terminationMessagePath": "/dev/termination-log",
    }
    fields: dict[str, Any] = {
        f"f:field{key}": {".": {}, "f:inner": {}, "f:other": {}} for key in range(16)
    }
    entry = {"manager": "someone", "operation": "Apply", "fieldsType": "FieldsV1"}
    metadata = {
        "name": name,
        "namespace": f"team-{number % 50}",
        "uid": f"0b0e7f2e-0000-4000-8000-{number:012d}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        "managedFields": [{**entry, "fieldsV1": fields}],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}
    return msgspec.json.encode(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
    )


class Server:
    """Serve lists in pages, and watches whose changes come when they are asked for."""

    def __init__(self, objects: int, events: int) -> None:
        self._objects = [build_object(number, number + 1) for number in range(objects)]
        self._events = events
        self._asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                line = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
                if b"watch=true" in line:
                    await self._watch(writer, initial=b"sendInitialEvents" in line)
                elif line == b"/change":
                    self._asked.set()
                    writer.write(HEAD + b"Content-Length: 2\r\n\r\n{}")
                else:
                    self._list(writer, line)
                await writer.drain()
        writer.close()

    def _list(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        token = line.partition(b"continue=")[2].partition(b"&")[0]
        start = int(token or 0)
        end = start + PAGE
        more = f'"continue":"{end}",' if end < len(self._objects) else ""
        version = len(self._objects)
        head = f'{{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{{{more}'
        head += f'"resourceVersion":"{version}"}},"items":['
        body = head.encode() + b",".join(self._objects[start:end]) + b"]}"
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _watch(self, writer: asyncio.StreamWriter, *, initial: bool) -> None:
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        version = len(self._objects)
        if initial:
            await self._send(writer, b"ADDED", self._objects)
            end = (
                b'{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"resourceVersion":"%d",'
                b'"annotations":{"k8s.io/initial-events-end":"true"}}}' % version
            )
            await self._send(writer, b"BOOKMARK", [end])
        await self._asked.wait()
        changes = range(self._events)
        changed = [build_object(number % version, version + number + 1) for number in changes]
        await self._send(writer, b"MODIFIED", changed)
        await asyncio.Event().wait()

    async def _send(self, writer: asyncio.StreamWriter, type: bytes, objects: list[bytes]) -> None:
        for start in range(0, len(objects), BATCH):
            for raw in objects[start : start + BATCH]:
                event = b'{"type":"%s","object":%s}\n' % (type, raw)
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()


async def serve(objects: int, events: int) -> None:
    """Serve until the end of standard input."""
    served = await asyncio.start_server(Server(objects, events).serve, "127.0.0.1", 0)
    print(served.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


def resident() -> float:
    """Return the memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def watch_stalls(longest: list[float]) -> None:
    """Note the longest time for which the loop came back late."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        longest[0] = max(longest[0], time.perf_counter() - began - 0.001)


@contextlib.asynccontextmanager
async def holding(client: Client, form: str, events: int) -> AsyncIterator[Callable[[], bool]]:
    """Hold all Deployments in one form; yield whether the last change is there."""
    if form == "dicts":
        async with holding_dicts(client, events) as has_all:
            yield has_all
        return
    cache = Cache(client, watch_list=form.endswith("WatchList"))
    store = cache.store(builtin.DEPLOYMENT)
    running = asyncio.create_task(cache.run())
    await cache.wait_synced()
    last = len(store) + events
    yield lambda: int(store.resource_version or 0) >= last
    running.cancel()
    await asyncio.wait((running,))


@contextlib.asynccontextmanager
async def holding_dicts(client: Client, events: int) -> AsyncIterator[Callable[[], bool]]:
    """Hold decoded objects, as most clients do."""
    held: dict[tuple[str, str], dict[str, Any]] = {}
    version = "0"
    async for page in client.list_pages(builtin.DEPLOYMENT, limit=PAGE):
        for item in page.items:
            held[item.meta.key] = decode_object(item.raw)
        version = page.resource_version
    seen = int(version)
    last = seen + events

    async def follow() -> None:
        nonlocal seen
        async with client.watch(builtin.DEPLOYMENT, resource_version=version) as changes:
            async for change in changes:
                held[change.meta.key] = decode_object(change.raw)
                seen = int(change.meta.resource_version)

    following = asyncio.create_task(follow())
    yield lambda: seen >= last
    following.cancel()
    await asyncio.wait((following,))


async def measure(port: int, form: str, events: int) -> dict[str, float]:
    """Measure one form against a server."""
    longest = [0.0]
    stalls = asyncio.create_task(watch_stalls(longest))
    client = Client(HTTPTransport(f"http://127.0.0.1:{port}"))
    gc.collect()
    memory, began = resident(), time.process_time()
    async with holding(client, form, events) as has_all:
        listed, held, stall = time.process_time() - began, resident() - memory, longest[0]
        began = time.process_time()
        await client.request("GET", "/change")
        await until(has_all)
        watched = time.process_time() - began
    stalls.cancel()
    await client.close()
    return {
        "list_cpu_s": listed,
        "mib": held,
        "stall_ms": stall * 1000,
        "us_per_event": watched / events * 1e6,
    }


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - a store tells nobody that it reached a version
        await asyncio.sleep(0.01)


def run_form(form: str, objects: int, events: int) -> dict[str, float]:
    """Run one form in a process of its own, with a server of its own."""
    base = [sys.executable, __file__, "--objects", str(objects), "--events", str(events)]
    with subprocess.Popen(
        [*base, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        done = subprocess.run(
            [*base, "--form", form, "--port", port], capture_output=True, text=True, check=True
        )
        server.kill()
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure all forms and print the table, or be one of the processes."""
    parser = argparse.ArgumentParser(description="Measure caches side by side.")
    parser.add_argument("--objects", type=int, default=50_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--form", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.objects, options.events))
        return
    if options.form:
        event_loop.calm_collector()
        figures = event_loop.run(measure(options.port, options.form, options.events))
        print(json.dumps(figures))
        return
    print(f"{options.objects} Deployments in a cache, then {options.events} changes\n")
    print("| cache | list CPU s | MiB | longest stall ms | watch µs per event |")
    print("|---|---|---|---|---|")
    for form in ("dicts", "Cache, pages", "Cache, WatchList"):
        figures = run_form(form, options.objects, options.events)
        texts = [
            f"{figures['list_cpu_s']:.2f}",
            f"{figures['mib']:.0f}",
            f"{figures['stall_ms']:.0f}",
            f"{figures['us_per_event']:.1f}",
        ]
        print(f"| {form} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main()
