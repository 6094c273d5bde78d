"""The aggregated groups of an API server: known from APIServices, checked, discovered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from kubewright.api.conditions import Condition, find_condition
from kubewright.api.errors import KubewrightError
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.aggregation.api_service import (
    AggregatedVersion,
    build_condition,
    check_service,
    with_condition,
)
from kubewright.local.apiserver.aggregation.discovered import (
    AGGREGATED,
    build_empty,
    convert_resources,
    read_version,
)
from kubewright.local.apiserver.aggregation.proxy import AggregatedProxy, CheckFailed
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.exchange import Answer, Request
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.store import Change, KeyMissing, RevisionMismatch

CHECK_PERIOD = 30.0
RETRY_PERIOD = 1.0
_GROUP = "apiregistration.k8s.io"
_PREFIX = key_prefix(_GROUP, "apiservices")
_SERVICES = key_prefix("", "services")
_SLICES = key_prefix("discovery.k8s.io", "endpointslices")

_logger = logging.getLogger(__name__)


class Aggregator:
    """Finds who serves a group version, and passes requests on.

    `generation` changes with what discovery shows. Everything is read from the store, so that an
    APIService counts from the moment in which it was written.
    """

    def __init__(self, backend: Backend, proxy: AggregatedProxy) -> None:
        self._backend = backend
        self._proxy = proxy
        self._versions: dict[tuple[str, str], AggregatedVersion] = {}
        self._discovered: dict[tuple[str, str], Object] = {}
        self._changed = asyncio.Event()
        # The beginnings of the keys that a check reads: every write is compared with them.
        self._read: tuple[str, ...] = ()
        self.generation = 0

    def find(self, group: str, version: str) -> AggregatedVersion | None:
        """Return the group version if another API server serves it."""
        return self._versions.get((group, version))

    def groups(self) -> list[str]:
        """Return the groups that other API servers serve, the highest priority first."""
        ranked = sorted(self._versions.values(), key=lambda v: (-v.group_priority, v.group))
        return list(dict.fromkeys(version.group for version in ranked))

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group that other API servers serve, the preferred one first."""
        own = [version for version in self._versions.values() if version.group == group]
        return [v.version for v in sorted(own, key=lambda v: (-v.version_priority, v.version))]

    def discovered(self, group: str, version: str) -> Object:
        """Return the entry of aggregated discovery; stale where the server does not answer."""
        found = self._versions.get((group, version))
        known = self._discovered.get((group, version)) or build_empty(version)
        is_fresh = found is not None and found.is_available
        return known if is_fresh else {**known, "freshness": "Stale"}

    async def forward(
        self, version: AggregatedVersion, request: Request, *, is_stream: bool = False
    ) -> Answer:
        """Pass a request on to who serves a group version."""
        return await self._proxy.forward(version, request, is_stream=is_stream)

    async def close(self) -> None:
        """End all connections."""
        await self._proxy.close()

    def load(self) -> None:
        """Read the stored APIServices."""
        for item in self._backend.store.scan(_PREFIX):
            self._take(decode_json(item.value))

    def note_change(self, change: Change) -> None:
        """Follow a write to the store."""
        if change.key.startswith(_PREFIX):
            if change.version.value is None:
                self._drop(change.key.removeprefix(_PREFIX))
            else:
                self._take(decode_json(change.version.value))
        elif change.key.startswith(self._read):
            self._changed.set()

    def _take(self, obj: Object) -> None:
        version = AggregatedVersion.of(obj)
        if version is None:
            self._drop(obj["metadata"]["name"])
            return
        key = (version.group, version.version)
        before = self._versions.get(key)
        if before == version:
            return
        self._versions[key] = version
        self._note_versions()
        if before is None or msgspec.structs.replace(before, is_available=False) != (
            msgspec.structs.replace(version, is_available=False)
        ):
            self._changed.set()

    def _drop(self, name: str) -> None:
        for key, version in list(self._versions.items()):
            if version.name == name:
                del self._versions[key]
                self._discovered.pop(key, None)
                self._note_versions()

    def _note_versions(self) -> None:
        self.generation += 1
        services = {version.service for version in self._versions.values()}
        keys = {f"{_SERVICES}{service.namespace}/{service.name}" for service in services}
        self._read = (*keys, *{f"{_SLICES}{service.namespace}/" for service in services})

    async def run(self) -> None:
        """Check the aggregated API servers when something changes, and from time to time."""
        retry = RETRY_PERIOD
        while True:
            is_healthy = await self._check_all()
            period = CHECK_PERIOD if is_healthy else retry
            try:
                async with asyncio.timeout(period if self._versions else None):
                    await self._changed.wait()
            except TimeoutError:
                retry = RETRY_PERIOD if is_healthy else min(retry * 2, CHECK_PERIOD)
            else:
                retry = RETRY_PERIOD
            self._changed.clear()

    async def _check_all(self) -> bool:
        results: Sequence[bool] = await asyncio.gather(
            *(self._check_safely(version) for version in list(self._versions.values()))
        )
        return all(results)

    async def _check_safely(self, version: AggregatedVersion) -> bool:
        """Check one; whatever goes wrong must not end the checks of all others."""
        try:
            return await self._check(version)
        except Exception:
            _logger.exception("APIService %s could not be checked", version.name)
            return False

    async def _check(self, version: AggregatedVersion) -> bool:
        """Check one, and say in its APIService whether it is available."""
        condition = check_service(self._backend.store, version)
        if condition is None:
            try:
                await self._discover(version)
                condition = build_condition("True", "Passed", "all checks passed")
            except CheckFailed as failure:
                condition = build_condition("False", "FailedDiscoveryCheck", str(failure))
            except (ValueError, KeyError, TypeError) as error:
                text = f"{version.path} answered no discovery: {error}"
                condition = build_condition("False", "FailedDiscoveryCheck", text)
        try:
            self._write(version, condition)
        except KubewrightError as error:
            _logger.warning("APIService %s: its status was not written: %s", version.name, error)
        return condition.status == "True"

    async def _discover(self, version: AggregatedVersion) -> None:
        key = (version.group, version.version)
        _, body = await self._proxy.fetch(version, version.path)
        found = convert_resources(body, *key)
        try:
            whole = await self._proxy.fetch(version, "/apis", AGGREGATED)
            found = read_version(*whole, *key) or found
        except CheckFailed:
            # The older form is enough; a server need not know the newer one.
            pass
        if self._discovered.get(key) != found:
            self._discovered[key] = found
            self.generation += 1

    def _write(self, version: AggregatedVersion, condition: Condition) -> None:
        storage = self._backend.storage_of(_GROUP, "v1", "apiservices")
        stored = storage.read("", version.name)
        if stored is None:
            return
        obj = stored.object()
        conditions = (obj.get("status") or {}).get("conditions") or ()
        before = find_condition(conditions, condition.type) or {}
        known = (before.get("status"), before.get("reason"), before.get("message"))
        if known == (condition.status, condition.reason, condition.message):
            return
        now = format_time(self._backend.now())
        try:
            storage.update(stored, with_condition(obj, condition, now))
        except (KeyMissing, RevisionMismatch):
            # It was written meanwhile, which brings the next look.
            self._changed.set()


@asynccontextmanager
async def serve_api_services(backend: Backend, aggregator: Aggregator) -> AsyncIterator[None]:
    """Serve aggregated groups while the context lasts; those of stored APIServices at once."""
    aggregator.load()
    stop = backend.store.subscribe(aggregator.note_change)
    task = asyncio.create_task(aggregator.run(), name="api services")
    try:
        yield
    finally:
        stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
