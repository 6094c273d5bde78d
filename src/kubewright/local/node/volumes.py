"""The volumes of a pod: the files that the API fills, and where containers see them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath

import msgspec

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.node.environment import (
    REFERENCE,
    ConfigError,
    References,
    expand,
    read_data,
    read_field,
    read_resource,
)
from kubewright.local.node.host_path import MountError
from kubewright.local.node.runtime import Mount
from kubewright.local.node.sub_path import LeavesVolume
from kubewright.local.node.volume_writer import DEFAULT_MODE, VolumeFile

TOKEN_MODE = 0o600
"""Of a token whose reader is known; fsGroup adds its own rights."""


class Volume(msgspec.Struct, frozen=True):
    """A volume that is ready: where it is on the host, and whether it may be written.

    `is_written` marks one whose files the agent writes. `agent_path` is how the agent reaches it,
    where that is not by its path.
    """

    path: Path
    read_only: bool = False
    is_written: bool = False
    agent_path: Path | None = None

    @property
    def reached(self) -> Path:
        """The path by which the agent reaches what containers see."""
        return self.agent_path or self.path


def plan_files(
    pod: Object, volume: Object, references: References, tokens: Mapping[int, str], node: Object
) -> dict[str, VolumeFile] | None:
    """Plan the files of a volume that the API fills; None for a volume of another kind.

    `tokens` are the service account tokens of a projected volume, by the number of the source.

    Raises:
        MountError: a ConfigMap, a Secret or a key is missing; of a projected volume, all of them.
    """
    if "projected" in volume:
        return _plan_projected(pod, volume["projected"], references, tokens, node)
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            mode = file_mode(volume[kind].get("defaultMode"), DEFAULT_MODE)
            return _plan_source(pod, volume, mode, references, node)
    return None


def file_mode(mode: int | None, default: int) -> int:
    """Return a mode, or the default where there is none: 0 is a mode."""
    return default if mode is None else mode


def _plan_projected(
    pod: Object, projected: Object, references: References, tokens: Mapping[int, str], node: Object
) -> dict[str, VolumeFile]:
    mode = file_mode(projected.get("defaultMode"), DEFAULT_MODE)
    files: dict[str, VolumeFile] = {}
    problems: dict[str, None] = {}
    for number, source in enumerate(projected.get("sources") or ()):
        try:
            if token := source.get("serviceAccountToken"):
                files[token["path"]] = _plan_token(pod, tokens[number], mode)
            else:
                files |= _plan_source(pod, source, mode, references, node)
        except MountError as error:
            problems[str(error)] = None
    if problems:
        text = ", ".join(problems)
        raise MountError(f"[{text}]" if len(problems) > 1 else text)
    return files


def _plan_token(pod: Object, token: str, mode: int) -> VolumeFile:
    """Plan the file of a token: for its only reader, where all containers are one user."""
    uid = find_only_user(pod)
    has_group = ((pod["spec"].get("securityContext") or {}).get("fsGroup")) is not None
    return VolumeFile(token.encode(), TOKEN_MODE if uid is not None or has_group else mode, uid)


def find_only_user(pod: Object) -> int | None:
    """Return the user that all containers of a pod say they run as."""
    spec = pod["spec"]
    default = (spec.get("securityContext") or {}).get("runAsUser")
    groups = ("initContainers", "containers", "ephemeralContainers")
    users = {
        (container.get("securityContext") or {}).get("runAsUser", default)
        for group in groups
        for container in spec.get(group) or ()
    }
    return users.pop() if len(users) == 1 else None


def _plan_source(
    pod: Object, source: Object, mode: int, references: References, node: Object
) -> dict[str, VolumeFile]:
    if "configMap" in source:
        return _plan_keys(pod, "ConfigMap", source["configMap"], mode, references)
    if "secret" in source:
        return _plan_keys(pod, "Secret", source["secret"], mode, references)
    if "downwardAPI" not in source:
        raise MountError(f"local nodes do not know the projection {', '.join(source)}")
    files = {}
    for item in source["downwardAPI"].get("items") or ():
        try:
            if field := item.get("fieldRef"):
                text = read_field(with_source(pod), field["fieldPath"])
            else:
                text = read_resource(pod, {}, item["resourceFieldRef"], node)
        except ConfigError as error:
            raise MountError(str(error)) from error
        files[item["path"]] = VolumeFile(text.encode(), file_mode(item.get("mode"), mode))
    return files


def with_source(pod: Object) -> Object:
    """Return a pod with the annotations that a kubelet adds to pods from the API."""
    metadata = pod["metadata"]
    added = {
        "kubernetes.io/config.seen": metadata.get("creationTimestamp") or "",
        "kubernetes.io/config.source": "api",
    }
    annotations = {**(metadata.get("annotations") or {}), **added}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def _plan_keys(
    pod: Object, kind: str, source: Object, mode: int, references: References
) -> dict[str, VolumeFile]:
    name = source.get("name") or source.get("secretName") or ""
    optional = bool(source.get("optional"))
    obj = references.get((kind, name))
    if obj is None:
        if optional:
            return {}
        raise MountError(f'{kind.lower()} "{name}" not found')
    data = read_data(kind, obj)
    items = source.get("items")
    if not items:
        return {key: VolumeFile(value, mode) for key, value in data.items()}
    files = {}
    for item in items:
        if item["key"] in data:
            own = file_mode(item.get("mode"), mode)
            files[item["path"]] = VolumeFile(data[item["key"]], own)
        elif not optional:
            raise MountError(_MISSING_KEY[kind] + item["key"])
    return files


_MISSING_KEY = {
    "ConfigMap": "configmap references non-existent config key: ",
    "Secret": "references non-existent secret key: ",
}


def memory_size(pod: Object, source: Object) -> int | None:
    """Return the size in bytes of an emptyDir of medium Memory, where it is limited.

    The memory that the pod may have is a limit too (KEP-1967).
    """
    own = source.get("sizeLimit")
    sizes = [Quantity(own).to_int() if own not in (None, "0", 0) else None, _pod_memory(pod)]
    return min((size for size in sizes if size), default=None)


def _pod_memory(pod: Object) -> int | None:
    """Return the sum of the memory limits of a pod's containers; None if one has none."""
    limits = [
        ((container.get("resources") or {}).get("limits") or {}).get("memory")
        for container in pod["spec"]["containers"]
    ]
    if not all(limits):
        return None
    return sum(Quantity(str(limit)).to_int() for limit in limits)


