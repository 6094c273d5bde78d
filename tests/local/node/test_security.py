from __future__ import annotations

import pytest
from tests.local.node.objects import build_pod

from kubewright.api.resource import Object
from kubewright.local.node.environment import ConfigError
from kubewright.local.node.image.image import Image
from kubewright.local.node.runtime import SecuritySettings
from kubewright.local.node.security import build_capabilities, build_security

IMAGE = Image("x", "x", user="memcache", users={"memcache": (11211, 11211)})
ROOT = Image("x", "x")


def settings(image: Image, own: Object | None = None, **of_pod: object) -> SecuritySettings:
    container = {"name": "c", "securityContext": own or {}}
    return build_security(build_pod(securityContext=of_pod), container, image)


def test_image_decides_when_nobody_else_does() -> None:
    chosen = settings(IMAGE)
    assert (chosen.uid, chosen.gid) == (11211, 11211)


def test_container_goes_before_the_pod() -> None:
    chosen = settings(ROOT, {"runAsUser": 1}, runAsUser=2, runAsGroup=3, fsGroup=4)
    assert (chosen.uid, chosen.gid, chosen.groups) == (1, 3, (3, 4))


def test_group_of_a_known_user_is_the_users() -> None:
    assert settings(IMAGE, {"runAsUser": 11211}).gid == 11211
    assert settings(IMAGE, {"runAsUser": 1}).gid == 0


def test_refuses_an_image_that_would_run_as_root() -> None:
    with pytest.raises(ConfigError) as caught:
        settings(ROOT, {"runAsNonRoot": True})
    assert str(caught.value) == (
        'container has runAsNonRoot and image will run as root (pod: "p_ns(u1)", container: c)'
    )


def test_refuses_a_named_user_that_cannot_be_verified() -> None:
    with pytest.raises(ConfigError, match=r"non-numeric user \(memcache\)"):
        settings(IMAGE, {"runAsNonRoot": True})
    assert settings(IMAGE, {"runAsNonRoot": True, "runAsUser": 5}).uid == 5


@pytest.mark.parametrize(
    ("changes", "mask"),
    [
        ({}, 0xA80425FB),
        ({"drop": ["ALL"]}, 0),
        ({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, 0x400),
        ({"drop": ["CAP_CHOWN"]}, 0xA80425FA),
        ({"add": ["NO_SUCH_THING"]}, 0xA80425FB),
    ],
)
def test_capabilities_are_dropped_and_added(changes: Object, mask: int) -> None:
    assert build_capabilities({"capabilities": changes}) == mask


@pytest.mark.parametrize(
    ("profile", "applies"),
    [(None, False), ({"type": "Unconfined"}, False), ({"type": "RuntimeDefault"}, True)],
)
def test_seccomp_profile_is_that_of_the_runtime_or_none(
    profile: Object | None, applies: bool
) -> None:
    assert settings(ROOT, {"seccompProfile": profile}).seccomp is applies
    assert not settings(ROOT, {"seccompProfile": profile, "privileged": True}).seccomp


def test_profile_of_a_file_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r'no seccomp profile "p\.json"'):
        settings(ROOT, {"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}})


def test_only_user_of_a_container_is_the_one_its_entry_point_would_become() -> None:
    image = Image("x", "x", steps_down_to="db", users={"db": (999, 999)})
    container = {"name": "c"}
    assert build_security(build_pod(), container, image).uid == 0
    assert build_security(build_pod(), container, image, is_one_uid=True).uid == 999
    asked = {**container, "securityContext": {"runAsUser": 5}}
    assert build_security(build_pod(), asked, image, is_one_uid=True).uid == 5
