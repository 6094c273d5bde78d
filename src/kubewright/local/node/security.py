"""Who a container runs as and what it may, from its security contexts and its image. Pure."""

from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object
from kubewright.local.node.environment import ConfigError
from kubewright.local.node.image.image import Image
from kubewright.local.node.runtime import DEFAULT_CAPABILITIES, SecuritySettings

CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)
"""The names of Linux' capabilities, by number."""

ALL_CAPABILITIES = (1 << len(CAPABILITIES)) - 1


def build_security(
    pod: Object, container: Object, image: Image, *, is_one_uid: bool = False
) -> SecuritySettings:
    """Build the settings of a container; its own context goes before the pod's.

    Where a container has one user, an image whose entry point would step down from root starts as
    the user that it steps down to.

    Raises:
        ConfigError: it must not run as root and would, or names an unknown capability.
    """
    of_pod: Object = (pod.get("spec") or {}).get("securityContext") or {}
    own: Object = container.get("securityContext") or {}

    def choose(field: str) -> Any:
        return own.get(field) if own.get(field) is not None else of_pod.get(field)

    image_uid, image_gid = image.resolve_user()
    if is_one_uid and image.steps_down_to and not image.user:
        image_uid, image_gid = image.users[image.steps_down_to]
    asked_uid, asked_gid = choose("runAsUser"), choose("runAsGroup")
    uid = image_uid if asked_uid is None else int(asked_uid)
    if choose("runAsNonRoot"):
        _refuse_root(pod, container, image, asked_uid, uid)
    if asked_gid is None:
        known = dict(image.users.values())
        gid = image_gid if asked_uid is None else known.get(uid, 0)
    else:
        gid = int(asked_gid)
    extra = [*(of_pod.get("supplementalGroups") or ()), of_pod.get("fsGroup")]
    groups = dict.fromkeys([gid, *(int(group) for group in extra if group is not None)])
    privileged = bool(own.get("privileged"))
    return SecuritySettings(
        uid=uid,
        gid=gid,
        groups=tuple(groups),
        capabilities=ALL_CAPABILITIES if privileged else build_capabilities(own),
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        privileged=privileged,
        seccomp=not privileged and _has_default_profile(choose("seccompProfile")),
    )


def _has_default_profile(profile: Object | None) -> bool:
    """Tell whether the runtime's default seccomp profile applies.

    Raises:
        ConfigError: a profile of the node's files is asked for.
    """
    kind = (profile or {}).get("type") or "Unconfined"
    if kind == "Localhost":
        path = (profile or {}).get("localhostProfile")
        raise ConfigError(
            f'local nodes have no seccomp profile "{path}": use RuntimeDefault or Unconfined'
        )
    return bool(kind == "RuntimeDefault")


def capability_names(mask: int) -> list[str]:
    """Return the names of the capabilities in a mask."""
    return [name for number, name in enumerate(CAPABILITIES) if mask >> number & 1]


def build_capabilities(context: Object) -> int:
    """Build the mask of capabilities: the usual ones, less `drop`, plus `add`."""
    changes = context.get("capabilities") or {}
    mask = DEFAULT_CAPABILITIES
    for name in changes.get("drop") or ():
        mask &= ~_capability_mask(name)
    for name in changes.get("add") or ():
        mask |= _capability_mask(name)
    return mask


def _capability_mask(name: str) -> int:
    short = name.upper().removeprefix("CAP_")
    if short == "ALL":
        return ALL_CAPABILITIES
    if short not in CAPABILITIES:
        # Container runtimes say so in their log and go on.
        return 0
    return 1 << CAPABILITIES.index(short)


def _refuse_root(
    pod: Object, container: Object, image: Image, asked_uid: int | None, uid: int
) -> None:
    metadata = pod["metadata"]
    full_name = f"{metadata['name']}_{metadata.get('namespace')}({metadata.get('uid')})"
    where = f'(pod: "{full_name}", container: {container["name"]})'
    if asked_uid == 0:
        raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
    if asked_uid is not None:
        return
    name = image.user.partition(":")[0]
    if name and not name.isdigit():
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({name}), "
            f"cannot verify user is non-root {where}"
        )
    if uid == 0:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")
