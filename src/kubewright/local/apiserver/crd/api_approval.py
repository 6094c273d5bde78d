"""Groups of the Kubernetes community: who approved an API of theirs (KEP-1111)."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from kubewright.api.conditions import Condition
from kubewright.api.resource import Object
from kubewright.local.apiserver.field_error import show

ANNOTATION = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_PROPOSAL = "https://github.com/kubernetes/enhancements/pull/1111"
_CONDITION = "KubernetesAPIApprovalPolicyConformant"


class Approval(msgspec.Struct, frozen=True):
    """What the annotation of a definition says; `message` is kube-apiserver's."""

    reason: str
    message: str

    @property
    def condition(self) -> Condition:
        """The condition of the definition."""
        approved = self.reason == "ApprovedAnnotation"
        return Condition(_CONDITION, "True" if approved else "False", self.reason, self.message)


def is_protected(group: str) -> bool:
    """Tell whether definitions of a group need an approval."""
    return any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED)


def read_annotation(crd: Object) -> str:
    """Return the annotation that names who approved the API; empty where it is missing."""
    return (crd["metadata"].get("annotations") or {}).get(ANNOTATION) or ""


def read_approval(annotation: str) -> Approval:
    """Judge the value of the annotation."""
    needed = f'protected groups must have approval annotation "{ANNOTATION}"'
    if not annotation:
        return Approval("MissingAnnotation", f"{needed}, see {_PROPOSAL}")
    if annotation.startswith("unapproved"):
        return Approval("UnapprovedAnnotation", f"not approved: {show(annotation)}")
    url = urlsplit(annotation)
    if url.scheme and url.netloc:
        return Approval("ApprovedAnnotation", f"approved in {annotation}")
    detail = f'with either a URL or a reason starting with "unapproved", see {_PROPOSAL}'
    return Approval("InvalidAnnotation", f"{needed} {detail}")
