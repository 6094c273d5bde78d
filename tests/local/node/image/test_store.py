from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubewright.local.node.image.image import ImageError
from kubewright.local.node.image.packages import INSTALLATION, leave_out, upstream_version
from kubewright.local.node.image.recipe import Recipe, find_recipe
from kubewright.local.node.image.reference import parse_reference
from kubewright.local.node.image.root import merge_usr, write_files
from kubewright.local.node.image.store import ImageStore, build_image


def recipe_of(name: str) -> Recipe:
    recipe = find_recipe(parse_reference(name))
    assert recipe is not None
    return recipe


@pytest.mark.parametrize(
    ("version", "upstream"), [("1:1.35.0-4+deb12u1", "1.35.0"), ("1.6.18-1", "1.6.18")]
)
def test_upstream_version_is_read_from_debians(version: str, upstream: str) -> None:
    assert upstream_version(version) == upstream


@pytest.mark.parametrize(
    ("tag", "fits"), [("1.6", True), ("1.6.18", True), ("latest", True), ("1.6.1", False)]
)
def test_image_says_when_it_is_not_the_version_asked_for(tag: str, fits: bool) -> None:
    name = f"memcached:{tag}"
    recipe, reference = recipe_of(name), parse_reference(name)
    image = build_image(recipe, reference, "1.6.18-1", Path("/i"), from_host=True)
    note = "" if fits else f'recipe memcached serves Debian\'s 1.6.18 for tag "{tag}"'
    assert image.note == note
    assert image.image_id == "deb://memcached@1.6.18-1"


def test_recipe_keeps_the_contract_of_its_image(tmp_path: Path) -> None:
    recipe = recipe_of("memcached")
    write_files(recipe, tmp_path)
    script = tmp_path / "usr/local/bin/docker-entrypoint.sh"
    assert script.read_text().startswith("#!/bin/sh\n")
    assert os.access(script, os.X_OK)
    assert "memcache:x:11211:11211:" in (tmp_path / "etc/passwd").read_text()
    image = build_image(recipe, parse_reference("memcached"), "1", tmp_path, from_host=True)
    assert image.resolve_user() == (11211, 11211)


def test_leaves_out_what_only_installation_scripts_need() -> None:
    names = ["memcached", "perl-base", "libfile-find-rule-perl", "debconf", "libevent-2.1-7"]
    assert leave_out(names, INSTALLATION) == ["memcached", "libevent-2.1-7"]


def test_merges_bin_into_usr(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/x").touch()
    merge_usr(tmp_path)
    assert (tmp_path / "usr/bin/x").exists()
    assert os.readlink(tmp_path / "bin") == "usr/bin"


async def test_unknown_image_names_the_recipes(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"no recipe makes image .*memcached") as caught:
        await ImageStore(tmp_path).pull("example.com/absent:1")
    assert caught.value.reason == "ErrImagePull"


async def test_missing_packages_are_named_with_the_command_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(recipe_of("memcached"), packages=("no-such-package",))
    monkeypatch.setattr("kubewright.local.node.image.store.find_recipe", lambda reference: recipe)
    with pytest.raises(ImageError, match="no-such-package"):
        await ImageStore(tmp_path).pull("memcached")
    assert os.listdir(tmp_path) == []
