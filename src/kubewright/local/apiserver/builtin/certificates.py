"""Rules of the certificates.k8s.io group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NONE,
    column,
    format_age,
    format_duration,
    format_labels,
)
from kubewright.local.apiserver.field_error import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

_LEAST_SECONDS = 600
_CERTAIN = ("Approved", "Denied", "Failed")
_LEGACY = "kubernetes.io/legacy-unknown"


def _validate_request(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    seconds = spec.get("expirationSeconds")
    if not spec.get("request"):
        causes.append(required("spec.request"))
    if not spec.get("usages"):
        causes.append(required("spec.usages"))
    signer = spec.get("signerName") or ""
    if not signer:
        causes.append(required("spec.signerName"))
    elif signer == _LEGACY:
        detail = "the legacy signerName is not allowed via this API version"
        causes.append(invalid("spec.signerName", signer, detail))
    if seconds is not None and seconds < _LEAST_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid("spec.expirationSeconds", seconds, detail))
    return causes


def _prepare_request_update(obj: Object, old: Object) -> None:
    """The request is what was signed for: only labels and annotations may change."""
    obj["spec"] = old["spec"]


def _validate_status(obj: Object, old: Object) -> list[Cause]:
    def decided(request: Object) -> set[str]:
        conditions = (request.get("status") or {}).get("conditions") or ()
        return {c.get("type") or "" for c in conditions} & {"Approved", "Denied"}

    return [
        forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
        for kind in sorted(decided(obj) - decided(old))
    ]


def validate_conditions(obj: Object) -> list[Cause]:
    """Return what is wrong with the conditions of a signing request."""
    causes: list[Cause] = []
    conditions = (obj.get("status") or {}).get("conditions") or []
    types = [condition.get("type") or "" for condition in conditions]
    for index, condition in enumerate(conditions):
        field, kind, status = f"status.conditions[{index}]", types[index], condition.get("status")
        if not kind:
            causes.append(required(f"{field}.type"))
        if not status:
            causes.append(required(f"{field}.status"))
        elif kind in _CERTAIN and status != "True":
            causes.append(not_supported(f"{field}.status", status, ("True",)))
        if kind in types[:index]:
            causes.append(duplicate(f"{field}.type", kind))
    if {"Approved", "Denied"} <= set(types):
        both = [f'conditions[{{"type": "{kind}"}}]' for kind in ("Approved", "Denied")]
        detail = f"must specify at most one of: {', '.join(f'`{name}`' for name in both)}"
        causes.append(invalid("status.conditions", f"{{{', '.join(both)}}}", detail))
    return causes


def _state(obj: Object) -> str:
    status = obj.get("status") or {}
    found = {condition.get("type") for condition in status.get("conditions") or ()}
    text = "Denied" if "Denied" in found else "Approved" if "Approved" in found else "Pending"
    text += ",Failed" if "Failed" in found else ""
    return text + (",Issued" if status.get("certificate") else "")


def _request_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    seconds = spec.get("expirationSeconds")
    return [
        format_age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else format_duration(seconds),
        _state(obj),
    ]


def _pod_request_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    found = {c.get("type") for c in (obj.get("status") or {}).get("conditions") or ()}
    state = next((s for s in ("Issued", "Denied", "Failed") if s in found), "Pending")
    keys = ("podName", "serviceAccountName", "nodeName", "signerName")
    annotations = format_labels(spec.get("unverifiedUserAnnotations"))
    return [*(spec.get(key, "") for key in keys), state, annotations]


RULES: Mapping[str, Rules] = {
    "CertificateSigningRequest": Rules(
        prepare_for_update=_prepare_request_update,
        validate=_validate_request,
        validate_status_update=_validate_status,
        fields={"spec.signerName": lambda obj: str(obj["spec"].get("signerName") or "")},
        table=Table(
            (
                AGE,
                column("SignerName"),
                column("Requestor"),
                column("RequestedDuration"),
                column("Condition"),
            ),
            _request_cells,
        ),
    ),
    "ClusterTrustBundle": Rules(
        allow_unconditional_update=False,
        fields={"spec.signerName": lambda obj: str(obj["spec"].get("signerName") or "")},
        table=Table(
            (column("SignerName"),), lambda obj, now: [obj["spec"].get("signerName") or NONE]
        ),
    ),
    "PodCertificateRequest": Rules(
        allow_unconditional_update=False,
        status_resets=(("metadata",), ("spec",)),
        table=Table(
            (
                column("PodName"),
                column("ServiceAccountName"),
                column("NodeName"),
                column("SignerName"),
                column("State"),
                column("UnverifiedUserAnnotations"),
            ),
            _pod_request_cells,
        ),
    ),
}
