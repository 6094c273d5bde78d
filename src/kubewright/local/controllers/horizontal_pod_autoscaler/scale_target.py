"""The target of an autoscaler, of any kind that has the scale subresource."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec

from kubewright.api.errors import APIError, Conflict, KubewrightError, NotFound
from kubewright.api.resource import GroupVersionKind, Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.local.controllers.horizontal_pod_autoscaler.refusal import describe_refusal

_ATTEMPTS = 5


class TargetUnavailable(KubewrightError):
    """A target cannot be found or not be scaled; the message says why."""


class ScaleTarget(msgspec.Struct):
    """A target and its scale as it was last read."""

    client: Client
    resource: Resource
    namespace: str
    name: str
    scale: Object

    @property
    def wanted(self) -> int:
        """The replicas that the target's spec has."""
        return int((self.scale.get("spec") or {}).get("replicas") or 0)

    @property
    def observed(self) -> int:
        """The replicas that the target's status has."""
        return int((self.scale.get("status") or {}).get("replicas") or 0)

    @property
    def selector(self) -> str:
        """The selector of the target's pods as text."""
        return str((self.scale.get("status") or {}).get("selector") or "")

    async def rescale(self, replicas: int) -> None:
        """Set the replicas, unless somebody else changes the target all the time.

        Raises:
            APIError: the server refused.
        """
        for attempt in range(_ATTEMPTS):
            version = self.scale["metadata"].get("resourceVersion")
            patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
            try:
                await self.client.patch(
                    self.resource,
                    self.name,
                    patch,
                    type=PatchType.MERGE,
                    namespace=self.namespace,
                    subresource="scale",
                )
                return
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            self.scale = await _read_scale(self.client, self.resource, self.namespace, self.name)


async def find_target(client: Client, namespace: str, reference: Object) -> ScaleTarget:
    """Find what `spec.scaleTargetRef` names; another version of its kind will do.

    Raises:
        TargetUnavailable: the kind is not served, the object not there, or it has no scale.
    """
    version, kind, name = reference.get("apiVersion") or "", reference["kind"], reference["name"]
    if version.count("/") > 1:
        raise TargetUnavailable(f"unexpected GroupVersion string: {version}")
    first: APIError | None = None
    asked = ""
    async for resource in _find_resources(client, GroupVersionKind.parse(version, kind)):
        try:
            scale = await _read_scale(client, resource, namespace, name)
        except APIError as error:
            first, asked = first or error, asked or f"{resource.group_resource} {name}"
            continue
        return ScaleTarget(client, resource, namespace, name, scale)
    if first is not None:
        raise TargetUnavailable(describe_refusal(first, asked)) from first
    group = GroupVersionKind.parse(version, kind).group
    raise TargetUnavailable(f'no matches for kind "{kind}" in group "{group}"')


async def _read_scale(client: Client, resource: Resource, namespace: str, name: str) -> Object:
    return await client.get(resource, name, namespace=namespace, subresource="scale")


async def _find_resources(client: Client, gvk: GroupVersionKind) -> AsyncIterator[Resource]:
    """Yield the resources that serve a kind: in the version that is named, then in all others."""
    for version in [gvk.version, *await _list_versions(client, gvk)]:
        try:
            found = await client.mapper.resource_for(gvk._replace(version=version))
        except NotFound:
            continue
        yield found


async def _list_versions(client: Client, gvk: GroupVersionKind) -> list[str]:
    if not gvk.group or not re.fullmatch(r"[a-z0-9.-]+", gvk.group):
        return []
    try:
        body = await client.request("GET", f"/apis/{gvk.group}")
    except NotFound:
        return []
    versions = msgspec.json.decode(body).get("versions") or ()
    return [each["version"] for each in versions if each["version"] != gvk.version]
