"""The files that the node writes for a pod: hosts, resolver, host name. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubewright.api.errors import KubewrightError
from kubewright.api.resource import Object

HOSTS = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
HOST_HOSTS = "# Kubernetes-managed hosts file (host network).\n"
MAX_HOSTNAME = 63
MAX_KERNEL_NAME = 64
MAX_NAMESERVERS, MAX_SEARCHES, MAX_SEARCH_LINE, MAX_SEARCH = 3, 32, 2048, 253


class NameTooLong(KubewrightError):
    """A pod is to have its full name as host name, and the kernel takes no name of that length."""


def pod_hostname(pod: Object) -> str:
    """Return a pod's host name: 63 characters at most, without a trailing dash or dot."""
    spec = pod["spec"]
    name = spec.get("hostnameOverride") or spec.get("hostname") or pod["metadata"]["name"]
    return str(name)[:MAX_HOSTNAME].rstrip("-.")


def pod_domain(pod: Object, domain: str) -> str:
    """Return the domain that a pod with a subdomain is in; "" for others."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain or pod["spec"].get("hostnameOverride"):
        return ""
    return f"{subdomain}.{pod['metadata'].get('namespace')}.svc.{domain}"


def kernel_hostname(pod: Object, domain: str, node: str) -> str:
    """Return what `hostname` says in a pod: its name, its full name, or that of its node.

    Raises:
        NameTooLong: the full name is asked for and has more than 64 characters.
    """
    spec, hostname = pod["spec"], pod_hostname(pod)
    if spec.get("hostNetwork") and not spec.get("hostnameOverride"):
        return node
    suffix = pod_domain(pod, domain)
    if not spec.get("setHostnameAsFQDN") or not suffix:
        return hostname
    full = f"{hostname}.{suffix}"
    if len(full) > MAX_KERNEL_NAME:
        raise NameTooLong(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too "
            f"long ({MAX_KERNEL_NAME} characters is the max, {len(full)} characters requested)"
        )
    return full


def build_hosts(pod: Object, address: str, domain: str, host_hosts: str = "") -> str:
    """Build /etc/hosts: localhost, the pod's own names, its hostAliases.

    A pod in the network of its node has the node's own names, `host_hosts`.
    """
    hostname, suffix = pod_hostname(pod), pod_domain(pod, domain)
    names = f"{hostname}.{suffix}\t{hostname}" if suffix else hostname
    text = f"{HOSTS}{address}\t{names}\n"
    if pod["spec"].get("hostNetwork"):
        text = HOST_HOSTS + host_hosts
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        lines = ["\n# Entries added by HostAliases."]
        lines += ["\t".join([alias["ip"], *(alias.get("hostnames") or ())]) for alias in aliases]
        text += "\n".join(lines) + "\n"
    return text


class Resolver(msgspec.Struct):
    """What /etc/resolv.conf says; `problems` are what of it a resolver would not take."""

    servers: list[str]
    searches: list[str]
    options: dict[str, str]
    problems: list[str]

    def __str__(self) -> str:
        lines = [f"search {' '.join(self.searches)}"] if self.searches else []
        lines += [f"nameserver {server}" for server in self.servers]
        if self.options:
            words = [f"{name}:{value}" if value else name for name, value in self.options.items()]
            lines.append(f"options {' '.join(words)}")
        return "\n".join(lines) + "\n"


def build_resolver(pod: Object, dns: str, domain: str, host_resolver: str) -> Resolver:
    """Build /etc/resolv.conf by the pod's dnsPolicy and dnsConfig.

    `dns` is the address of the cluster's name server, `host_resolver` the machine's own file.
    """
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    resolver = Resolver([], [], {}, []) if policy == "None" else parse_resolver(host_resolver)
    if policy in ("ClusterFirst", "ClusterFirstWithHostNet"):
        namespace = pod["metadata"].get("namespace")
        own = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain]
        resolver = Resolver([dns], [*own, *resolver.searches], {"ndots": "5"}, [])
    config = spec.get("dnsConfig") or {}
    for option in config.get("options") or ():
        resolver.options[option["name"]] = option.get("value") or ""
    resolver.servers = _unique([*resolver.servers, *(config.get("nameservers") or ())])
    resolver.searches = _unique([*resolver.searches, *(config.get("searches") or ())])
    _limit_servers(resolver)
    _limit_searches(resolver)
    return resolver


def parse_resolver(text: str) -> Resolver:
    """Read a resolv.conf."""
    resolver = Resolver([], [], {}, [])
    for words in map(str.split, text.splitlines()):
        match words:
            case ["nameserver", server]:
                resolver.servers.append(server)
            case ["search", *names]:
                resolver.searches = names
            case ["options", *entries]:
                resolver.options = dict(entry.partition(":")[::2] for entry in entries)
    return resolver


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _limit_servers(resolver: Resolver) -> None:
    if len(resolver.servers) > MAX_NAMESERVERS:
        resolver.servers = resolver.servers[:MAX_NAMESERVERS]
        resolver.problems.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied "
            f"nameserver line is: {' '.join(resolver.servers)}"
        )


def _limit_searches(resolver: Resolver) -> None:
    kept = [name for name in resolver.searches[:MAX_SEARCHES] if len(name) <= MAX_SEARCH]
    while kept and len(" ".join(kept)) > MAX_SEARCH_LINE:
        kept.pop()
    if kept != resolver.searches:
        resolver.searches = kept
        resolver.problems.append(
            "Search Line limits were exceeded, some search paths have been omitted, the applied "
            f"search line is: {' '.join(kept)}"
        )
