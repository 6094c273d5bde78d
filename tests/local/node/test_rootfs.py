from __future__ import annotations

from pathlib import Path

from kubewright.local.node.image.image import Image
from kubewright.local.node.rootfs import (
    DEVICES,
    capability_numbers,
    list_devices,
    plan_mounts,
    remove_tree,
)
from kubewright.local.node.runtime import Mount

IMAGE = Image("x", "x", root=Path("/images/x/root"))


def test_image_folder_is_the_lower_layer() -> None:
    first = plan_mounts(IMAGE, [])[0]
    assert first == {"do": "overlay", "source": "/images/x/root", "target": ""}


def test_outer_mounts_come_before_inner_ones() -> None:
    mounts = [Mount("/a/b", Path("/x")), Mount("/a", Path("/y"), read_only=True)]
    steps = [s for s in plan_mounts(IMAGE, mounts) if s.get("target", "").startswith("/a")]
    assert [(step["target"], step["writable"]) for step in steps] == [("/a", False), ("/a/b", True)]


def test_machines_usr_serves_without_its_local_part(tmp_path: Path) -> None:
    for name in ("usr/bin", "usr/local", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    steps = plan_mounts(Image("x", "x"), [], host=tmp_path)
    targets = {step["target"]: step for step in steps}
    assert targets["/usr/bin"]["writable"] is False
    assert "/usr/local" not in targets
    assert targets["/bin"]["source"] == "usr/bin"


def test_kernel_settings_are_protected_unless_privileged() -> None:
    protected = {s["target"] for s in plan_mounts(IMAGE, []) if s["do"] == "protect"}
    assert "/proc/sys" in protected
    assert not [s for s in plan_mounts(IMAGE, [], privileged=True) if s["do"] == "protect"]


def test_privileged_container_has_the_machines_devices(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/text").touch()
    assert list_devices(tmp_path) == sorted(DEVICES)
    assert "null" in list_devices(Path("/"))


def test_unreadable_folders_are_removed(tmp_path: Path) -> None:
    (tmp_path / "c/work").mkdir(parents=True)
    (tmp_path / "c/work").chmod(0)
    remove_tree(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_reads_capabilities_from_a_mask() -> None:
    assert capability_numbers(0b1011) == [0, 1, 3]
