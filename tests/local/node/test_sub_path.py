from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.local.node.sub_path import LeavesVolume, prepare_sub_path


def test_links_within_the_volume_are_followed(tmp_path: Path) -> None:
    (tmp_path / "..1").mkdir()
    (tmp_path / "..1/k").write_text("x")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "k").symlink_to("..data/k")
    assert str(prepare_sub_path(tmp_path, "k")) == "..1/k"


def test_missing_folders_have_the_rights_of_the_volume(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    prepare_sub_path(tmp_path, "a/b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o770
    assert (tmp_path / "a/b").is_dir()


@pytest.mark.parametrize("target", ["/etc", "../..", "self"])
def test_links_out_of_the_volume_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "self").symlink_to(target)
    with pytest.raises(LeavesVolume):
        prepare_sub_path(tmp_path, "self/x")
