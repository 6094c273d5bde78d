from __future__ import annotations

import pytest

from kubewright.local.apiserver.crd.api_approval import is_protected, read_approval


@pytest.mark.parametrize(
    ("annotation", "reason", "status"),
    [
        ("", "MissingAnnotation", "False"),
        ("unapproved, a test", "UnapprovedAnnotation", "False"),
        ("https://example.com/1", "ApprovedAnnotation", "True"),
        ("yes", "InvalidAnnotation", "False"),
    ],
)
def test_judges_the_annotation(annotation: str, reason: str, status: str) -> None:
    condition = read_approval(annotation).condition
    assert condition.type == "KubernetesAPIApprovalPolicyConformant"
    assert (condition.reason, condition.status) == (reason, status)


def test_protects_the_groups_of_kubernetes_alone() -> None:
    assert is_protected("gateway.networking.k8s.io")
    assert is_protected("k8s.io")
    assert not is_protected("myk8s.io")
