"""What is due when: at no moment is anything shown that is not trusted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kubewright.webhook.certificate import Lifetimes, Material, is_signed_by, names_of
from kubewright.webhook.certificate_rotation import Step, make_material, plan_rotation, rotate

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LIFETIMES = Lifetimes(authority=timedelta(days=300), serving=timedelta(days=90))
NAMES = ["hooks.system.svc", "127.0.0.1"]


@pytest.fixture
def material() -> Material:
    return make_material(NAMES, NOW, LIFETIMES)


def plan(
    material: Material, days: float, *, is_trusted: bool = True, names: list[str] = NAMES
) -> Step:
    now = NOW + timedelta(days=days)
    return plan_rotation(material, names, now, LIFETIMES, is_trusted=is_trusted)


@pytest.mark.parametrize(
    ("days", "step"), [(0, Step.NOTHING), (59, Step.NOTHING), (61, Step.ISSUE), (91, Step.ISSUE)]
)
def test_a_serving_certificate_is_renewed_at_two_thirds_of_its_life(
    material: Material, days: float, step: Step
) -> None:
    assert plan(material, days) is step


@pytest.mark.parametrize(
    ("days", "step"), [(199, Step.NOTHING), (201, Step.INTRODUCE), (301, Step.RENEW_ALL)]
)
def test_an_authority_is_renewed_at_two_thirds_of_its_life(
    material: Material, days: float, step: Step
) -> None:
    shortly_before = NOW + timedelta(days=min(days - 1, 299))

    assert plan(rotate(material, Step.ISSUE, NAMES, shortly_before, LIFETIMES), days) is step


def test_a_new_authority_signs_only_when_it_is_trusted(material: Material) -> None:
    at = NOW + timedelta(days=201)
    fresh = rotate(material, Step.ISSUE, NAMES, at, LIFETIMES)
    introduced = rotate(fresh, Step.INTRODUCE, NAMES, at, LIFETIMES)

    assert introduced.serving is fresh.serving
    assert introduced.authorities[1:] == fresh.authorities
    assert plan(introduced, 202, is_trusted=False) is Step.WAIT
    assert plan(introduced, 202, is_trusted=True) is Step.ISSUE

    issued = rotate(introduced, Step.ISSUE, NAMES, NOW + timedelta(days=202), LIFETIMES)
    assert is_signed_by(issued.serving, introduced.authorities[0])
    assert issued.authorities == introduced.authorities
    assert plan(issued, 203) is Step.NOTHING


def test_an_old_authority_is_trusted_until_it_expires(material: Material) -> None:
    at = NOW + timedelta(days=250)
    material = rotate(material, Step.INTRODUCE, NAMES, at, LIFETIMES)
    material = rotate(material, Step.ISSUE, NAMES, at, LIFETIMES)

    assert plan(material, 299) is Step.NOTHING
    assert plan(material, 301) is Step.FORGET
    forgotten = rotate(material, Step.FORGET, NAMES, NOW + timedelta(days=301), LIFETIMES)
    assert forgotten.authorities == material.authorities[:1]


def test_a_serving_certificate_ends_before_its_authority(material: Material) -> None:
    late = rotate(material, Step.ISSUE, NAMES, NOW + timedelta(days=280), LIFETIMES)

    assert late.serving.not_valid_after_utc == material.authorities[0].not_valid_after_utc


def test_other_names_ask_for_another_certificate(material: Material) -> None:
    renamed = ["laptop.example.com"]

    assert plan(material, 1, names=renamed) is Step.ISSUE
    issued = rotate(material, Step.ISSUE, renamed, NOW, LIFETIMES)
    assert names_of(issued.serving) == {"laptop.example.com"}


def test_where_nothing_valid_is_left_all_is_made_anew(material: Material) -> None:
    at = NOW + timedelta(days=400)

    assert plan(material, 400) is Step.RENEW_ALL
    renewed = rotate(material, Step.RENEW_ALL, NAMES, at, LIFETIMES)
    assert len(renewed.authorities) == 1
    assert is_signed_by(renewed.serving, renewed.authorities[0])


def test_what_no_known_authority_signed_is_made_anew(material: Material) -> None:
    stranger = make_material(NAMES, NOW, LIFETIMES)
    mixed = replace(material, serving=stranger.serving, serving_key=stranger.serving_key)

    assert plan(mixed, 1) is Step.RENEW_ALL
    renewed = rotate(mixed, Step.RENEW_ALL, NAMES, NOW, LIFETIMES)
    assert is_signed_by(renewed.serving, renewed.authorities[0])
    assert renewed.authorities[1:] == material.authorities
