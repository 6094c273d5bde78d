"""All Services of the cluster and their endpoints, found by name and by address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kubewright.api.resource import NamespacedName
from kubewright.local.network.service import Endpoint, EndpointSlice, Service


class ServiceDirectory:
    """Holds Services and EndpointSlices as last seen; each `put` replaces what was known."""

    def __init__(self) -> None:
        self._services: dict[NamespacedName, Service] = {}
        self._slices: dict[NamespacedName, EndpointSlice] = {}
        self._slices_of: dict[NamespacedName, dict[NamespacedName, EndpointSlice]] = {}
        self._by_address: dict[str, NamespacedName] = {}
        self._named: dict[str, dict[NamespacedName, None]] = defaultdict(dict)

    @property
    def services(self) -> Iterable[Service]:
        """All Services."""
        return self._services.values()

    def find_service(self, key: NamespacedName) -> Service | None:
        """Find a Service by its key."""
        return self._services.get(key)

    def find_by_address(self, address: str) -> Service | None:
        """Find the Service that has a virtual address."""
        key = self._by_address.get(address)
        return self._services.get(key) if key else None

    def slices_of(self, key: NamespacedName) -> Iterable[EndpointSlice]:
        """Return the slices of a Service."""
        return self._slices_of.get(key, {}).values()

    def staying_addresses(self) -> frozenset[str]:
        """Return the addresses of all endpoints that are not ending."""
        return frozenset(
            address
            for found in self._slices.values()
            for endpoint in found.endpoints or ()
            if not endpoint.is_terminating
            for address in endpoint.addresses
        )

    def find_named(self, address: str) -> Iterator[tuple[NamespacedName, Endpoint]]:
        """Find the endpoints with a host name that have an address, with their Services."""
        for key in self._named.get(address, ()):
            found = self._slices.get(key)
            if found is None or found.service is None:
                continue
            for endpoint in found.endpoints or ():
                if endpoint.hostname and address in endpoint.addresses:
                    yield found.service, endpoint

    def put_service(self, key: NamespacedName, service: Service | None) -> None:
        """Take a Service as it is now; None when it is gone."""
        old = self._services.pop(key, None)
        for address in old.addresses if old else ():
            if self._by_address.get(address) == key:
                del self._by_address[address]
        if service is not None:
            self._services[key] = service
            self._by_address.update(dict.fromkeys(service.addresses, key))

    def put_slice(self, key: NamespacedName, found: EndpointSlice | None) -> None:
        """Take an EndpointSlice as it is now; None when it is gone."""
        old = self._slices.pop(key, None)
        if old is not None:
            self._forget_slice(key, old)
        if found is None or found.service is None:
            return
        self._slices[key] = found
        self._slices_of.setdefault(found.service, {})[key] = found
        for address in named_addresses(found):
            self._named[address][key] = None

    def _forget_slice(self, key: NamespacedName, old: EndpointSlice) -> None:
        if old.service is not None:
            slices = self._slices_of[old.service]
            del slices[key]
            if not slices:
                del self._slices_of[old.service]
        for address in named_addresses(old):
            keys = self._named[address]
            keys.pop(key, None)
            if not keys:
                del self._named[address]


def named_addresses(found: EndpointSlice) -> Iterator[str]:
    """Yield the addresses of the endpoints that have a host name."""
    for endpoint in found.endpoints or ():
        if endpoint.hostname:
            yield from endpoint.addresses
