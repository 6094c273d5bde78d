"""The rotation of our own certificates: what is due, and what comes of it. Nothing here does I/O.

A new authority goes through two steps, so that at no moment a server shows what a client does not
trust. It is introduced: clients trust it beside the old one, and nothing changes for the servers.
When that is known everywhere, it signs a new serving certificate. The old authority stays trusted
until it expires: a replica that has not heard of the change still shows what it signed.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from kubewright.webhook.certificate import (
    Lifetimes,
    Material,
    is_signed_by,
    make_authority,
    make_serving,
    names_of,
)


class Step(enum.Enum):
    """What to do next."""

    NOTHING = "nothing is due"
    FORGET = "forget authorities that expired"
    ISSUE = "issue a serving certificate"
    INTRODUCE = "introduce a new authority"
    WAIT = "wait until the new authority is trusted"
    RENEW_ALL = "begin anew: nothing valid is left to serve"


def plan_rotation(
    material: Material,
    names: Collection[str],
    now: datetime,
    lifetimes: Lifetimes,
    *,
    is_trusted: bool,
) -> Step:
    """Decide what is due; `is_trusted` tells whether clients know the newest authority by now."""
    newest = material.authorities[0]
    if now >= newest.not_valid_after_utc or not _is_signed(material, now):
        return Step.RENEW_ALL
    if now >= material.serving.not_valid_after_utc:
        return Step.ISSUE
    has_names = set(names) <= names_of(material.serving)
    if material.is_waiting:
        # A certificate of the wrong names is refused anyway: there is nothing to wait for.
        return Step.ISSUE if is_trusted or not has_names else Step.WAIT
    if now >= newest.not_valid_after_utc - lifetimes.authority / 3:
        return Step.INTRODUCE
    if not has_names or now >= material.serving.not_valid_after_utc - _third(material, lifetimes):
        return Step.ISSUE
    if any(now >= authority.not_valid_after_utc for authority in material.authorities):
        return Step.FORGET
    return Step.NOTHING


def rotate(
    material: Material, step: Step, names: Sequence[str], now: datetime, lifetimes: Lifetimes
) -> Material:
    """Return what a step makes of the material."""
    if step in (Step.NOTHING, Step.WAIT):
        return material
    alive = tuple(each for each in material.authorities if now < each.not_valid_after_utc)
    if step is Step.RENEW_ALL:
        fresh = make_material(names, now, lifetimes)
        return replace(fresh, authorities=(*fresh.authorities, *alive))
    if step is Step.INTRODUCE:
        authority, key = make_authority(now, lifetimes.authority)
        return replace(material, authorities=(authority, *alive), authority_key=key)
    if step is Step.ISSUE:
        serving, key = make_serving(
            material.authorities[0], material.authority_key, names, now, lifetimes.serving
        )
        return replace(material, authorities=alive, serving=serving, serving_key=key)
    return replace(material, authorities=alive)


def make_material(names: Sequence[str], now: datetime, lifetimes: Lifetimes) -> Material:
    """Make an authority and the serving certificate that it signs."""
    authority, authority_key = make_authority(now, lifetimes.authority)
    serving, key = make_serving(authority, authority_key, names, now, lifetimes.serving)
    return Material((authority,), authority_key, serving, key)


def _is_signed(material: Material, now: datetime) -> bool:
    return any(
        is_signed_by(material.serving, authority)
        for authority in material.authorities
        if now < authority.not_valid_after_utc
    )


def _third(material: Material, lifetimes: Lifetimes) -> timedelta:
    """A third of the life of the serving certificate, which its authority's end may have cut."""
    left = material.serving.not_valid_after_utc - material.serving.not_valid_before_utc
    return min(lifetimes.serving, left) / 3
