from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.local.node.image.recipe import find_recipe, load_recipes, parse_recipe
from kubewright.local.node.image.reference import parse_reference
from kubewright.local.node.image.store import build_image


def test_finds_the_recipe_of_an_image_by_any_of_its_names() -> None:
    for name in ("memcached:1.6.9", "docker.io/library/memcached", "memcached@sha256:" + "a" * 64):
        recipe = find_recipe(parse_reference(name))
        assert recipe is not None
        assert recipe.name == "memcached"


def test_an_image_of_another_distribution_is_told_from_the_one_that_serves_it() -> None:
    reference = parse_reference("ubuntu:latest")
    recipe = find_recipe(reference)
    assert recipe is not None
    image = build_image(recipe, reference, "12.4+deb12u9", Path("/store"), from_host=True)
    assert image.note == (
        'recipe debian serves Debian\'s 12.4 for image "docker.io/library/ubuntu:latest"'
    )


def test_other_registries_are_other_images() -> None:
    assert find_recipe(parse_reference("example.com/library/memcached:1.6")) is None


def test_users_that_recipes_name_are_in_them() -> None:
    for recipe in load_recipes():
        name = recipe.user.partition(":")[0]
        assert not name or name.isdigit() or name in {user.name for user in recipe.users}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = ", "Invalid value"),
        ('name = "x"', "missing required field `images`"),
        ('name = "x"\nimages = []\npackages = ["p"]\ncolour = 1', "colour"),
        ('name = "x"\nimages = []\npackages = []', "at least one Debian package"),
    ],
)
def test_refuses_a_wrong_recipe(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parse_recipe(text, "x.toml")
