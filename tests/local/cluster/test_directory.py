import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.local.cluster import daemon
from kubewright.local.cluster.directory import ClusterDirectory, ClusterRecord, list_directories

RECORD = ClusterRecord(
    name="a",
    pid=1,
    server="https://127.0.0.1:1",
    kubeconfig="k",
    controllers=[],
    nodes=[],
    runtime="",
    note="",
    started="2026-01-01T00:00:00Z",
)


def test_a_record_counts_only_while_its_process_holds_the_lock(tmp_path: Path) -> None:
    directory = ClusterDirectory("a", tmp_path)

    with directory.locked():
        directory.write_record(RECORD)
        assert directory.read_record() == RECORD

    assert directory.read_record() is None


def test_a_second_cluster_of_the_name_is_refused(tmp_path: Path) -> None:
    directory = ClusterDirectory("a", tmp_path)

    with directory.locked(), pytest.raises(ConfigurationError, match="runs already"):
        ClusterDirectory("a", tmp_path).locked().__enter__()


def test_a_killed_process_does_not_look_alive(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from kubewright.local.cluster.directory import ClusterDirectory\n"
        "with ClusterDirectory('a', Path(sys.argv[1])).locked(): os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)

    assert not ClusterDirectory("a", tmp_path).is_running()


@pytest.mark.parametrize("name", ["", "A", "../x", "-a", "a-", "a" * 40, "a b"])
def test_names_that_are_no_folder_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cluster name"):
        ClusterDirectory(name, tmp_path)


def test_clusters_are_listed_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        ClusterDirectory(name, tmp_path).create()

    assert [directory.name for directory in list_directories(tmp_path)] == ["a", "b"]
    assert list_directories(tmp_path / "absent") == []


def test_a_cluster_that_is_still_starting_can_be_told_to_stop(tmp_path: Path) -> None:
    """It has no record yet, but its process is known."""
    directory = ClusterDirectory("a", tmp_path)

    with directory.locked():
        assert directory.read_record() is None
        assert directory.read_pid() == os.getpid()

    assert directory.read_pid() is None


def test_what_a_killed_cluster_left_of_volumes_goes_when_it_is_stopped(tmp_path: Path) -> None:
    directory = ClusterDirectory("a", tmp_path)
    directory.create()
    left = directory.volumes / "node-1" / "pvc-1"
    left.mkdir(parents=True)

    assert not daemon.stop(directory)
    assert not directory.volumes.exists()
    assert not daemon.stop(directory)
