"""What NetworkPolicies allow the pods of a node (networking.k8s.io/v1). Pure.

A pod that a policy selects for a direction is isolated in it: what no policy allows is dropped.
Policies add up; their order does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import TypeAlias

import msgspec

from kubewright.api.resource import NamespacedName
from kubewright.local.network.selection import LabelSelector
from kubewright.local.network.service import Metadata

INGRESS, EGRESS = "Ingress", "Egress"


class _Record(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of an object."""


class PolicyPort(_Record, frozen=True, kw_only=True):
    """A port, a range of ports, or all ports of a protocol."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IPBlock(_Record, frozen=True, kw_only=True):
    """A range of addresses, without some parts of it."""

    cidr: str
    excluded: list[str] | None = msgspec.field(default=None, name="except")


class PolicyPeer(_Record, frozen=True, kw_only=True):
    """Pods, or a range of addresses."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class IngressRule(_Record, frozen=True, kw_only=True):
    """Who may connect to which ports."""

    peers: list[PolicyPeer] | None = msgspec.field(default=None, name="from")
    ports: list[PolicyPort] | None = None


class EgressRule(_Record, frozen=True, kw_only=True):
    """To whom and to which ports connections may be made."""

    peers: list[PolicyPeer] | None = msgspec.field(default=None, name="to")
    ports: list[PolicyPort] | None = None


