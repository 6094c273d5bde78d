from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubewright.local.node.image.image import ImageError
from kubewright.local.node.image.recipe import parse_recipe
from kubewright.local.node.image.root import drop_documents, merge_run, merge_usr, write_files

TEXT = """
name = "x"
images = ["x"]
packages = ["x"]
[links]
"/etc/x/my.cnf" = "x.cnf"
[[folders]]
path = "/run/x"
mode = 0o1777
[[edits]]
path = "/etc/x/x.cnf"
pattern = "(?m)^(bind)"
text = "#\\\\1"
"""


def test_recipe_links_opens_and_edits(tmp_path: Path) -> None:
    (tmp_path / "etc/x").mkdir(parents=True)
    (tmp_path / "etc/x/x.cnf").write_text("a=1\nbind=2\n")
    write_files(parse_recipe(TEXT, "x"), tmp_path)
    assert os.readlink(tmp_path / "etc/x/my.cnf") == "x.cnf"
    assert (tmp_path / "run/x").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "etc/x/x.cnf").read_text() == "a=1\n#bind=2\n"


def test_edit_without_anything_to_edit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "etc/x").mkdir(parents=True)
    (tmp_path / "etc/x/x.cnf").write_text("a=1\n")
    with pytest.raises(ImageError, match=r"x.cnf has nothing that matches"):
        write_files(parse_recipe(TEXT, "x"), tmp_path)


def test_documents_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "usr/share/doc/x").mkdir(parents=True)
    (tmp_path / "usr/share/x").mkdir()
    drop_documents(tmp_path)
    assert [entry.name for entry in (tmp_path / "usr/share").iterdir()] == ["x"]


def test_sockets_of_servers_are_in_one_place(tmp_path: Path) -> None:
    """base-files has /var/run as a folder; Debian's scripts make it a link."""
    (tmp_path / "var/run/x").mkdir(parents=True)
    (tmp_path / "run/y").mkdir(parents=True)
    merge_run(tmp_path)
    assert os.readlink(tmp_path / "var/run") == "../run"
    assert os.readlink(tmp_path / "var/lock") == "../run/lock"
    assert sorted(entry.name for entry in (tmp_path / "run").iterdir()) == ["lock", "x", "y"]
    merge_run(tmp_path)


def test_link_that_two_packages_have_is_moved_once(tmp_path: Path) -> None:
    """Both libsystemd0 and libelogind0 bring libsystemd.so.0, one of them below /usr."""
    for folder in ("lib", "usr/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "lib/libsystemd.so.0").symlink_to("libelogind.so.0")
    (tmp_path / "usr/lib/libsystemd.so.0").symlink_to("libsystemd.so.0.35")
    (tmp_path / "usr/lib/other").write_text("stays")
    merge_usr(tmp_path)
    assert (tmp_path / "lib").readlink() == Path("usr/lib")
    assert (tmp_path / "usr/lib/libsystemd.so.0").readlink() == Path("libelogind.so.0")
    assert (tmp_path / "lib/other").read_text() == "stays"
