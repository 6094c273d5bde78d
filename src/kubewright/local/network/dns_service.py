"""The Service that gives the cluster's name server its address."""

from __future__ import annotations

from ipaddress import IPv4Address

from kubewright.api.builtin import SERVICE
from kubewright.api.errors import AlreadyExists, Conflict, Invalid, NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.local.network.dns_zone import DNS_SERVICE
from kubewright.local.network.service import KUBERNETES

PORT = 53
_OFFSET = 9
"""From the first address of the Services' range, the API's own, to the one of the name server."""


def build_dns_service(address: str | None) -> Object:
    """Build the Service as kubeadm does, without a selector: each node answers by itself."""
    spec: Object = {
        "ports": [
            {"name": "dns", "port": PORT, "protocol": "UDP", "targetPort": PORT},
            {"name": "dns-tcp", "port": PORT, "protocol": "TCP", "targetPort": PORT},
        ]
    }
    if address:
        spec["clusterIP"] = address
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": DNS_SERVICE.name,
            "namespace": DNS_SERVICE.namespace,
            "labels": {
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
        },
        "spec": spec,
    }


async def ensure_dns_service(client: Client) -> Object:
    """Return the Service of the name server, made where it is not there.

    Its address is the tenth of the Services' range, as everywhere, or a free one where a Service
    took that.
    """
    for address in (await _find_tenth_address(client), None):
        try:
            return await client.get(SERVICE, DNS_SERVICE.name, namespace=DNS_SERVICE.namespace)
        except NotFound:
            pass
        try:
            return await client.create(build_dns_service(address))
        except Invalid:
            if address is None:
                raise
        except (AlreadyExists, Conflict):
            continue
    return await client.get(SERVICE, DNS_SERVICE.name, namespace=DNS_SERVICE.namespace)


async def _find_tenth_address(client: Client) -> str | None:
    try:
        api = await client.get(SERVICE, KUBERNETES.name, namespace=KUBERNETES.namespace)
        return str(IPv4Address(api["spec"]["clusterIP"]) + _OFFSET)
    except (NotFound, KeyError, ValueError):
        return None
