"""The files that the node writes for a pod: hosts, resolver, host name. Pure."""

from __future__ import annotations

from kubewright.api.resource import Object

HOSTS = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
MAX_HOSTNAME = 63


def pod_hostname(pod: Object) -> str:
    """Return a pod's host name: 63 characters at most, without a trailing dash or dot."""
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:MAX_HOSTNAME].rstrip("-.")


def build_hosts(pod: Object, address: str, domain: str) -> str:
    """Build /etc/hosts: localhost, the pod's own names, its hostAliases."""
    hostname, subdomain = pod_hostname(pod), pod["spec"].get("subdomain")
    names = hostname
    if subdomain:
        namespace = pod["metadata"].get("namespace")
        names = f"{hostname}.{subdomain}.{namespace}.svc.{domain}\t{hostname}"
    text = f"{HOSTS}{address}\t{names}\n"
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        lines = ["\n# Entries added by HostAliases."]
        lines += ["\t".join([alias["ip"], *(alias.get("hostnames") or ())]) for alias in aliases]
        text += "\n".join(lines) + "\n"
    return text


def build_resolver(pod: Object, dns: str, domain: str, host_resolver: str) -> str:
    """Build /etc/resolv.conf by the pod's dnsPolicy and dnsConfig.

    `dns` is the address of the cluster's name server, `host_resolver` the machine's own file.
    """
    spec, namespace = pod["spec"], pod["metadata"].get("namespace")
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    config = spec.get("dnsConfig") or {}
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    if policy in ("ClusterFirst", "ClusterFirstWithHostNet"):
        servers = [dns]
        searches = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain]
        options = {"ndots": "5"}
    elif policy == "Default":
        for words in map(str.split, host_resolver.splitlines()):
            match words:
                case ["nameserver", server]:
                    servers.append(server)
                case ["search", *names]:
                    searches = names
                case ["options", *entries]:
                    options = dict(entry.partition(":")[::2] for entry in entries)
    servers = list(dict.fromkeys([*servers, *(config.get("nameservers") or ())]))
    searches = list(dict.fromkeys([*searches, *(config.get("searches") or ())]))
    for option in config.get("options") or ():
        options[option["name"]] = option.get("value") or ""
    lines = [f"search {' '.join(searches)}"] if searches else []
    lines += [f"nameserver {server}" for server in servers]
    if options:
        words = [f"{name}:{value}" if value else name for name, value in options.items()]
        lines.append(f"options {' '.join(words)}")
    return "\n".join(lines) + "\n"
