"""The program of "Webhooks" does what its page says."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.metadata import ObjectMeta
from tests.docs.pages import run_page


@pytest.fixture(scope="module")
def program() -> Any:
    return run_page("webhooks.md")


def build_pool(program: Any, size: int, version: str = "") -> Any:
    spec = program.MemcachedSpec(size=size, version=version)
    return program.Memcached(metadata=ObjectMeta(name="pool"), spec=spec)


def test_what_was_left_out_is_filled_in(program: Any) -> None:
    pool = build_pool(program, 3)

    program.fill_in(pool)

    assert pool.spec.version == "1.6"


def test_a_pool_does_not_lose_more_than_half(program: Any) -> None:
    with pytest.raises(ValueError, match="at most half"):
        list(program.check(build_pool(program, 4), build_pool(program, 10)))
    assert list(program.check(build_pool(program, 1), None)) == [
        "a pool of one loses its content with its pod"
    ]


def test_nothing_is_lost_on_the_way_to_the_other_version_and_back(program: Any) -> None:
    alpha = program.to_alpha(build_pool(program, 3, "1.6.29"))

    back = program.from_alpha(alpha)

    assert alpha.spec.nodes == 3
    assert back.spec == program.MemcachedSpec(size=3, version="1.6.29")
    assert not back.metadata.annotations


def test_one_crd_serves_both_versions(program: Any) -> None:
    [crd] = program.operator.crds()

    versions = {version["name"]: version["storage"] for version in crd["spec"]["versions"]}
    assert versions == {"v1": True, "v1alpha1": False}
    assert crd["spec"]["conversion"]["strategy"] == "Webhook"
