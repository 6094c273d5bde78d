from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.local.node.host_path import MountError, check_host_path


def test_host_path_must_be_what_its_type_says(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="is not a file, it's a Directory"):
        check_host_path({"path": str(tmp_path), "type": "File"})
    missing = tmp_path / "missing"
    with pytest.raises(MountError, match="does not exist"):
        check_host_path({"path": str(missing), "type": "Directory"})
    assert check_host_path({"path": str(missing), "type": "DirectoryOrCreate"}).is_dir()


def test_file_or_create_makes_no_folders(tmp_path: Path) -> None:
    made = check_host_path({"path": str(tmp_path / "f"), "type": "FileOrCreate"})
    assert made.stat().st_mode & 0o777 == 0o644
    missing = tmp_path / "no/f"
    with pytest.raises(MountError, match=f"open {missing}: no such file or directory"):
        check_host_path({"path": str(missing), "type": "FileOrCreate"})


def test_type_that_creates_still_checks_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.touch()
    with pytest.raises(MountError, match="is not a directory, it's a File"):
        check_host_path({"path": str(file), "type": "DirectoryOrCreate"})


def test_path_of_no_type_is_made_as_a_folder(tmp_path: Path) -> None:
    assert check_host_path({"path": str(tmp_path / "a/b")}).is_dir()
    assert check_host_path({"path": "/dev/null", "type": "CharDevice"}) == Path("/dev/null")