PreparePart = Callable[[Path, str], PurePath]
"""Finds a part of a volume for the agent, and makes it; returns its place below the volume."""


def plan_container_mounts(
    container: Object,
    volumes: Mapping[str, Volume],
    variables: Mapping[str, str],
    prepare: PreparePart,
) -> Iterator[Mount]:
    """Plan where a container sees the volumes. `prepare` finds the parts that it names.

    Raises:
        ConfigError: a volume is not there, or a part of it cannot be had.
    """
    for entry in container.get("volumeMounts") or ():
        volume, name = volumes.get(entry["name"]), container["name"]
        if volume is None:
            raise ConfigError(
                f'cannot find volume "{entry["name"]}" to mount into container "{name}"'
            )
        source = volume.path
        if part := name_part(entry, variables):
            what = f'volumeMount "{entry["name"]}" of container "{name}"'
            try:
                source = volume.path / prepare(volume.reached, part)
            except (LeavesVolume, OSError) as error:
                # The kubelet gives no detail either: it would tell of the host's files.
                raise ConfigError(f"failed to prepare subPath for {what}") from error
        read_only = bool(entry.get("readOnly")) or volume.read_only
        yield Mount(
            entry["mountPath"], source, read_only, is_recursive=is_recursive_read_only(entry)
        )


def name_part(mount: Object, variables: Mapping[str, str]) -> str:
    """Return the part of a volume that a mount names; "" for all of it.

    Raises:
        ConfigError: a variable in it is not set, or it would lead out of the volume.
    """
    expression = mount.get("subPathExpr")
    if expression:
        used = {match[1] for match in REFERENCE.finditer(expression) if match[1] is not None}
        if missing := sorted(name for name in used if not variables.get(name)):
            raise ConfigError(f"missing value for {', '.join(missing)}")
    part = expand(expression, variables) if expression else mount.get("subPath") or ""
    if part.startswith("/"):
        raise ConfigError(f"error SubPath `{part}` must not be an absolute path")
    if ".." in part.split("/"):
        raise ConfigError(f"unable to provision SubPath `{part}`: must not contain '..'")
    return part


def is_recursive_read_only(mount: Object) -> bool:
    """Tell whether what is mounted below a mount is read-only too (KEP-3857)."""
    return bool(mount.get("readOnly")) and mount.get("recursiveReadOnly") in (
        "Enabled",
        "IfPossible",
    )
