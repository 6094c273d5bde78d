"""Defaults of core/v1 types: pods and what they hold, Services, volumes, claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object

_FILE_MODE = 0o644
_HOUR = 3600
_MILLI = Decimal("0.001")
_CLIENT_IP_SECONDS = 10800
# Fields of Volume that are not its source.
_NOT_A_SOURCE = frozenset({"name"})


def pull_policy(image: str) -> str:
    """Return the pull policy of an image by its tag: `latest`, named or meant, is always pulled."""
    reference, _, digest = image.partition("@")
    last = reference.rpartition("/")[2]
    tag = last.partition(":")[2] or ("" if digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _container(container: Object) -> None:
    container.setdefault("imagePullPolicy", pull_policy(container.get("image") or ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")


def _resources(resources: Object) -> None:
    for key in ("limits", "requests"):
        round_up(resources.get(key))


def round_up(amounts: dict[str, str] | None) -> None:
    """Round amounts finer than a thousandth up, as the API has always done; in place."""
    if not amounts:
        return
    for name, amount in amounts.items():
        # In canonical form only these suffixes are finer than a thousandth.
        if amount[-1:] in ("n", "u"):
            milli = (Quantity(amount).value / _MILLI).to_integral_value(ROUND_CEILING)
            amounts[name] = str(Quantity(f"{milli}m"))


def _round(key: str) -> Callable[[Object], None]:
    return lambda obj: round_up(obj.get(key))


def _volume(volume: Object) -> None:
    if volume.keys() <= _NOT_A_SOURCE:
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image is not None:
        image.setdefault("pullPolicy", pull_policy(image.get("reference") or ""))


def _pod_spec(spec: Object) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")


def _default_host_ports(spec: Object) -> None:
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _pod(pod: Object) -> None:
    spec = pod["spec"]
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            _default_requests(container["resources"])
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        _default_host_ports(spec)


def _default_requests(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _pod_status(status: Object) -> None:
    ip, ips = status.get("podIP"), status.get("podIPs")
    if ip and (not ips or ips[0].get("ip") != ip):
        status["podIPs"] = [{"ip": ip}]
    elif ips and not ip:
        status["podIP"] = ips[0].get("ip", "")


def _service(service: Object) -> None:
    spec = service["spec"]
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    if affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (0, "", None):
            port["targetPort"] = port.get("port", 0)
    _default_traffic(spec, kind)
    if kind == "LoadBalancer":
        for ingress in service["status"]["loadBalancer"].get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_traffic(spec: Object, kind: str) -> None:
    is_external = kind in ("LoadBalancer", "NodePort")
    if is_external or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName" and kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _replication_controller(controller: Object) -> None:
    spec = controller["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    labels = (template or {}).get("metadata", {}).get("labels")
    if labels:
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata = controller["metadata"]
        metadata["labels"] = metadata.get("labels") or dict(labels)


def _namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        labels = metadata.get("labels") or {}
        metadata["labels"] = {**labels, "kubernetes.io/metadata.name": name}


def _node_status(status: Object) -> None:
    round_up(status.get("capacity"))
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    round_up(status.get("allocatable"))


def _limit_range_item(item: Object) -> None:
    for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        round_up(item.get(key))
    if item.get("type") != "Container":
        return
    default = {**(item.get("max") or {}), **(item.get("default") or {})}
    lower = {**(item.get("min") or {}), **default}
    request = {**lower, **(item.get("defaultRequest") or {})}
    if default:
        item["default"] = default
    if request:
        item["defaultRequest"] = request


_FILE_MODES: Mapping[str, Any] = {"defaultMode": _FILE_MODE}
_ISCSI: Mapping[str, Any] = {"iscsiInterface": "default"}
_RBD: Mapping[str, Any] = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO: Mapping[str, Any] = {"storageMode": "ThinProvisioned", "fsType": "xfs"}

DEFAULTS: Mapping[str, Mapping[str, Any] | Callable[[Object], None]] = {
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "core.v1.ConfigMapVolumeSource": _FILE_MODES,
    "core.v1.Container": _container,
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.DownwardAPIVolumeSource": _FILE_MODES,
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "core.v1.EphemeralContainer": _container,
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIPersistentVolumeSource": _ISCSI,
    "core.v1.ISCSIVolumeSource": _ISCSI,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.Namespace": _namespace,
    "core.v1.NamespaceStatus": {"phase": "Active"},
    "core.v1.NodeStatus": _node_status,
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "core.v1.PersistentVolumeSpec": {
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    },
    "core.v1.PersistentVolumeStatus": {"phase": "Pending"},
    "core.v1.Pod": _pod,
    "core.v1.PodSpec": _pod_spec,
    "core.v1.PodStatus": _pod_status,
    "core.v1.Probe": {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    },
    "core.v1.ProjectedVolumeSource": _FILE_MODES,
    "core.v1.RBDPersistentVolumeSource": _RBD,
    "core.v1.RBDVolumeSource": _RBD,
    "core.v1.ReplicationController": _replication_controller,
    "core.v1.ResourceQuotaSpec": _round("hard"),
    "core.v1.ResourceRequirements": _resources,
    "core.v1.ScaleIOPersistentVolumeSource": _SCALE_IO,
    "core.v1.ScaleIOVolumeSource": _SCALE_IO,
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": _FILE_MODES,
    "core.v1.Service": _service,
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": _HOUR},
    "core.v1.Volume": _volume,
    "core.v1.VolumeResourceRequirements": _resources,
}
