from __future__ import annotations

import os
from pathlib import Path

from kubewright.local.node.orphans import list_within, mount_namespace


def test_finds_the_processes_of_a_mount_namespace(tmp_path: Path) -> None:
    for pid in (1, 2, 3):
        (tmp_path / str(pid) / "ns").mkdir(parents=True)
        (tmp_path / str(pid) / "ns" / "mnt").touch()
    (tmp_path / "4").mkdir()
    (tmp_path / "3/ns/mnt").unlink()
    (tmp_path / "3/ns/mnt").hardlink_to(tmp_path / "1/ns/mnt")
    mounts = mount_namespace(1, proc=tmp_path)
    assert sorted(list_within(mounts, proc=tmp_path)) == [1, 3]


def test_a_process_that_has_ended_has_none(tmp_path: Path) -> None:
    assert mount_namespace(9, proc=tmp_path) == 0
    assert list_within(0, proc=tmp_path) == []
    assert mount_namespace(os.getpid()) > 0
