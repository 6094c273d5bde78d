"""pods/log: what a container wrote, fetched from its node."""

from __future__ import annotations

import re

from kubewright.api.errors import APIError, BadRequest, Cause, Invalid, NotFound
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Answer, Response
from kubewright.local.apiserver.node_proxy import NodeAddress, NodeProxy
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.routes import Handler

_FLAGS = ("follow", "previous", "timestamps")
_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
_OTHERS = ("sinceTime", "stream")
_ONE_BEGINNING = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"


def build_log_handler(proxy: NodeProxy) -> Handler:
    """Build the handler of GET …/pods/NAME/log."""

    async def read_log(call: Call) -> Answer:
        pod = (await call.read()).object()
        query = _query(call)
        container = _container(call, pod)
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            # Nothing has run yet, so that there is nothing to read.
            return Response(204, b"", "")
        address = find_address(call, node)
        path = f"/containerLogs/{call.namespace}/{call.name}/{container}"
        return await proxy.get(address, path, query)

    return read_log


def _query(call: Call) -> list[tuple[str, str]]:
    """Return the options for the node.

    Raises:
        BadRequest: a number cannot be read.
        Invalid: it is out of its range, or two options exclude one another.
    """
    request = call.request
    query = [(name, "true") for name in _FLAGS if request.flag(name)]
    causes: list[Cause] = []
    for name, least in _LEAST.items():
        text = request.param(name)
        if not text:
            continue
        if not re.fullmatch(r"[-+]?\d+", text):
            raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax', None)
        if name == "sinceSeconds" and request.param("sinceTime"):
            causes.append(Cause("FieldValueForbidden", _ONE_BEGINNING, "[]"))
        elif int(text) < least:
            rule = "must be greater than 0" if least else "must be greater than or equal to 0"
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {text}: {rule}", name))
        query.append((name, text))
    if causes:
        raise Invalid.of("", "PodLogOptions", call.name, causes)
    return query + [(name, request.param(name)) for name in _OTHERS if request.param(name)]


def _container(call: Call, pod: Object) -> str:
    """Return the container that is meant.

    Raises:
        BadRequest: there is none of that name, or several and none was named.
    """
    spec = pod.get("spec") or {}
    fields = ("initContainers", "containers", "ephemeralContainers")
    names = [c["name"] for field in fields for c in spec.get(field) or ()]
    wanted = call.request.param("container")
    if wanted:
        if wanted not in names:
            raise BadRequest(f"container {wanted} is not valid for pod {call.name}", None)
        return wanted
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    choice = " ".join(names)
    raise BadRequest(
        f"a container name must be specified for pod {call.name}, choose one of: [{choice}]", None
    )


def find_address(call: Call, node: str) -> NodeAddress:
    """Return where the node's own API is.

    Raises:
        NotFound: the node is gone.
        APIError: it has told no address.
    """
    stored = call.backend.storage_of("", "v1", "nodes").read("", node)
    if stored is None:
        raise NotFound.of("", "nodes", node)
    found = stored.object()
    address = NodeAddress.of(found)
    if address is None:
        told = (found.get("status") or {}).get("addresses") or ()
        known = " ".join(f"{{{each['type']} {each['address']}}}" for each in told)
        raise APIError(f"no preferred addresses found; known addresses: [{known}]", None)
    return address
