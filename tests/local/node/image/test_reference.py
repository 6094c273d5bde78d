from __future__ import annotations

import pytest

from kubewright.local.node.image.reference import InvalidReference, parse_reference


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memcached", "docker.io/library/memcached:latest"),
        ("memcached:1.6.9", "docker.io/library/memcached:1.6.9"),
        ("bitnami/memcached:1", "docker.io/bitnami/memcached:1"),
        ("docker.io/library/memcached:1", "docker.io/library/memcached:1"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("example.com/x@sha256:" + "a" * 64, "example.com/x:latest@sha256:" + "a" * 64),
    ],
)
def test_fills_in_what_a_name_leaves_out(name: str, expected: str) -> None:
    assert str(parse_reference(name)) == expected


def test_words_an_upper_case_name_as_the_kubelet_does() -> None:
    with pytest.raises(InvalidReference) as caught:
        parse_reference("Busybox:1.35")
    assert str(caught.value) == (
        'Failed to apply default image tag "Busybox:1.35": couldn\'t parse image name '
        '"Busybox:1.35": invalid reference format: repository name (library/Busybox) must be '
        "lowercase"
    )


@pytest.mark.parametrize("name", ["", "a:", ":1", "a b", "a/", "a@sha256:1"])
def test_refuses_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidReference, match="invalid reference format"):
        parse_reference(name)
