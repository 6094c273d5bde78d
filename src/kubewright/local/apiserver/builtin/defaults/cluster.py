"""Defaults of networking, storage, access control, admission and extension types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.api.resource import Object

_RBAC = "rbac.authorization.k8s.io"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_AGGREGATOR = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."
_PORT_443: Mapping[str, Any] = {"port": 443}
_WEBHOOK: Mapping[str, Any] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_ALL_SCOPES: Mapping[str, Any] = {"scope": "*"}
_FAIL: Mapping[str, Any] = {"failurePolicy": "Fail"}
_LIMITED: Mapping[str, Any] = {"nominalConcurrencyShares": 30, "lendablePercent": 0}


def _network_policy(policy: Object) -> None:
    spec = policy.get("spec") or {}
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _role_ref(binding: Object) -> None:
    reference = binding["roleRef"]
    reference["apiGroup"] = reference.get("apiGroup") or _RBAC


def _subject(subject: Object) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
        subject["apiGroup"] = _RBAC


def _custom_resource_definition(definition: Object) -> None:
    spec, status = definition["spec"], definition["status"]
    names = spec["names"]
    kind = names.get("kind") or ""
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    if not status.get("storedVersions"):
        stored = [v.get("name", "") for v in spec.get("versions") or () if v.get("storage")]
        status["storedVersions"] = stored[:1] or None


def _device_request(request: Object) -> None:
    if request.setdefault("allocationMode", "ExactCount") == "ExactCount":
        request.setdefault("count", 1)


DEFAULTS: Mapping[str, Mapping[str, Any] | Callable[[Object], None]] = {
    _EXTENSIONS + "CustomResourceDefinition": _custom_resource_definition,
    _EXTENSIONS + "ServiceReference": _PORT_443,
    _AGGREGATOR + "ServiceReference": _PORT_443,
    "admissionregistration.v1.MatchResources": {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    },
    "admissionregistration.v1.MutatingAdmissionPolicySpec": _FAIL,
    "admissionregistration.v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "admissionregistration.v1.NamedRuleWithOperations": _ALL_SCOPES,
    "admissionregistration.v1.RuleWithOperations": _ALL_SCOPES,
    "admissionregistration.v1.ServiceReference": _PORT_443,
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": _FAIL,
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "authentication.v1.TokenRequestSpec": {"expirationSeconds": 3600},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
    },
    "flowcontrol.v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": _LIMITED,
    "flowcontrol.v1.QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
    "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking.v1.NetworkPolicy": _network_policy,
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "rbac.v1.ClusterRoleBinding": _role_ref,
    "rbac.v1.RoleBinding": _role_ref,
    "rbac.v1.Subject": _subject,
    "resource.v1.DeviceSubRequest": _device_request,
    "resource.v1.ExactDeviceRequest": _device_request,
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
        "preventPodSchedulingIfMissing": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}
