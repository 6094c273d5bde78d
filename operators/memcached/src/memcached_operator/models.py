"""The Memcached kind: what a user may ask for, and what the operator answers."""

from __future__ import annotations

from pydantic import BaseModel, Field

import kubewright as kw


class MemcachedSpec(BaseModel):
    """What a user asks for."""

    size: int = Field(ge=1, le=100, description="Number of memcached pods.")
    version: str = Field(
        pattern=r"^[0-9]+(\.[0-9]+){0,2}$", description="Tag of the memcached image, such as 1.6.9."
    )


class MemcachedStatus(kw.Status):
    """What the operator answers."""

    nodes: list[str] = Field(default_factory=list, description="Names of the ready pods, sorted.")
    replicas: int = Field(default=0, description="Number of pods that exist.")
    ready_replicas: int = Field(default=0, description="Number of pods that are ready.")
    selector: str = Field(default="", description="Label selector of the pods, for autoscalers.")


class Memcached(
    kw.CustomResource[MemcachedSpec, MemcachedStatus],
    group="cache.example.com",
    version="v1alpha1",
    scale=kw.Scale(spec="spec.size", status="status.replicas", selector="status.selector"),
    columns=[
        kw.Column("Size", "spec.size", description="Number of pods asked for."),
        kw.Column("Nodes", "status.readyReplicas", description="Number of pods that are ready."),
        kw.Column("Version", "spec.version"),
        kw.Column("Ready", kw.ready),
    ],
):
    """A pool of memcached servers, each with an address of its own."""
