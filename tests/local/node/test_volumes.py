from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.local.node.objects import build_pod

from kubewright.api.resource import Object
from kubewright.local.node.environment import ConfigError
from kubewright.local.node.host_path import MountError
from kubewright.local.node.runtime import Mount
from kubewright.local.node.sub_path import prepare_sub_path
from kubewright.local.node.volume_writer import VolumeFile
from kubewright.local.node.volumes import (
    Volume,
    memory_size,
    plan_container_mounts,
    plan_files,
)

CONFIG_MAP = {"data": {"a": "A", "b": "B"}, "binaryData": {"bin": "AAEC"}}
SECRET = {"data": {"k": base64.b64encode(b"v").decode()}}
REFERENCES = {("ConfigMap", "m"): CONFIG_MAP, ("Secret", "s"): SECRET}


def test_plans_a_file_for_each_key() -> None:
    files = plan_files(build_pod(), {"configMap": {"name": "m"}}, REFERENCES, {}, {})
    assert files == {
        "a": VolumeFile(b"A"),
        "b": VolumeFile(b"B"),
        "bin": VolumeFile(b"\0\1\2"),
    }


def test_items_choose_keys_paths_and_modes() -> None:
    items = [{"key": "k", "path": "dir/x", "mode": 0o400}]
    volume = {"secret": {"secretName": "s", "items": items}}
    files = plan_files(build_pod(), volume, REFERENCES, {}, {})
    assert files == {"dir/x": VolumeFile(b"v", 0o400)}


def test_missing_config_map_is_named_unless_optional() -> None:
    volume = {"configMap": {"name": "gone"}}
    with pytest.raises(MountError, match='configmap "gone" not found'):
        plan_files(build_pod(), volume, REFERENCES, {}, {})
    volume["configMap"]["optional"] = True  # type: ignore[assignment]  # a JSON object of any values
    assert plan_files(build_pod(), volume, REFERENCES, {}, {}) == {}


def test_labels_become_quoted_lines_in_order() -> None:
    pod = build_pod(metadata={"labels": {"b": 'say "hi"', "a": "1"}})
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    files = plan_files(pod, {"downwardAPI": {"items": items}}, {}, {}, {})
    assert files == {"labels": VolumeFile(b'a="1"\nb="say \\"hi\\""')}


def plan_mount(volume: Volume, **mount: object) -> Mount:
    """Plan the one mount of a container."""
    entry = {"name": "v", "mountPath": "/m", **mount}
    container = {"name": "c", "volumeMounts": [entry]}
    (planned,) = plan_container_mounts(container, {"v": volume}, {"NAME": "p"}, prepare_sub_path)
    return planned


def test_sub_path_may_have_variables(tmp_path: Path) -> None:
    assert plan_mount(Volume(tmp_path), subPathExpr="$(NAME)/log").source == tmp_path / "p/log"


def test_sub_path_is_found_where_the_agent_reaches_the_volume(tmp_path: Path) -> None:
    """A Secret is in a file system that only containers see: its path is empty for the agent."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/k").write_text("x")
    volume = Volume(tmp_path / "outside", agent_path=tmp_path / "inside")
    assert plan_mount(volume, subPath="k").source == tmp_path / "outside/k"


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"subPath": "out"}, 'failed to prepare subPath for volumeMount "v" of container "c"'),
        ({"subPath": "../x"}, "unable to provision SubPath `../x`: must not contain '..'"),
        ({"subPath": "/etc"}, "error SubPath `/etc` must not be an absolute path"),
        ({"subPathExpr": "$(NO)/$(NAME)"}, "missing value for NO"),
        ({"name": "w"}, 'cannot find volume "w" to mount into container "c"'),
    ],
)
def test_mount_that_cannot_be_had_says_why(tmp_path: Path, mount: Object, message: str) -> None:
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(ConfigError) as caught:
        plan_mount(Volume(tmp_path), **mount)
    assert str(caught.value) == message


def test_recursive_read_only_needs_a_read_only_mount(tmp_path: Path) -> None:
    assert plan_mount(Volume(tmp_path), readOnly=True, recursiveReadOnly="Enabled").is_recursive
    assert not plan_mount(Volume(tmp_path), recursiveReadOnly="IfPossible").is_recursive


def test_mode_of_no_rights_is_a_mode() -> None:
    volume = {"configMap": {"name": "m", "defaultMode": 0, "items": []}}
    files = plan_files(build_pod(), volume, REFERENCES, {}, {})
    assert files is not None
    assert {file.mode for file in files.values()} == {0}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        (
            {"configMap": {"name": "m", "items": [{"key": "no", "path": "x"}]}},
            "configmap references non-existent config key: no",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "no", "path": "x"}]}},
            "references non-existent secret key: no",
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "b"}}]}},
            '[configmap "a" not found, secret "b" not found]',
        ),
    ],
)
def test_missing_keys_are_named_as_the_kubelet_does(volume: Object, message: str) -> None:
    with pytest.raises(MountError) as caught:
        plan_files(build_pod(), volume, REFERENCES, {}, {})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("context", "mode", "uid"),
    [({}, 0o644, None), ({"runAsUser": 1000}, 0o600, 1000), ({"fsGroup": 5}, 0o600, None)],
)
def test_token_is_for_its_only_reader(context: Object, mode: int, uid: int | None) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}]
    pod = build_pod(securityContext=context)
    files = plan_files(pod, {"projected": {"sources": sources}}, {}, {0: "t"}, {})
    assert files == {"token": VolumeFile(b"t", mode, uid)}


def test_memory_of_an_empty_dir_is_at_most_the_pods() -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"memory": "10Mi"}}}
    pod = build_pod(containers=[container])
    assert memory_size(pod, {"sizeLimit": "8Mi"}) == 8 << 20
    assert memory_size(pod, {"sizeLimit": "1Gi"}) == 10 << 20
    assert memory_size(build_pod(), {}) is None
