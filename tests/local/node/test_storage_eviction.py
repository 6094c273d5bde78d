from __future__ import annotations

from pathlib import Path

from tests.local.node.objects import build_pod

from kubewright.api.resource import Object
from kubewright.local.node.storage_eviction import find_excess, is_limited, measure

MEBI = 1 << 20


def container(name: str, limit: str | None = None) -> Object:
    resources = {"limits": {"ephemeral-storage": limit}} if limit else {}
    return {"name": name, "image": "x", "resources": resources}


def test_full_volume_is_named_with_its_limit() -> None:
    pod = build_pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "10Mi"}}])
    assert is_limited(pod)
    assert find_excess(pod, {"v": 10 * MEBI}, {}) == ""
    assert find_excess(pod, {"v": 11 * MEBI}, {}) == (
        'Usage of EmptyDir volume "v" exceeds the limit "10Mi". '
    )


def test_pod_is_limited_by_the_sum_of_its_containers() -> None:
    pod = build_pod(containers=[container("a", "10Mi"), container("b", "5Mi"), container("c")])
    assert find_excess(pod, {"v": 10 * MEBI}, {"c": 6 * MEBI}) == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 15Mi. "
    )


def test_container_is_limited_by_its_own() -> None:
    pod = build_pod(containers=[container("a", "10Mi"), container("b", "5Mi")])
    assert find_excess(pod, {}, {"a": 9 * MEBI, "b": MEBI}) == ""
    assert find_excess(pod, {}, {"b": 6 * MEBI}) == (
        'Container b exceeded its local ephemeral storage limit "5Mi". '
    )


def test_pod_without_limits_is_not_looked_at() -> None:
    assert not is_limited(build_pod(volumes=[{"name": "v", "emptyDir": {}}]))


def test_measures_what_files_take_and_two_names_once(tmp_path: Path) -> None:
    empty = measure(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"x" * MEBI)
    once = measure(tmp_path)
    assert once - empty >= MEBI
    (tmp_path / "other").hardlink_to(tmp_path / "d/f")
    assert measure(tmp_path) == once
    assert measure(tmp_path / "d/f") >= MEBI
    assert measure(tmp_path / "missing") == 0
