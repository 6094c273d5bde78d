"""Object metadata as typed structs: what a cache keeps decoded of every object."""

from __future__ import annotations

import msgspec

from kubewright.api.resource import NamespacedName, Object


class OwnerReference(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A reference from a dependent object to its owner; garbage collection follows the `uid`.

    `api_version`, `kind` and `name` say which object it is. At most one owner is the `controller`;
    `block_owner_deletion` makes a foreground deletion of the owner wait for the dependent.
    """

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """The metadata of an object, without `managedFields`.

    What the server sets: `uid`, `resource_version`, `generation` (of the spec),
    `creation_timestamp`, and once it is deleted `deletion_timestamp` and
    `deletion_grace_period_seconds`. What its authors set: `name`, or `generate_name` for the server
    to complete, `namespace`, `labels`, `annotations`, `owner_references` and `finalizers`.

    Times stay RFC 3339 text: most readers compare or copy them, few need a datetime. The garbage
    collector does not look into it: nothing in it can refer back.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def key(self) -> NamespacedName:
        """The key of the object among those of its kind."""
        return NamespacedName(self.namespace, self.name)

    @property
    def is_deleting(self) -> bool:
        """Tell whether the object was deleted and waits for its finalizers or its grace period."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object; there is at most one."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class PartialObject(msgspec.Struct, rename="camel", omit_defaults=True):
    """An object of which only type and metadata are decoded; unknown fields are skipped."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


_decode_partial = msgspec.json.Decoder(PartialObject).decode


def decode_metadata(raw: bytes) -> ObjectMeta:
    """Decode only the metadata of an object from its JSON text.

    Raises:
        msgspec.ValidationError: the metadata has a field of a wrong type.
        msgspec.DecodeError: the text is not JSON.
    """
    return _decode_partial(raw).metadata


def build_owner_reference(
    owner: Object, *, controller: bool = True, block_owner_deletion: bool = True
) -> Object:
    """Build the reference that makes `owner` the owner of another object.

    The owner must come from the API server: a reference without its `uid` owns nothing.

    Arguments:
        owner: the object; both must be in one namespace, or the owner belong to the cluster.
        controller: whether it is the one that manages the other object; an object has one at most.
        block_owner_deletion: whether a foreground deletion of the owner waits for the object.

    Raises:
        KeyError: the owner has no name or `uid`: it was not read from the API server.
    """
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
    }


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference marked as controller of a decoded object, if there is one."""
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)
