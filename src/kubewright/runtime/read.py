"""How a controller holds a kind that it reads: which objects, and how much of each."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Resource
from kubewright.cache.cache import Cache
from kubewright.cache.reflector import Transform
from kubewright.cache.store import Store
from kubewright.client.requests import Selector


class Read(msgspec.Struct, frozen=True):
    """Hold only a part of a kind: what is not held costs no memory and no traffic.

    Given in `reads=`; a `Watch` of the same resource then sees the same part. Controllers that ask
    for the same part share one store. A kind that is reconciled or owned is always held whole:
    what cannot be seen would be made twice.

    Arguments:
        resource: the kind.
        labels, fields: selectors that the API server applies.
        namespace: the only namespace to look into, also one that the manager does not watch.
        metadata_only: names, labels, owners and the like, no spec and no data.
        transform: a pure function that drops what is not needed, from objects as dicts; metadata
            that the store knows (`Entry.meta`) stays.
        optional: the API server need not serve the kind, such as one of another project whose
            definition comes later or never. The start does not wait for it, the store is empty
            until then, and all objects are looked at when it comes or goes (`Store.is_served`).
    """

    resource: Resource
    labels: Selector | None = None
    fields: Selector | None = None
    namespace: str | None = None
    metadata_only: bool = False
    transform: Transform | None = None
    optional: bool = False

    @property
    def is_selective(self) -> bool:
        """Tell whether some objects of the kind are not held."""
        return bool(self.labels or self.fields or self.namespace)

    def open(self, cache: Cache) -> Store:
        """Return the store that holds this part."""
        return cache.store(
            self.resource,
            namespace=self.namespace,
            labels=self.labels,
            fields=self.fields,
            metadata_only=self.metadata_only,
            transform=self.transform,
            optional=self.optional,
        )


Readable: TypeAlias = Resource | Read


def resolve_reads(
    whole: set[Resource], reads: tuple[Readable, ...], watched: tuple[Resource, ...]
) -> dict[Resource, Read]:
    """Decide how each kind is held: `whole` ones whole, others as `reads` say, else whole.

    Raises:
        ConfigurationError: a kind would be held in two ways.
    """
    held = {resource: Read(resource) for resource in whole}
    for item in reads:
        read = Read(item) if isinstance(item, Resource) else item
        if read == Read(read.resource, optional=True) and read.resource in whole:
            # It says nothing of how the kind is held.
            held[read.resource] = read
            continue
        before = held.setdefault(read.resource, read)
        if before != read and not isinstance(item, Resource):
            raise ConfigurationError(
                f"{read.resource} is to be held in two ways, {before} and {read}: name it once in "
                "reads=; a kind that is reconciled or owned is held whole"
            )
    for resource in watched:
        held.setdefault(resource, Read(resource))
    return held
