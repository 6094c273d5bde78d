from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.local.node.image.archives import (
    PASSWD,
    build_tar,
    folder,
    link,
    write_layout,
    write_saved,
)

from kubewright.local.node.image.archive import open_archive, read_images
from kubewright.local.node.image.image import ImageError
from kubewright.local.node.image.loaded import LoadedImages
from kubewright.local.node.image.store import ImageStore

LAYER = build_tar({"etc": folder(), "etc/passwd": PASSWD, "bin/app": b"#!/bin/sh\n"})


@pytest.fixture
def images(tmp_path: Path) -> LoadedImages:
    return LoadedImages(tmp_path / "images")


def test_saved_image_is_found_by_each_of_its_names(images: LoadedImages, tmp_path: Path) -> None:
    write_saved(tmp_path / "a.tar", [LAYER], ["app:1", "example.com/app:latest"])
    assert images.load(tmp_path / "a.tar") == [
        "docker.io/library/app:1",
        "example.com/app:latest",
    ]
    image = images.find("app:1")
    assert image is not None
    assert image == images.find("docker.io/library/app:1")
    assert (image.entrypoint, image.cmd) == (("/bin/app",), ("run",))
    assert (image.env, image.workdir) == ({"PATH": "/bin", "A": "1"}, "/srv")
    assert (image.stop_signal, image.image_id) == ("SIGQUIT", "sha256:abc")
    assert image.resolve_user() == (7, 8)
    assert image.root is not None
    assert (image.root / "bin/app").read_text() == "#!/bin/sh\n"
    assert images.find("app:2") is None


async def test_loaded_image_goes_before_a_recipe(tmp_path: Path) -> None:
    write_saved(tmp_path / "a.tar", [LAYER], ["memcached:1.6"])
    store = ImageStore(tmp_path / "images")
    store.load(tmp_path / "a.tar")
    image = await store.find("memcached:1.6")
    assert image is not None
    assert image.image_id == "sha256:abc"
    assert [each.name for each in store.loaded()] == ["docker.io/library/memcached:1.6"]


def test_layout_gives_the_image_of_the_machine(images: LoadedImages, tmp_path: Path) -> None:
    write_layout(tmp_path / "a.tar", LAYER, "app:3")
    with open_archive(tmp_path / "a.tar") as archive:
        (found,) = read_images(archive, "x86_64")
        assert found.names == ("app:3",)
        assert read_images(archive, "aarch64") == []


def test_layout_may_be_a_folder(images: LoadedImages, tmp_path: Path) -> None:
    write_layout(tmp_path / "a.tar", LAYER, "app:3")
    with tarfile.open(tmp_path / "a.tar") as tar:
        tar.extractall(tmp_path / "layout", filter="data")
    with open_archive(tmp_path / "layout") as archive:
        assert len(read_images(archive, "x86_64")) == 1


def test_image_without_a_name_needs_one(images: LoadedImages, tmp_path: Path) -> None:
    write_saved(tmp_path / "a.tar", [LAYER], [])
    with pytest.raises(ImageError, match="has no name: say one with --name"):
        images.load(tmp_path / "a.tar")
    assert images.load(tmp_path / "a.tar", "mine:1") == ["docker.io/library/mine:1"]


def test_what_is_no_image_says_so(images: LoadedImages, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(ImageError, match="is no archive of images"):
        images.load(tmp_path / "text")
    (tmp_path / "a.tar").write_bytes(build_tar({"x": b""}))
    with pytest.raises(ImageError, match="it is no image"):
        images.load(tmp_path / "a.tar")


def test_later_layers_change_and_remove(images: LoadedImages, tmp_path: Path) -> None:
    lower = build_tar({"a": b"1", "b": b"1", "d/x": b"1", "d/y": b"1"})
    upper = build_tar({"a": b"2", ".wh.b": b"", "d/.wh..wh..opq": b"", "d/z": b"2"})
    write_saved(tmp_path / "a.tar", [lower, upper], ["app:1"])
    images.load(tmp_path / "a.tar")
    image = images.find("app:1")
    assert image is not None
    assert image.root is not None
    files = {str(f.relative_to(image.root)) for f in image.root.rglob("*") if f.is_file()}
    assert files == {"a", "d/z"}
    assert (image.root / "a").read_bytes() == b"2"


def test_links_lead_where_they_would_from_inside(images: LoadedImages, tmp_path: Path) -> None:
    """A link to / or above the root must not let a layer write to the machine."""
    layer = build_tar(
        {
            "run": folder(),
            "var/run": link("/run"),
            "var/run/pid": b"1",
            "out": link("../../../.."),
            "out/escaped": b"1",
            "hard": link("run/pid", tarfile.LNKTYPE),
        }
    )
    write_saved(tmp_path / "a.tar", [layer], ["app:1"])
    images.load(tmp_path / "a.tar")
    image = images.find("app:1")
    assert image is not None
    assert image.root is not None
    assert (image.root / "run/pid").read_bytes() == b"1"
    assert (image.root / "escaped").exists()
    assert (image.root / "hard").stat().st_ino == (image.root / "run/pid").stat().st_ino


def test_image_that_lost_its_names_is_removed(images: LoadedImages, tmp_path: Path) -> None:
    write_layout(tmp_path / "a.tar", LAYER, "app:1")
    write_saved(tmp_path / "b.tar", [LAYER], ["app:1"])
    images.load(tmp_path / "a.tar")
    images.load(tmp_path / "b.tar")
    assert [folder.name for folder in (tmp_path / "images/loaded").iterdir()] == ["sha256-abc"]
