from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from tests.local.node.objects import NOW

from kubewright.local.node.volume_writer import VolumeFile, give_group, make_empty, write_files

OWN = os.getgid()


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
    make_empty(tmp_path / "e")
    assert (tmp_path / "e").stat().st_mode & 0o7777 == 0o777


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_group_may_write_all_of_a_volume(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "d/f").touch(mode=0o600)
    (tmp_path / "link").symlink_to("/etc/passwd")
    give_group(tmp_path, OWN)
    assert mode_of(tmp_path / "d") == 0o2770
    assert mode_of(tmp_path / "d/f") == 0o660


def test_group_may_read_a_volume_that_is_not_written(tmp_path: Path) -> None:
    write_files(tmp_path / "v", {"d/k": VolumeFile(b"x", 0o400)}, NOW, OWN)
    assert mode_of(tmp_path / "v/d/k") == 0o440
    assert mode_of(tmp_path / "v/..data/d") == 0o2755


def test_root_that_fits_counts_for_all(tmp_path: Path) -> None:
    give_group(tmp_path, OWN)
    (tmp_path / "f").touch(mode=0o600)
    give_group(tmp_path, OWN, only_on_mismatch=True)
    assert mode_of(tmp_path / "f") == 0o600
    tmp_path.chmod(0o755)
    give_group(tmp_path, OWN, only_on_mismatch=True)
    assert mode_of(tmp_path / "f") == 0o660