class PolicySpec(_Record, frozen=True, kw_only=True):
    """What a policy says."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: list[str] | None = None
    ingress: list[IngressRule] | None = None
    egress: list[EgressRule] | None = None


class NetworkPolicy(_Record, frozen=True, kw_only=True):
    """A NetworkPolicy."""

    metadata: Metadata
    spec: PolicySpec = PolicySpec()

    def isolates(self, direction: str) -> bool:
        """Tell whether the policy is about a direction; without a word, rules for egress tell."""
        types = self.spec.policy_types
        if types is None:
            return direction == INGRESS or bool(self.spec.egress)
        return direction in types


class PolicyPod(msgspec.Struct, frozen=True):
    """A pod as policies see it. `ports` are its named ports, each with protocol and number."""

    key: NamespacedName
    address: str
    labels: Mapping[str, str]
    node: str = ""
    ports: tuple[tuple[str, str, int], ...] = ()


class PortRange(msgspec.Struct, frozen=True, order=True):
    """Ports of a protocol, both ends included."""

    protocol: str
    low: int = 0
    high: int = 65535

    def holds(self, protocol: str, port: int) -> bool:
        """Tell whether a port is one of these."""
        return protocol == self.protocol and self.low <= port <= self.high


class AddressRange(msgspec.Struct, frozen=True):
    """A network without some parts of it."""

    network: IPv4Network
    excluded: tuple[IPv4Network, ...] = ()


class Allowance(msgspec.Struct, frozen=True):
    """What one rule of a policy allows: the other side's addresses, and the ports.

    `addresses` and `ranges` of None allow everybody; `ports` of None all ports. `name` stays the
    same while the rule does, whatever pods come and go.
    """

    name: str
    addresses: frozenset[str] | None
    ranges: tuple[AddressRange, ...] | None
    ports: tuple[PortRange, ...] | None


class Isolation(msgspec.Struct, frozen=True):
    """What one isolated pod is allowed; None where it is not isolated in the direction."""

    pod: PolicyPod
    ingress: tuple[Allowance, ...] | None
    egress: tuple[Allowance, ...] | None


Rules: TypeAlias = Sequence[IngressRule | EgressRule]


class PolicyView:
    """The pods and namespaces that policies speak of."""

    def __init__(
        self, pods: Sequence[PolicyPod], namespaces: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._namespaces = namespaces
        self._pods: dict[str, list[PolicyPod]] = defaultdict(list)
        for pod in pods:
            self._pods[pod.key.namespace].append(pod)

    def select(self, policy: NetworkPolicy) -> Iterator[PolicyPod]:
        """Yield the pods that a policy is for."""
        for pod in self._pods.get(policy.metadata.namespace, ()):
            if policy.spec.pod_selector.matches(pod.labels):
                yield pod

    def find_peers(self, peer: PolicyPeer, namespace: str) -> Iterator[PolicyPod]:
        """Yield the pods that a peer means; `namespace` is that of the policy."""
        for name in self._find_namespaces(peer.namespace_selector, namespace):
            for pod in self._pods.get(name, ()):
                if peer.pod_selector is None or peer.pod_selector.matches(pod.labels):
                    yield pod

    def _find_namespaces(self, selector: LabelSelector | None, own: str) -> Iterable[str]:
        if selector is None:
            return [own]
        return [name for name, labels in self._namespaces.items() if selector.matches(labels)]


def build_isolations(
    policies: Iterable[NetworkPolicy], view: PolicyView, node: str
) -> list[Isolation]:
    """Build what the isolated pods of a node are allowed, in order of their keys."""
    pods: dict[NamespacedName, PolicyPod] = {}
    found: dict[NamespacedName, dict[str, list[Allowance]]] = {}
    for policy in policies:
        for direction, rules in _directions(policy):
            shared = _Allowances(policy, direction, rules, view)
            for pod in view.select(policy):
                if pod.node == node and pod.address:
                    pods[pod.key] = pod
                    allowed = found.setdefault(pod.key, {}).setdefault(direction, [])
                    allowed += shared.for_pod(pod)
    return [
        Isolation(pods[key], _freeze(directions.get(INGRESS)), _freeze(directions.get(EGRESS)))
        for key, directions in sorted(found.items())
    ]


def _freeze(allowances: list[Allowance] | None) -> tuple[Allowance, ...] | None:
    return None if allowances is None else tuple(allowances)


def _directions(policy: NetworkPolicy) -> Iterator[tuple[str, Rules]]:
    if policy.isolates(INGRESS):
        yield INGRESS, policy.spec.ingress or ()
    if policy.isolates(EGRESS):
        yield EGRESS, policy.spec.egress or ()


class _Allowances:
    """The allowances of one direction of a policy, the same for all pods that it selects.

    A named port of ingress is one of the selected pod, so that these differ from pod to pod; one of
    egress is a port of the peer.
    """

    def __init__(
        self, policy: NetworkPolicy, direction: str, rules: Rules, view: PolicyView
    ) -> None:
        self._direction = direction
        self._rules = []
        key = policy.metadata.key
        for index, rule in enumerate(rules):
            peers, ranges = _find_others(rule.peers, view, key.namespace)
            self._rules.append((f"{key}/{direction}/{index}", rule.ports, peers, ranges))

    def for_pod(self, pod: PolicyPod) -> Iterator[Allowance]:
        """Yield what the rules allow one pod."""
        for name, ports, peers, ranges in self._rules:
            addresses = None if peers is None else frozenset(peer.address for peer in peers)
            if not ports:
                yield Allowance(name, addresses, ranges, None)
                continue
            numbers = [_range_of(port) for port in ports if not isinstance(port.port, str)]
            named = [port for port in ports if isinstance(port.port, str)]
            if self._direction == INGRESS:
                numbers += [found for port in named for found in _resolve(port, pod)]
                if numbers:
                    yield Allowance(name, addresses, ranges, tuple(sorted(numbers)))
                continue
            if numbers:
                yield Allowance(name, addresses, ranges, tuple(sorted(numbers)))
            for number, members in _group_by_port(named, peers or ()).items():
                suffix = f"{name}/{number.protocol}/{number.low}"
                yield Allowance(suffix, frozenset(members), (), (number,))


def _find_others(
    peers: Sequence[PolicyPeer] | None, view: PolicyView, namespace: str
) -> tuple[list[PolicyPod] | None, tuple[AddressRange, ...] | None]:
    """Find the pods and ranges of the other side; None for both where everybody is meant."""
    if not peers:
        return None, None
    pods: list[PolicyPod] = []
    ranges = []
    for peer in peers:
        if peer.ip_block is None:
            pods += [pod for pod in view.find_peers(peer, namespace) if pod.address]
        elif ":" not in peer.ip_block.cidr:
            excluded = (IPv4Network(c, strict=False) for c in peer.ip_block.excluded or ())
            network = IPv4Network(peer.ip_block.cidr, strict=False)
            ranges.append(AddressRange(network, tuple(excluded)))
    return pods, tuple(ranges)


def _range_of(port: PolicyPort) -> PortRange:
    if not isinstance(port.port, int):
        return PortRange(port.protocol)
    return PortRange(port.protocol, port.port, port.end_port or port.port)


def _resolve(port: PolicyPort, pod: PolicyPod) -> Iterator[PortRange]:
    for name, protocol, number in pod.ports:
        if name == port.port and protocol == port.protocol:
            yield PortRange(protocol, number, number)


def _group_by_port(
    ports: Sequence[PolicyPort], peers: Iterable[PolicyPod]
) -> dict[PortRange, list[str]]:
    groups: dict[PortRange, list[str]] = defaultdict(list)
    for peer in peers:
        for port in ports:
            for number in _resolve(port, peer):
                groups[number].append(peer.address)
    return groups
