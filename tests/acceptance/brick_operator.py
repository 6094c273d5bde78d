"""A program as a user writes it: bricks in two versions, filled in, checked and converted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

import kubewright as kw


class BrickSpec(BaseModel):
    """What a user asks for."""

    weight: int = 1
    colour: str = ""


class OldBrickSpec(BaseModel):
    """What a user asked for, when weights were text."""

    weight: str = "1"
    colour: str = ""


class Brick(kw.CustomResource[BrickSpec, kw.Status], group="bricks.example.com", version="v1"):
    """A brick."""


class OldBrick(
    kw.CustomResource[OldBrickSpec, kw.Status],
    group="bricks.example.com",
    version="v1beta1",
    kind="Brick",
    storage=False,
):
    """A brick, as it was."""


operator = kw.Operator("brick-operator")


@operator.desired(Brick, owns=[kw.builtin.CONFIG_MAP])
def build_children(brick: Brick) -> Iterable[kw.Object]:
    """Build the ConfigMap that tells of a brick."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": brick.metadata.name},
        "data": {"colour": brick.spec.colour},
    }


@operator.default(Brick)
def paint(brick: Brick) -> None:
    """Paint what has no colour."""
    brick.spec.colour = brick.spec.colour or "red"


@operator.validate(Brick)
def weigh(new: Brick, old: Brick | None) -> Iterator[str]:
    """Refuse what nobody can lift."""
    if new.spec.weight > 10:
        raise ValueError("spec.weight: nobody lifts more than 10")
    if new.spec.weight > 5:
        yield "lift it with both hands"


@operator.convert(OldBrick, Brick)
def from_old(old: OldBrick) -> Brick:
    """Read the weight."""
    spec = BrickSpec(weight=int(old.spec.weight), colour=old.spec.colour)
    return Brick(metadata=old.metadata, spec=spec, status=old.status)


@operator.convert(Brick, OldBrick)
def to_old(new: Brick) -> OldBrick:
    """Write the weight."""
    spec = OldBrickSpec(weight=str(new.spec.weight), colour=new.spec.colour)
    return OldBrick(metadata=new.metadata, spec=spec, status=new.status)
