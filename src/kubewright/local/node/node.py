"""The node agent: registers a Node, keeps its lease, and runs the pods that are bound to it.

An ordinary client of whatever API server it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random

from kubewright.api.builtin import LEASE, NODE, POD, SERVICE
from kubewright.api.errors import AlreadyExists, KubewrightError, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_micro_time, format_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, Entry
from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.requests import PatchType
from kubewright.local.network.cluster_network import ClusterNetwork
from kubewright.local.network.service_routes import Backend
from kubewright.local.node.endpoint_access import EndpointAccess
from kubewright.local.node.events import PodRecorder
from kubewright.local.node.log_server import EndpointPart, LogServer
from kubewright.local.node.log_source import LogRefused, LogSource, choose_attempt
from kubewright.local.node.machine import read_facts
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.node_status import (
    NodeFacts,
    build_annotations,
    build_lease,
    build_node,
)
from kubewright.local.node.pod_worker import PodWorker
from kubewright.local.node.runtime import PodRuntime, RunningContainer
from kubewright.local.node.shared_reads import SharedReads
from kubewright.local.node.stats_server import RunningPod, StatsServer
from kubewright.local.node.stream_refused import StreamRefused
from kubewright.local.node.stream_server import StreamServer
from kubewright.local.storage.provisioner import Provisioner
from kubewright.runtime.context import Environment
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventBroadcaster

_logger = logging.getLogger(__name__)

RENEW_SECONDS = 10.0
REPORT_SECONDS = 300.0
RESTART_SECONDS = 1.0
LOOPBACK = "127.0.0.1"
LOST = (
    "the process that holds the pod network has ended, and all pods with it: start the node again"
)


class RuntimeLost(KubewrightError):
    """The runtime can no longer run pods; the node must be started again."""


class Node:
    """One node of a cluster.

    `folder` holds volumes and logs, and `node.json`, which tells how to enter the pod network. A
    `cache` that is given is run by whoever gave it. `access` decides who may read logs; without one
    nobody may. `address` is where the endpoint listens: the API server must reach it. `volumes` is
    where persistent volumes are made, by default below `folder`. `api_server` is where the API is
    served, for pods to reach it. `heartbeats` carries what keeps the node alive: it waits for no
    pod.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        runtime: PodRuntime,
        folder: Path,
        *,
        cache: Cache | None = None,
        access: EndpointAccess | None = None,
        address: str = LOOPBACK,
        volumes: Path | None = None,
        api_server: Backend | None = None,
        heartbeats: Client | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._api_server = api_server
        self._client = client
        self._heartbeats = heartbeats or client
        self._runtime = runtime
        self._folder = folder
        self._clock = clock or SystemClock()
        self._own_cache = cache is None
        self._cache = cache or Cache(client, clock=self._clock)
        self._address = address
        parts: list[EndpointPart] = [StreamServer(self), StatsServer(self, self._clock)]
        self._server = LogServer(self, access or EndpointAccess(), self._clock, parts=parts)
        self._broadcaster = EventBroadcaster(client, clock=self._clock)
        self._store = self._cache.store(POD, fields={"spec.nodeName": name})
        self._services = self._cache.store(SERVICE)
        self._provisioner = self._build_provisioner(volumes or folder / "volumes")
        self._workers: dict[str, PodWorker] = {}
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        self._node: Object = {}
        self._context = NodeContext(
            name=name,
            folder=folder,
            client=client,
            runtime=runtime,
            clock=self._clock,
            recorder=PodRecorder("kubelet", self._broadcaster.record, instance=name),
            reads=SharedReads(client),
            services=lambda: [entry.object() for entry in self._services.list()],
            node=lambda: self._node,
            pods=lambda: [entry.object() for entry in self._store.list()],
            cluster_dns=lambda: self._network.dns_address if self._network else "",
            wait_left=self._wait_left,
        )
        self._network = self._build_network()

    async def _wait_left(self, address: str, seconds: float) -> None:
        if self._network is not None and address:
            await self._network.wait_left(address, seconds)

    def _build_network(self) -> ClusterNetwork | None:
        if self._runtime.network is None:
            return None
        return ClusterNetwork(
            self._client,
            self._cache,
            self._runtime.network,
            self.name,
            self._folder,
            clock=self._clock,
            recorder=self._context.recorder,
            api_server=self._api_server,
        )

    def _build_provisioner(self, folder: Path) -> list[Controller]:
        environment = Environment(
            self._client, self._cache, self._clock, Random(), self._broadcaster
        )
        controllers = Provisioner(self.name, folder).build_controllers()
        for controller in controllers:
            controller.attach(environment)
        return controllers

    async def run(self) -> None:
        """Run the node until cancelled; its pods end with it.

        Raises:
            ConfigurationError: the runtime cannot be had on this machine.
            RuntimeLost: the runtime ended by itself.
        """
        await self._runtime.start()
        try:
            port = await self._server.start(self._address)
            await asyncio.to_thread(self._write_facts, port)
            facts = await asyncio.to_thread(
                read_facts, self.name, self._runtime, self._address, port
            )
            await self._run_tasks(facts)
        except ExceptionGroup as group:
            if group.subgroup(RuntimeLost) is not None:
                raise RuntimeLost(LOST) from group
            raise
        finally:
            await self._runtime.stop()
            await self._server.stop()

    async def _run_tasks(self, facts: NodeFacts) -> None:
        async with asyncio.TaskGroup() as group:
            if self._own_cache:
                group.create_task(self._cache.run(), name="cache")
            group.create_task(self._broadcaster.run(), name="events")
            group.create_task(self._watch_runtime(), name="runtime")
            group.create_task(self._keep_alive(facts), name="lease")
            if self._network is not None:
                await self._network.prepare()
                group.create_task(self._network.run(), name="network")
            await self._run_pods(group)

    async def wait_ready(self) -> None:
        """Wait until the node is registered and knows its pods."""
        await self._ready.wait()

    def _write_facts(self, port: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        facts = {
            "name": self.name,
            "pid": os.getpid(),
            "endpoint": f"https://{self._address}:{port}",
            "enter": self._runtime.enter_command(),
            "podCIDR": self._runtime.pod_cidr,
        }
        target = self._folder / "node.json"
        staged = target.with_suffix(".new")
        staged.write_text(json.dumps(facts, indent=1) + "\n")
        staged.replace(target)

    async def _watch_runtime(self) -> None:
        await self._runtime.wait()
        raise RuntimeLost(LOST)

    # --- pods ---

    async def _run_pods(self, group: asyncio.TaskGroup) -> None:
        self._store.subscribe(self._note_change)
        await self._cache.wait_synced()
        known = {entry.meta.uid for entry in self._store.list()}
        await self._runtime.drop_others(known)
        await asyncio.to_thread(self._drop_leftovers, known)
        for controller in self._provisioner:
            group.create_task(controller.run(), name=controller.name)
        while True:
            self._changed.clear()
            entries = {entry.meta.uid: entry for entry in self._store.list()}
            for uid, entry in entries.items():
                self._take(group, uid, entry)
            for uid in self._workers.keys() - entries.keys():
                self._workers[uid].forget()
            await self._changed.wait()

    def _note_change(self, change: Change) -> None:
        self._changed.set()

    def _take(self, group: asyncio.TaskGroup, uid: str, entry: Entry) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            worker = PodWorker(self._context, entry.object())
            self._workers[uid] = worker
            group.create_task(self._work(worker), name=f"pod {worker.key}")
        elif worker.pod["metadata"].get("resourceVersion") != entry.meta.resource_version:
            worker.update(entry.object())

    async def _work(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # One pod's trouble must not end the others. Its containers are ended, and it begins
            # again from what the API says.
            _logger.exception("the worker of pod %s failed", worker.key)
            await worker.abandon()
            await self._clock.sleep(RESTART_SECONDS)
        finally:
            del self._workers[worker.uid]
            self._changed.set()

    def _drop_leftovers(self, known: Collection[str]) -> None:
        """Remove the folders of pods that are gone, from a run of this node that was killed."""
        folder = self._folder / "pods"
        logs = self._folder / "logs"
        for entry in [*list_folder(folder), *list_folder(logs)]:
            if entry.name.rpartition("_")[2] not in known:
                shutil.rmtree(entry, ignore_errors=True)

    # --- the Node object ---

    async def _keep_alive(self, facts: NodeFacts) -> None:
        """Register, then renew the lease, and report the status from time to time."""
        reported = float("-inf")
        while True:
            try:
                if self._clock.monotonic() - reported >= REPORT_SECONDS:
                    await self._report(facts)
                    if reported < 0:
                        self._tell_limits(facts)
                    reported = self._clock.monotonic()
                await self._renew()
                self._ready.set()
            except NotFound:
                reported = float("-inf")
            except KubewrightError as error:
                _logger.warning("node %s could not report: %s", self.name, error)
            await self._clock.sleep(RENEW_SECONDS if self._ready.is_set() else 1.0)

    async def _report(self, facts: NodeFacts) -> None:
        """Create the Node, or bring one that is there up to date."""
        now = format_time(self._clock.now())
        try:
            self._node = await self._heartbeats.create(build_node(facts, now=now))
        except AlreadyExists:
            known = await self._heartbeats.get(NODE, self.name)
            before = (known.get("status") or {}).get("conditions") or ()
            node = build_node(facts, now=now, before=before)
            metadata = {key: node["metadata"][key] for key in ("labels", "annotations")}
            await self._patch_node({"metadata": metadata})
            self._node = await self._patch_node({"status": node["status"]}, subresource="status")

    def _tell_limits(self, facts: NodeFacts) -> None:
        """Tell, as Events about the node, in what it is less than another node."""
        for note in build_annotations(facts).values():
            self._context.recorder.event(self._node, "Normal", "NodeLimits", note)

    async def _patch_node(self, body: Object, *, subresource: str | None = None) -> Object:
        return await self._heartbeats.patch(
            NODE, self.name, body, type=PatchType.STRATEGIC, subresource=subresource
        )

    async def _renew(self) -> None:
        lease = build_lease(self._node, now=format_micro_time(self._clock.now()))
        metadata = lease["metadata"]
        try:
            await self._heartbeats.patch(
                LEASE,
                metadata["name"],
                {"spec": lease["spec"]},
                type=PatchType.MERGE,
                namespace=metadata["namespace"],
            )
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                await self._heartbeats.create(lease)

    # --- the endpoint ---

    @property
    def runtime(self) -> PodRuntime:
        """What runs the containers."""
        return self._runtime

    def find_container(self, key: NamespacedName, container: str) -> RunningContainer:
        """Find a container that runs.

        Raises:
            StreamRefused: there is none; worded as the kubelet words it.
        """
        worker = self._find_worker(key)
        record = next((r for r in worker.records if r.name == container), None)
        if record is None or record.container is None or not record.is_running:
            raise StreamRefused(500, f'container not found ("{container}")')
        return record.container

    def pods(self) -> list[Object]:
        """Return the pods of the node with their latest status."""
        pods = []
        for worker in self._workers.values():
            status = {**(worker.pod.get("status") or {}), **worker.build_status()}
            pods.append({**worker.pod, "status": status})
        return pods

    def running_pods(self) -> list[RunningPod]:
        """Return the pods that have containers running."""
        found = []
        for worker in self._workers.values():
            records = [record for record in worker.records if record.is_running]
            containers = [r.container for r in records if r.container is not None]
            if containers:
                found.append(RunningPod(worker.pod, containers))
        return found

    def find_address(self, key: NamespacedName) -> str:
        """Find the address of a pod.

        Raises:
            StreamRefused: there is no such pod, or it has no address yet.
        """
        address = self._find_worker(key).build_status().get("podIP")
        if not address:
            raise StreamRefused(500, f"pod {key.name} is not running")
        return str(address)

    def _find_worker(self, key: NamespacedName) -> PodWorker:
        worker = next((w for w in self._workers.values() if w.key == key), None)
        if worker is None:
            raise StreamRefused(404, "pod does not exist")
        return worker

    def find_log(self, key: NamespacedName, container: str, *, previous: bool) -> LogSource:
        """Find the log of a container of a pod.

        Raises:
            LogRefused: there is none.
        """
        worker = next((w for w in self._workers.values() if w.key == key), None)
        if worker is None:
            raise LogRefused(404, f'pod "{key.name}" not found')
        record = next((r for r in worker.records if r.name == container), None)
        if record is None:
            raise LogRefused(404, f"container {container} not found in pod {key.name}")
        attempt = choose_attempt(key.name, record, previous=previous)

        def is_running() -> bool:
            still = record.container is not None and record.container.config.attempt == attempt
            return still and not previous

        path = self._context.log_path(key, worker.uid, container, attempt)
        return LogSource(path, is_running)


def list_folder(folder: Path) -> list[Path]:
    """List what is in a folder, if there is such a folder."""
    return list(folder.iterdir()) if folder.is_dir() else []


def list_nodes_to_enter(folder: Path) -> Sequence[Object]:
    """Return the facts of the nodes whose folders are in `folder`: how to enter their networks."""
    found = []
    for file in sorted(folder.glob("*/node.json")):
        facts: Object = json.loads(file.read_text())
        found.append(facts)
    return found
