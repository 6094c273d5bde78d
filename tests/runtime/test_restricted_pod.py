"""Pods are brought to the restricted level, and no further."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.apiserver.pod_security import find_violations
from kubewright.runtime.restricted_pod import restrict_pod

BARE: Object = {
    "initContainers": [{"name": "init", "image": "a"}],
    "containers": [{"name": "one", "image": "b"}, {"name": "two", "image": "c"}],
}


def violations(spec: Object) -> list[str]:
    return find_violations("restricted", {"metadata": {}, "spec": spec})


def test_a_bare_pod_is_brought_to_the_level() -> None:
    assert violations(BARE)

    assert not violations(restrict_pod(BARE))
    assert not violations(restrict_pod(BARE, user=7))


def test_the_user_is_the_one_that_is_given() -> None:
    assert restrict_pod(BARE, user=7)["securityContext"]["runAsUser"] == 7
    assert "runAsUser" not in restrict_pod(BARE)["securityContext"]


def test_what_the_spec_says_itself_stays() -> None:
    own = {"readOnlyRootFilesystem": True, "capabilities": {"add": ["NET_BIND_SERVICE"]}}
    spec = {
        "securityContext": {"fsGroup": 9, "runAsUser": 8},
        "containers": [{"name": "c", "image": "i", "securityContext": own}],
    }

    restricted = restrict_pod(spec, user=7)

    context = restricted["securityContext"]
    assert (context["fsGroup"], context["runAsUser"]) == (9, 8)
    [container] = restricted["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    }
    assert not violations(restricted)


def test_the_given_spec_is_not_changed() -> None:
    before = repr(BARE)

    restrict_pod(BARE, user=7)

    assert repr(BARE) == before
