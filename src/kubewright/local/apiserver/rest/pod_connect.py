"""pods/exec, pods/attach and pods/portforward: connections into a pod, which its node carries."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.errors import BadRequest, NotImplementedByServer
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Answer, Verb
from kubewright.local.apiserver.node_proxy import NodeProxy
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.pod_log import find_address
from kubewright.local.apiserver.rest.routes import Handler
from kubewright.local.apiserver.upgrade import SPDY, WEB_SOCKET, UpgradeResponse

EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
# A client that names no sub-protocol speaks that of numbered channels.
FORWARD_PROTOCOLS = ("SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io", "channel.k8s.io", "")
VERSION_HEADER = "x-stream-protocol-version"
# The API's names of the options and the kubelet's.
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def build_exec_handler(proxy: NodeProxy) -> Handler:
    """Build the handler of …/pods/NAME/exec."""

    async def execute(call: Call) -> Answer:
        pod = (await call.read()).object()
        container = choose_container(pod, call.request.param("container"))
        path = f"/exec/{call.namespace}/{call.name}/{container}"
        query = [("command", word) for word in call.request.query.get("command") or ()]
        query += _wanted_streams(call)
        return await _connect(call, proxy, pod, path, query, EXEC_PROTOCOLS)

    return execute


def build_attach_handler(proxy: NodeProxy) -> Handler:
    """Build the handler of …/pods/NAME/attach."""

    async def attach(call: Call) -> Answer:
        pod = (await call.read()).object()
        container = choose_container(pod, call.request.param("container"))
        path = f"/attach/{call.namespace}/{call.name}/{container}"
        query = _wanted_streams(call)
        if has_terminal(pod, container):
            # Whether there is a terminal was decided when the container started.
            query = [*(pair for pair in query if pair[0] != "tty"), ("tty", "1")]
        else:
            query = [pair for pair in query if pair[0] != "tty"]
        return await _connect(call, proxy, pod, path, query, EXEC_PROTOCOLS)

    return attach


def build_forward_handler(proxy: NodeProxy) -> Handler:
    """Build the handler of …/pods/NAME/portforward."""

    async def forward(call: Call) -> Answer:
        pod = (await call.read()).object()
        path = f"/portForward/{call.namespace}/{call.name}"
        query = [("port", port) for port in parse_ports(call.request.query.get("ports") or ())]
        return await _connect(call, proxy, pod, path, query, FORWARD_PROTOCOLS)

    return forward


async def _connect(
    call: Call,
    proxy: NodeProxy,
    pod: Object,
    path: str,
    query: Sequence[tuple[str, str]],
    supported: Sequence[str],
) -> Answer:
    # A WebSocket begins with a GET; to read a pod must not be enough to run commands in it.
    call.authorize(Verb.CREATE)
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        raise BadRequest(f"pod {call.name} does not have a host assigned", None)
    request = call.request
    upgrade = request.header("upgrade")
    if upgrade.lower() == SPDY.lower():
        versions = request.headers.get(VERSION_HEADER) or ()
        headers = [("upgrade", SPDY), *((VERSION_HEADER, version) for version in versions)]
        stream, answer = await proxy.upgrade(find_address(call, node), path, query, headers)
        return UpgradeResponse(answer.get(VERSION_HEADER, ""), stream, SPDY)
    protocol = choose_protocol(upgrade, request.header("sec-websocket-protocol"), supported)
    upstream = await proxy.connect(find_address(call, node), path, query, protocol)
    return UpgradeResponse(protocol, upstream)


def _wanted_streams(call: Call) -> list[tuple[str, str]]:
    return [(theirs, "1") for ours, theirs in _STREAMS.items() if call.request.flag(ours)]


def has_terminal(pod: Object, container: str) -> bool:
    """Tell whether a container was given a terminal."""
    return any(
        c["name"] == container and c.get("tty")
        for field in _CONTAINERS
        for c in pod["spec"].get(field) or ()
    )


def parse_ports(values: Sequence[str]) -> list[str]:
    """Parse the parameter `ports`, which may repeat and whose values are separated by commas.

    Raises:
        BadRequest: a value is no port.
    """
    ports = [port for value in values for port in value.split(",")]
    for port in ports:
        if not port.isdecimal() or int(port) >= 1 << 16:
            problem = "value out of range" if port.isdecimal() else "invalid syntax"
            raise BadRequest(
                f'cannot convert to []int32: strconv.ParseUint: parsing "{port}": {problem}', None
            )
    return ports


def choose_container(pod: Object, wanted: str) -> str:
    """Return the container that is meant: by name, by annotation, or the only one.

    Raises:
        BadRequest: there is none of that name, or several and none was named.
    """
    name = pod["metadata"]["name"]
    spec = pod.get("spec") or {}
    names = [str(c["name"]) for field in _CONTAINERS for c in spec.get(field) or ()]
    if wanted:
        if wanted not in names:
            raise BadRequest(f"container {wanted} is not valid for pod {name}", None)
        return wanted
    annotated = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if annotated in names:
        return str(annotated)
    if len(spec.get("containers") or ()) == 1:
        return names[0]
    choice = " ".join(names)
    raise BadRequest(
        f"a container name must be specified for pod {name}, choose one of: [{choice}]", None
    )


def choose_protocol(upgrade: str, offered: str, supported: Sequence[str]) -> str:
    """Return the first sub-protocol of the client's that is supported.

    Raises:
        BadRequest: the request asks for no upgrade, or offers only other sub-protocols.
        NotImplementedByServer: it asks for another protocol than these two.
    """
    if not upgrade:
        raise BadRequest("Upgrade request required", None)
    if upgrade.lower() != WEB_SOCKET:
        raise NotImplementedByServer(
            f"upgrade to {upgrade} is not supported by this API server: it streams over a "
            "WebSocket or SPDY/3.1",
            None,
        )
    offers = [offer.strip() for offer in offered.split(",")]
    for offer in offers:
        if offer in supported:
            return offer
    raise BadRequest(
        f"unable to upgrade: the client offers {offers}, the server supports {list(supported)}",
        None,
    )
