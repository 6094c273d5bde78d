from __future__ import annotations

import os
from pathlib import Path

from kubewright.local.node.cgroups import (
    CgroupTree,
    ContainerGroup,
    group_name,
    open_tree,
    read_own_groups,
    remove_group,
)
from kubewright.local.node.resources import ContainerResources

LIMITED = ContainerResources(cpu_request=100, cpu_limit=150, memory_limit=64 << 20)


def build_group(folder: Path, *names: str, is_unified: bool) -> ContainerGroup:
    """Build a group whose kernel files are plain ones."""
    for name in ("cgroup.procs", *names):
        (folder / name).write_text("")
    return ContainerGroup({"memory": folder, "cpu": folder}, is_unified=is_unified)


def test_limits_of_version_1(tmp_path: Path) -> None:
    names = ("cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us", "memory.limit_in_bytes")
    build_group(tmp_path, *names, is_unified=False).limit(LIMITED)
    assert [(tmp_path / name).read_text() for name in names] == [
        "102",
        "100000",
        "15000",
        "67108864",
    ]


def test_limits_of_version_2(tmp_path: Path) -> None:
    names = ("cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "memory.oom.group")
    group = build_group(tmp_path, *names, is_unified=True)
    group.limit(LIMITED)
    assert [(tmp_path / name).read_text() for name in names] == [
        "4",
        "15000 100000",
        "67108864",
        "0",
        "1",
    ]
    group.limit(ContainerResources())
    assert (tmp_path / "cpu.max").read_text() == "max 100000"
    assert (tmp_path / "memory.max").read_text() == "max"


def test_counts_what_the_kernel_killed(tmp_path: Path) -> None:
    group = build_group(tmp_path, is_unified=False)
    file = tmp_path / "memory.oom_control"
    file.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    assert not group.is_oom
    file.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.is_oom


def test_reads_the_groups_of_a_process(tmp_path: Path) -> None:
    file = tmp_path / "cgroup"
    file.write_text("4:memory:/a/b\n1:cpu,cpuacct:/\n0::/user.slice\n")
    assert read_own_groups(file) == {
        "memory": "/a/b",
        "cpu": "/",
        "cpuacct": "/",
        "": "/user.slice",
    }


def test_a_machine_without_control_groups_has_no_tree(tmp_path: Path) -> None:
    assert open_tree(tmp_path, root=tmp_path) is None


def test_nodes_have_groups_of_their_own(tmp_path: Path) -> None:
    assert group_name(tmp_path / "a") != group_name(tmp_path / "b")


def test_removes_groups_from_the_inside_out(tmp_path: Path) -> None:
    (tmp_path / "node" / "container").mkdir(parents=True)
    remove_group(tmp_path / "node")
    assert not (tmp_path / "node").exists()


def test_every_container_has_a_group_in_each_hierarchy(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("memory", "cpu")}
    for folder in folders.values():
        folder.mkdir()
    tree = CgroupTree(folders, is_unified=False)
    group = tree.create("c1", LIMITED)
    for folder in folders.values():
        (folder / "c1" / "cgroup.procs").write_text("")
    group.add(os.getpid())
    assert (tmp_path / "memory" / "c1" / "cgroup.procs").read_text() == str(os.getpid())
