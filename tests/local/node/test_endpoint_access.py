from __future__ import annotations

from kubewright.local.node.endpoint_access import EndpointAccess


def certificate(**names: str) -> dict[str, object]:
    return {"subject": tuple(((key, value),) for key, value in names.items())}


def test_api_server_is_known_by_its_certificate() -> None:
    access = EndpointAccess(b"ca")
    assert access.is_allowed(certificate(commonName="kube-apiserver-kubelet-client"), "")
    assert access.is_allowed(certificate(organizationName="system:masters", commonName="x"), "")


def test_other_users_of_the_cluster_are_refused() -> None:
    access = EndpointAccess(b"ca", "secret")
    assert not access.is_allowed(certificate(organizationName="dev", commonName="bob"), "")
    assert not access.is_allowed(None, "")


def test_shared_token_opens() -> None:
    access = EndpointAccess(token="secret")
    assert access.is_allowed(None, "Bearer secret")
    assert not access.is_allowed(None, "Bearer other")


def test_empty_token_opens_nothing() -> None:
    assert not EndpointAccess().is_allowed(None, "Bearer ")
