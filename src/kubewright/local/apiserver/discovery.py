"""Discovery: which groups, versions and resources there are, in the old form and the new one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from kubewright.api.errors import NotAcceptable
from kubewright.api.resource import Object
from kubewright.local.apiserver.aggregation import Aggregator
from kubewright.local.apiserver.builtin.discovery import (
    GroupVersion,
    group_versions,
    storage_version_hash,
)
from kubewright.local.apiserver.exchange import Request, Response, encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.negotiation import Media, negotiate, parse_accept
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.representation import represent

_STATUS_VERBS = ("get", "patch", "update")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


class Discovery:
    """Answers discovery from the registry, and of what aggregated API servers serve.

    Aggregated documents are built once per change.
    """

    def __init__(self, registry: Registry, aggregator: Aggregator) -> None:
        self._registry = registry
        self._aggregator = aggregator
        self._builtin = {(gv.group, gv.version): gv for gv in group_versions()}
        self._documents: dict[tuple[str, str], tuple[tuple[int, int], bytes, str]] = {}

    def answer(self, request: Request, segments: Sequence[str], address: str) -> Response | None:
        """Answer `/api`, `/apis` and what is below them; None where nothing is served there."""
        root, *rest = segments
        if not rest:
            if version := _wants_aggregated(request):
                return self._aggregated(request, root, version)
            media = negotiate(request.header("accept"), convertible=False)
            body = self._api_versions(address) if root == "api" else self._group_list()
            return represent(request, media, 200, encode_json(body))
        media = _plain(request)
        if root == "api":
            found = self._resources("", rest[0]) if len(rest) == 1 else None
        elif len(rest) == 1:
            found = self._group(rest[0]) if rest[0] in self.groups() else None
        else:
            found = self._resources(rest[0], rest[1]) if len(rest) == 2 else None
        return None if found is None else represent(request, media, 200, encode_json(found))

    def _api_versions(self, address: str) -> Object:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def _group_list(self) -> Object:
        groups = [self._group_body(group) for group in self.groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> Object:
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group_body(group)}

    def _group_body(self, group: str) -> Object:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self.versions(group)
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def groups(self) -> list[str]:
        """Return the named groups, those of other API servers last."""
        own = self._registry.groups()
        return own + [group for group in self._aggregator.groups() if group and group not in own]

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group, the preferred one first."""
        # Built-in versions keep their own order: autoscaling prefers v2, events v1.
        builtin = [version for name, version in self._builtin if name == group]
        others = [*self._registry.group_versions(group), *self._aggregator.versions(group)]
        return builtin + [v for v in dict.fromkeys(others) if v not in builtin]

    def _resources(self, group: str, version: str) -> Object | None:
        builtin = self._builtin.get((group, version))
        kinds = self._custom(group, version)
        if builtin is None and not kinds:
            return None
        if builtin is not None:
            body = builtin.resource_list()
        else:
            name = f"{group}/{version}"
            body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name}
            body["resources"] = []
        for kind in kinds:
            body["resources"] += _resource_entries(kind)
        return body

    def _custom(self, group: str, version: str) -> list[ServedKind]:
        kinds = self._registry.of_version(group, version)
        return [kind for kind in kinds if kind.is_custom]

    def _aggregated(self, request: Request, root: str, version: str) -> Response:
        key = (root, version)
        known = self._documents.get(key)
        generation = (self._registry.generation, self._aggregator.generation)
        if known is None or known[0] != generation:
            body = encode_json(self._document(root, version))
            tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
            known = self._documents[key] = (generation, body, tag)
        _, body, tag = known
        headers = [("ETag", tag), ("Vary", "Accept")]
        if request.header("if-none-match") == tag:
            return Response(304, b"", _AGGREGATED.format(version), headers)
        return Response(200, body, _AGGREGATED.format(version), headers)

    def _document(self, root: str, version: str) -> Object:
        groups = [""] if root == "api" else self.groups()
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [self._aggregated_version(group, v) for v in self.versions(group)],
            }
            for group in groups
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }

    def _aggregated_version(self, group: str, version: str) -> Object:
        builtin: GroupVersion | None = self._builtin.get((group, version))
        if builtin is not None:
            body = builtin.aggregated()
        else:
            body = {"version": version, "resources": [], "freshness": "Current"}
        custom = self._custom(group, version)
        if not custom and self._aggregator.find(group, version) is not None:
            return self._aggregator.discovered(group, version)
        body["resources"] += [_aggregated_entry(kind) for kind in custom]
        return body


def _wants_aggregated(request: Request) -> str:
    """Return the version of the aggregated form that is wanted before any other; empty for none.

    Raises:
        NotAcceptable: nothing in the Accept header is served.
    """
    header = request.header("accept")
    if "APIGroupDiscoveryList" not in header:
        return ""
    for media_type, params in parse_accept(header):
        if media_type not in ("application/json", "*/*"):
            continue
        if "as" not in params:
            return ""
        is_ours = params.get("g") == "apidiscovery.k8s.io"
        if is_ours and params.get("v") in ("v2", "v2beta1"):
            # v2beta1 is gone from 1.37; clients that ask for it get what it became.
            return "v2" if params["v"] == "v2" else "v2beta1"
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf, "
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        None,
    )


def _plain(request: Request) -> Media:
    return negotiate(request.header("accept"), convertible=False)


def _resource_entries(kind: ServedKind) -> list[Object]:
    """Build the entries of a custom kind in an APIResourceList."""
    resource = kind.resource
    main: Object = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    stored = kind.stored_as
    main["storageVersionHash"] = storage_version_hash(stored.group, stored.version, stored.kind)
    entries = [main]
    if kind.strategy.has_status:
        entries.append(_sub_entry(kind, "status", resource.kind))
    if kind.scale:
        scale = {"group": "autoscaling", "version": "v1"}
        entries.append(_sub_entry(kind, "scale", "Scale") | scale)
    return entries


def _sub_entry(kind: ServedKind, name: str, kind_name: str) -> Object:
    return {
        "name": f"{kind.resource.plural}/{name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
        "kind": kind_name,
        "verbs": list(_STATUS_VERBS),
    }


def _aggregated_entry(kind: ServedKind) -> Object:
    """Build the entry of a custom kind in aggregated discovery."""
    resource = kind.resource
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    entry: Object = {
        "resource": resource.plural,
        "responseKind": own,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    subresources: list[Object] = []
    if kind.strategy.has_status:
        subresources.append(_aggregated_sub("status", own))
    if kind.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        subresources.append(_aggregated_sub("scale", scale))
    if subresources:
        entry["subresources"] = subresources
    return entry


def _aggregated_sub(name: str, response_kind: Object) -> Object:
    return {"subresource": name, "responseKind": response_kind, "verbs": list(_STATUS_VERBS)}
