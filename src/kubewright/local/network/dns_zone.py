"""What the names of the cluster's zone stand for. Pure: no sockets, no clock.

The names are those of the Kubernetes DNS specification 1.1.0, and where that leaves a choice the
answers are those of CoreDNS' kubernetes plugin with `pods insecure` and `ttl 30`, which kubeadm
sets up.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec

from kubewright.api.resource import NamespacedName
from kubewright.local.network.service import Endpoint, Service
from kubewright.local.network.service_directory import ServiceDirectory

TTL = 30
SCHEMA_VERSION = "1.1.0"
DNS_SERVICE = NamespacedName("kube-system", "kube-dns")
_ADDRESS_TYPES = {"A": 4, "AAAA": 6}


class Outcome(enum.Enum):
    """How a question was answered; a name without records of a type is still a success."""

    SUCCESS = "NOERROR"
    NO_NAME = "NXDOMAIN"
    NOT_OURS = "REFUSED"
    """The name is outside the zone: whoever knows it must be asked."""


class Record(msgspec.Struct, frozen=True):
    """A resource record; `data` is in the text form of zone files (RFC 1035, section 5.1)."""

    name: str
    type: str
    data: str
    ttl: int = TTL


class Answer(msgspec.Struct, frozen=True):
    """The answer to a question.

    `alias` is a name outside the zone that the records lead to: its addresses belong to the answer.
    """

    outcome: Outcome
    records: Sequence[Record] = ()
    additional: Sequence[Record] = ()
    authority: Sequence[Record] = ()
    alias: str = ""


class _Target(msgspec.Struct, frozen=True):
    """An address and port that a name leads to; `name` is the one that has just this address."""

    name: str
    address: str
    port: int | None


class ClusterZone:
    """Answers questions for a cluster's zone from what a directory holds.

    Arguments:
        directory: the Services and endpoints.
        has_namespace: tells whether there is a namespace of a name.
        domain: the zone, without a trailing dot.
        serial: gives the zone's serial number, in seconds.
    """

    def __init__(
        self,
        directory: ServiceDirectory,
        has_namespace: Callable[[str], bool],
        *,
        domain: str = "cluster.local",
        serial: Callable[[], int] = lambda: 1,
    ) -> None:
        self.domain = domain
        self._directory = directory
        self._has_namespace = has_namespace
        self._serial = serial

    def answer(self, name: str, type: str) -> Answer:
        """Answer a question. `name` is absolute, with or without its last dot, in any case."""
        name = name.rstrip(".").lower()
        if name.endswith((".in-addr.arpa", ".ip6.arpa")):
            return self._answer_reverse(name, type)
        if name != self.domain and not name.endswith(f".{self.domain}"):
            return Answer(Outcome.NOT_OURS)
        labels = name.removesuffix(self.domain).rstrip(".").split(".")
        if labels == [""]:
            return self._answer_apex(type)
        match labels[::-1]:
            case ["dns-version"]:
                version = Record(f"{name}.", "TXT", f'"{SCHEMA_VERSION}"')
                return self._select([version], type)
            case ["dns", "ns"]:
                return self._answer_name_server(name, type)
            case ["svc"] | ["pod"]:
                return self._no_data()
            case ["svc" | "pod", namespace, *_] if not self._has_namespace(namespace):
                return self._no_name()
            case ["svc" | "pod", _]:
                return self._no_data()
            case ["pod", _, address]:
                return self._answer_pod(name, address, type)
            case ["svc", namespace, service, *rest]:
                key = NamespacedName(namespace, service)
                return self._answer_service(f"{name}.", key, rest, type)
            case _:
                return self._no_name()

    # --- names of Services ---

    def _answer_service(
        self, name: str, key: NamespacedName, rest: Sequence[str], type: str
    ) -> Answer:
        service = self._directory.find_service(key)
        if service is None or len(rest) > 2:
            return self._no_name()
        if service.spec.type == "ExternalName":
            return self._answer_external(name, service, rest, type)
        if len(rest) == 2:
            protocol, port = (word.removeprefix("_") for word in rest)
            targets = self._find_targets(service, port=port, protocol=protocol)
        else:
            targets = self._find_targets(service, hostname=rest[0] if rest else "")
        return self._answer_targets(name, targets, type)

    def _answer_external(
        self, name: str, service: Service, rest: Sequence[str], type: str
    ) -> Answer:
        if len(rest) == 1 or is_address(service.spec.external_name):
            return self._no_name()
        if type not in (*_ADDRESS_TYPES, "CNAME"):
            return self._no_data()
        target = service.spec.external_name.rstrip(".")
        alias = Record(name, "CNAME", f"{target}.")
        if type == "CNAME":
            return Answer(Outcome.SUCCESS, [alias])
        if not f".{target}".lower().endswith(f".{self.domain}"):
            return Answer(Outcome.SUCCESS, [alias], alias=f"{target}.")
        # An alias of an alias ends there: two Services may name each other.
        if self._is_external(target):
            return Answer(Outcome.SUCCESS, [alias])
        further = self.answer(target, type).records
        return Answer(Outcome.SUCCESS, [alias, *further])

    def _is_external(self, name: str) -> bool:
        labels = name.lower().removesuffix(f".{self.domain}").split(".")
        if len(labels) < 3 or labels[-1] != "svc":
            return False
        service = self._directory.find_service(NamespacedName(labels[-2], labels[-3]))
        return service is not None and service.spec.type == "ExternalName"

    def _answer_targets(self, name: str, targets: Sequence[_Target], type: str) -> Answer:
        if not targets:
            return self._no_name()
        if type == "SRV":
            return self._answer_ports(name, targets)
        family = _ADDRESS_TYPES.get(type)
        addresses = dict.fromkeys(t.address for t in targets)
        records = [Record(name, type, a) for a in addresses if ip_address(a).version == family]
        return Answer(Outcome.SUCCESS, records) if records else self._no_data()

    def _answer_ports(self, name: str, targets: Sequence[_Target]) -> Answer:
        """Answer with priority 0 and weights that share 100 out, and the targets' addresses."""
        weight = max(1, 100 // len(targets))
        records = dict.fromkeys(
            Record(name, "SRV", f"0 {weight} {target.port} {target.name}")
            for target in targets
            if target.port is not None
        )
        if not records:
            return self._no_data()
        additional = dict.fromkeys(
            Record(target.name, address_type(target.address), target.address) for target in targets
        )
        return Answer(Outcome.SUCCESS, [*records], [*additional])

    def _find_targets(
        self, service: Service, *, hostname: str = "", port: str = "", protocol: str = ""
    ) -> list[_Target]:
        """Find what a name leads to; an empty list when there is no such name."""
        key = service.metadata.key
        base = f"{key.name}.{key.namespace}.svc.{self.domain}."
        if service.is_headless or hostname:
            return [
                target
                for target in self._find_endpoints(key, base, port, protocol)
                if hostname in ("", target.name.partition(".")[0])
            ]
        ports: Iterable[tuple[str, int | None, str]]
        ports = [(p.name, p.port, p.protocol) for p in service.ports] or [("", None, "")]
        return [
            _Target(base, address, number)
            for port_name, number, port_protocol in ports
            if is_port(port, protocol, port_name, port_protocol)
            for address in service.addresses
        ]

    def _find_endpoints(
        self, key: NamespacedName, base: str, port: str, protocol: str
    ) -> Iterable[_Target]:
        for found in self._directory.slices_of(key):
            if found.address_type == "FQDN":
                continue
            numbers = [
                entry.port
                for entry in found.ports or ()
                if is_port(port, protocol, entry.name or "", entry.protocol or "TCP")
            ]
            if not found.ports and not port:
                numbers = [None]
            for endpoint in found.endpoints or ():
                if not endpoint.is_ready:
                    continue
                for address in endpoint.addresses:
                    name = f"{endpoint_name(endpoint, address)}.{base}"
                    yield from (_Target(name, address, number) for number in numbers)

    # --- other names ---

    def _answer_pod(self, name: str, label: str, type: str) -> Answer:
        """Answer for a name made of an address: with that address, whoever may have it."""
        address = parse_pod_label(label)
        if address is None:
            return self._no_name()
        if _ADDRESS_TYPES.get(type) != address.version:
            return self._no_data()
        return Answer(Outcome.SUCCESS, [Record(f"{name}.", type, str(address))])

    def _answer_reverse(self, name: str, type: str) -> Answer:
        address = parse_reverse(name)
        names = self._find_names(str(address)) if address else []
        if not names:
            return Answer(Outcome.NOT_OURS)
        return self._select([Record(f"{name}.", "PTR", target) for target in names], type)

    def _find_names(self, address: str) -> list[str]:
        service = self._directory.find_by_address(address)
        if service is not None:
            key = service.metadata.key
            return [f"{key.name}.{key.namespace}.svc.{self.domain}."]
        return [
            f"{endpoint.hostname}.{key.name}.{key.namespace}.svc.{self.domain}."
            for key, endpoint in self._directory.find_named(address)
        ]

    def _answer_apex(self, type: str) -> Answer:
        if type == "SOA":
            return Answer(Outcome.SUCCESS, [self._authority()])
        server = f"{DNS_SERVICE.name}.{DNS_SERVICE.namespace}.svc.{self.domain}."
        return self._select([Record(f"{self.domain}.", "NS", server)], type)

    def _answer_name_server(self, name: str, type: str) -> Answer:
        service = self._directory.find_service(DNS_SERVICE)
        addresses = service.addresses if service else ()
        return self._select([Record(f"{name}.", address_type(a), a) for a in addresses], type)

    def _select(self, records: Iterable[Record], type: str) -> Answer:
        found = [record for record in records if record.type == type]
        return Answer(Outcome.SUCCESS, found) if found else self._no_data()

    def _no_name(self) -> Answer:
        return Answer(Outcome.NO_NAME, authority=[self._authority()])

    def _no_data(self) -> Answer:
        return Answer(Outcome.SUCCESS, authority=[self._authority()])

    def _authority(self) -> Record:
        names = f"ns.dns.{self.domain}. hostmaster.{self.domain}."
        return Record(f"{self.domain}.", "SOA", f"{names} {self._serial()} 7200 1800 86400 {TTL}")


def is_port(port: str, protocol: str, have_port: str, have_protocol: str) -> bool:
    """Tell whether a port is the one that is asked for; an empty word or `*` asks for any."""
    return port in ("", "*", have_port.lower()) and protocol in ("", "*", have_protocol.lower())


def endpoint_name(endpoint: Endpoint, address: str) -> str:
    """Return an endpoint's label: its host name, or its address with dashes."""
    return endpoint.hostname or address.replace(".", "-").replace(":", "-")


def address_type(address: str) -> str:
    """Return the type of the record that holds an address."""
    return "AAAA" if ":" in address else "A"


def is_address(text: str) -> bool:
    """Tell whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def parse_pod_label(label: str) -> IPv4Address | IPv6Address | None:
    """Read the address that a pod's name is made of, if it is one."""
    for separator in (".", ":"):
        try:
            return ip_address(label.replace("-", separator))
        except ValueError:
            continue
    return None


def parse_reverse(name: str) -> IPv4Address | IPv6Address | None:
    """Read the address of a reverse name (RFC 1035 and RFC 3596), if it is whole."""
    labels = name.split(".")[:-2][::-1]
    try:
        if name.endswith(".in-addr.arpa"):
            return IPv4Address(".".join(labels)) if len(labels) == 4 else None
        if len(labels) != 32:
            return None
        return IPv6Address(int("".join(labels), 16).to_bytes(16))
    except ValueError:
        return None
