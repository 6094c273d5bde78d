"""Where the pods behind a Service are: this server is a client of its own EndpointSlices."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.store import VersionedStore


class ServiceEndpoint(msgspec.Struct, frozen=True):
    """One endpoint of a Service's port. `pod` is behind it, unless somebody wrote it by hand."""

    address: str
    port: int
    pod: NamespacedName | None = None

    @property
    def host(self) -> str:
        """The host of a URL that a `ClusterConnector` understands."""
        return f"{self.pod.name}.{self.pod.namespace}.pod" if self.pod else self.address


def find_endpoint(
    store: VersionedStore, namespace: str, name: str, port: int | str, choose: random.Random
) -> ServiceEndpoint:
    """Find a ready endpoint of a Service, a random one of several.

    Args:
        store: The objects.
        namespace: The Service's namespace.
        name: The Service's name.
        port: Its number, or its name, which is "" for a port that has none.
        choose: Where the choice comes from.

    Raises:
        LookupError: there is no such Service, port or ready endpoint; the text says which.
    """
    service = read_service(store, namespace, name)
    if service is None:
        raise LookupError(f'service "{name}" not found')
    port_name = find_port_name(service, port) if isinstance(port, int) else port
    if port_name is None:
        raise LookupError(f'no service port {port} found for service "{name}"')
    slices = list_slices(store, namespace, name)
    ready = [endpoint for each in slices for endpoint in _ready(each, port_name)]
    if not ready:
        raise LookupError(f'no endpoints available for service "{name}"')
    return choose.choice(ready)


def read_service(store: VersionedStore, namespace: str, name: str) -> Object | None:
    """Return a Service; None where there is none."""
    version = store.get(f"{key_prefix('', 'services')}{namespace}/{name}")
    return None if version is None else decode_json(version.value or b"{}")


def list_slices(store: VersionedStore, namespace: str, name: str) -> list[Object]:
    """Return the EndpointSlices of a Service."""
    prefix = f"{key_prefix('discovery.k8s.io', 'endpointslices')}{namespace}/"
    slices = [decode_json(item.value) for item in store.scan(prefix)]
    return [each for each in slices if _service_of(each) == name]


def _service_of(endpoint_slice: Object) -> str:
    labels = endpoint_slice["metadata"].get("labels") or {}
    return str(labels.get("kubernetes.io/service-name") or "")


def find_port_name(service: Object, port: int) -> str | None:
    """Return the name of a Service's port by its number; None where there is no such port."""
    ports = (service.get("spec") or {}).get("ports") or ()
    return next((p.get("name") or "" for p in ports if p.get("port") == port), None)


def _ready(endpoint_slice: Object, port_name: str) -> Iterator[ServiceEndpoint]:
    metadata = endpoint_slice["metadata"]
    ports = endpoint_slice.get("ports") or ()
    port = next((p.get("port") for p in ports if (p.get("name") or "") == port_name), None)
    for endpoint in endpoint_slice.get("endpoints") or ():
        ready = (endpoint.get("conditions") or {}).get("ready")
        if port and ready is not False and endpoint.get("addresses"):
            target = endpoint.get("targetRef") or {}
            is_pod = target.get("kind") == "Pod"
            pod = NamespacedName(metadata["namespace"], target["name"]) if is_pod else None
            yield ServiceEndpoint(endpoint["addresses"][0], port, pod)
