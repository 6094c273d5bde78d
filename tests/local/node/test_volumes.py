from __future__ import annotations

import base64
import os
from datetime import timedelta
from pathlib import Path

import pytest
from tests.local.node.objects import NOW, build_pod

from kubewright.local.node.environment import ConfigError
from kubewright.local.node.volumes import (
    MountError,
    Volume,
    VolumeFile,
    check_host_path,
    make_empty,
    plan_container_mounts,
    plan_files,
    write_files,
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


def test_readers_see_links_into_a_dated_folder(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    write_files(folder, {"a": VolumeFile(b"1"), "d/b": VolumeFile(b"2", 0o400)}, NOW, None)
    assert os.readlink(folder / "a") == "..data/a"
    assert os.readlink(folder / "..data").startswith("..2026")
    assert (folder / "d/b").stat().st_mode & 0o777 == 0o400


def test_change_replaces_all_files_and_removes_old_ones(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    write_files(folder, {"a": VolumeFile(b"1"), "old": VolumeFile(b"x")}, NOW, None)
    write_files(folder, {"a": VolumeFile(b"2")}, NOW + timedelta(seconds=1), None)
    assert (folder / "a").read_bytes() == b"2"
    assert sorted(entry.name for entry in folder.iterdir() if entry.name[0] != ".") == ["a"]
    assert len(list(folder.glob("..2026*"))) == 1


def test_same_files_are_not_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    write_files(folder, {"a": VolumeFile(b"1")}, NOW, None)
    before = os.readlink(folder / "..data")
    write_files(folder, {"a": VolumeFile(b"1")}, NOW + timedelta(seconds=1), None)
    assert os.readlink(folder / "..data") == before


def test_empty_dir_is_open_to_all(tmp_path: Path) -> None:
    make_empty(tmp_path / "e", None)
    assert (tmp_path / "e").stat().st_mode & 0o7777 == 0o777


def test_host_path_must_be_what_its_type_says(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="is not a file, it's a Directory"):
        check_host_path({"path": str(tmp_path), "type": "File"})
    missing = tmp_path / "missing"
    with pytest.raises(MountError, match="does not exist"):
        check_host_path({"path": str(missing), "type": "Directory"})
    assert check_host_path({"path": str(missing), "type": "DirectoryOrCreate"}).is_dir()


def test_sub_path_stays_within_its_volume(tmp_path: Path) -> None:
    volumes = {"v": Volume(tmp_path / "v")}
    (tmp_path / "v").mkdir()
    (tmp_path / "v/out").symlink_to("/etc")
    for part in ("../x", "/etc", "out"):
        entry = {"name": "v", "mountPath": "/m", "subPath": part}
        with pytest.raises(ConfigError, match="must stay within the volume"):
            list(plan_container_mounts({"volumeMounts": [entry]}, volumes, {}))


def test_sub_path_may_have_variables(tmp_path: Path) -> None:
    volumes = {"v": Volume(tmp_path)}
    entry = {"name": "v", "mountPath": "/m", "subPathExpr": "$(NAME)"}
    (mount,) = plan_container_mounts({"volumeMounts": [entry]}, volumes, {"NAME": "p"})
    assert mount.source == tmp_path / "p"
