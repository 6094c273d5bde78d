"""Validation of PodSpec and PodTemplateSpec, in the order of the API server."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_label,
    check_qualified,
    check_subdomain,
    with_faults,
)
from kubewright.local.apiserver.builtin.pods.containers import (
    PodParts,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from kubewright.local.apiserver.builtin.pods.operating_system import validate_operating_system
from kubewright.local.apiserver.builtin.pods.resources import validate_pod_resources
from kubewright.local.apiserver.builtin.pods.scheduling import (
    check_deadline,
    validate_affinity,
    validate_spread,
    validate_tolerations,
)
from kubewright.local.apiserver.builtin.pods.security import validate_pod_security_context
from kubewright.local.apiserver.builtin.pods.volumes import validate_volumes
from kubewright.local.apiserver.field_error import duplicate, forbidden, invalid, required
from kubewright.local.apiserver.formats import check_ip
from kubewright.local.apiserver.objectmeta import validate_annotations, validate_labels

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_SERVERS, _MAX_SEARCHES = 3, 32


def validate_pod_template(template: Object | None, field: str) -> list[Cause]:
    """Return what is wrong with a pod template."""
    template = template or {}
    metadata = template.get("metadata") or {}
    causes = validate_labels(metadata.get("labels"), f"{field}.metadata.labels")
    annotations = metadata.get("annotations")
    causes += validate_annotations(annotations, f"{field}.metadata.annotations")
    return causes + validate_pod_spec(template.get("spec") or {}, f"{field}.spec")


def validate_pod_spec(
    spec: Object, field: str, *, extra_volumes: frozenset[str] = frozenset()
) -> list[Cause]:
    """Return what is wrong with the spec of a pod.

    `extra_volumes` are names that will be volumes, though they are not in the spec: the claim
    templates of a StatefulSet.
    """
    volumes, causes = validate_volumes(spec.get("volumes") or [], f"{field}.volumes")
    volumes |= {name: {"persistentVolumeClaim": {}} for name in extra_volumes}
    claims = {claim.get("name") or "" for claim in spec.get("resourceClaims") or ()}
    grace, shares_users = (
        spec.get("terminationGracePeriodSeconds"),
        spec.get("hostUsers") is not False,
    )
    parts = PodParts(volumes, claims, grace, shares_users)
    main, first = spec.get("containers") or [], spec.get("initContainers") or []
    debug = spec.get("ephemeralContainers") or []
    causes += validate_containers(main, parts, f"{field}.containers")
    causes += validate_init_containers(first, main, parts, f"{field}.initContainers")
    others = [*main, *first]
    causes += validate_ephemeral_containers(debug, others, parts, f"{field}.ephemeralContainers")
    causes += validate_pod_resources(spec, claims, f"{field}.resources")
    causes += _validate_policies(spec, field)
    causes += _validate_placement(spec, field)
    causes += _validate_names(spec, field)
    return causes + validate_operating_system(spec, field)


def _validate_policies(spec: Object, field: str) -> list[Cause]:
    causes = _check_host_network_ports(spec, field)
    policy = spec.get("restartPolicy")
    causes += check_choice(policy, _RESTART_POLICIES, f"{field}.restartPolicy")
    causes += check_choice(spec.get("dnsPolicy"), _DNS_POLICIES, f"{field}.dnsPolicy")
    causes += validate_labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    context = spec.get("securityContext") or {}
    causes += validate_pod_security_context(context, spec, f"{field}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{field}.shareProcessNamespace", True, detail))
    return causes


def _check_host_network_ports(spec: Object, field: str) -> list[Cause]:
    if not spec.get("hostNetwork"):
        return []
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{field}.containers[{index}].ports[{position}].hostPort", port["hostPort"], detail)
        for index, container in enumerate(spec.get("containers") or ())
        for position, port in enumerate(container.get("ports") or ())
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort")
    ]


def _validate_placement(spec: Object, field: str) -> list[Cause]:
    causes = validate_affinity(spec.get("affinity") or {}, f"{field}.affinity")
    causes += _validate_dns_config(spec, f"{field}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        place = f"{field}.readinessGates[{index}].conditionType"
        causes += check_qualified(gate.get("conditionType") or "", place)
    causes += _validate_scheduling_gates(spec, f"{field}.schedulingGates")
    spread = spec.get("topologySpreadConstraints") or []
    causes += validate_spread(spread, f"{field}.topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        causes += [
            forbidden(f"{field}.{key[0].upper()}{key[1:]}", "when `hostUsers` is false")
            for key in ("hostPID", "hostIPC")
            if spec.get(key)
        ]
    return causes


def _validate_scheduling_gates(spec: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        causes += check_qualified(name, f"{field}[{index}]")
        if name in seen:
            causes.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
    return causes


def _validate_dns_config(spec: Object, field: str) -> list[Cause]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", detail)]
    config = config or {}
    causes: list[Cause] = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MAX_SERVERS:
        detail = f"must not have more than {_MAX_SERVERS} nameservers"
        causes.append(invalid(f"{field}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        causes += with_faults(f"{field}.nameservers[{index}]", server, check_ip(server))
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        causes.append(invalid(f"{field}.searches", searches, detail))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{field}.options[{index}]", "must not be empty"))
    return causes


def _validate_names(spec: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("serviceAccountName", "nodeName"):
        if name := spec.get(key):
            causes += check_subdomain(name, f"{field}.{key}")
    causes += check_deadline(spec.get("activeDeadlineSeconds"), f"{field}.activeDeadlineSeconds")
    for key in ("hostname", "subdomain"):
        if name := spec.get(key):
            causes += check_label(name, f"{field}.{key}")
    causes += validate_tolerations(spec.get("tolerations") or [], f"{field}.tolerations")
    causes += _validate_host_aliases(spec.get("hostAliases") or [], f"{field}.hostAliases")
    for key in ("priorityClassName", "runtimeClassName"):
        if name := spec.get(key):
            causes += check_subdomain(name, f"{field}.{key}")
    policy = spec.get("preemptionPolicy")
    return causes + check_choice(policy, _PREEMPTION, f"{field}.preemptionPolicy")


def _validate_host_aliases(aliases: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip") or ""
        causes += with_faults(f"{field}[{index}].ip", address, check_ip(address))
        for position, name in enumerate(alias.get("hostnames") or ()):
            causes += check_subdomain(name, f"{field}[{index}].hostnames[{position}]")
    return causes
