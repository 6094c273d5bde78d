"""The order in which kube-controller-manager lists ports and subsets of Endpoints. Pure.

It sorts both by a hash (FNV-1a of 128 bits) of how Go prints them. Nobody needs that order, but who
compares two listings sees any other as a change.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.resource import Object

_OFFSET = 0x6C62272E07BB014262B821756295C58D
_PRIME = 0x1000000000000000000013B
_MASK = (1 << 128) - 1


def port_order(port: Object) -> int:
    """Return where a port stands among others, by a number."""
    return _hash(_print_port(port))


def subset_order(subset: Object) -> int:
    """Return where a subset, with its ports in order, stands among others, by a number."""
    ports = [_print_port(port) for port in subset.get("ports") or ()]
    text = (
        f"(v1.EndpointSubset){{Addresses:{_print_addresses(subset.get('addresses'))} "
        f"NotReadyAddresses:{_print_addresses(subset.get('notReadyAddresses'))} "
        f"Ports:([]v1.EndpointPort){_print_list(ports)}}}"
    )
    return _hash(text)


def _hash(text: str) -> int:
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def _print_list(items: Sequence[str]) -> str:
    # Go prints elements without their type where the slice has told it.
    return f"[{' '.join(item[item.index('{') :] for item in items)}]" if items else "<nil>"


def _print_port(port: Object) -> str:
    return (
        f"(v1.EndpointPort){{Name:(string){port.get('name') or ''} Port:(int32){port['port']} "
        f"Protocol:(v1.Protocol){port.get('protocol') or ''} "
        f"AppProtocol:(*string){port.get('appProtocol') or '<nil>'}}}"
    )


def _print_addresses(addresses: Sequence[Object] | None) -> str:
    printed = [_print_address(address) for address in addresses or ()]
    return f"([]v1.EndpointAddress){_print_list(printed)}"


def _print_address(address: Object) -> str:
    target = address.get("targetRef")
    reference = "<nil>" if target is None else _print_reference(target)
    return (
        f"{{IP:(string){address['ip']} Hostname:(string){address.get('hostname') or ''} "
        f"NodeName:(*string){address.get('nodeName') or '<nil>'} "
        f"TargetRef:(*v1.ObjectReference){reference}}}"
    )


def _print_reference(target: Object) -> str:
    return (
        f"{{Kind:(string){target.get('kind') or ''} Namespace:(string){target['namespace']} "
        f"Name:(string){target['name']} UID:(types.UID){target['uid']} "
        "APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}"
    )
