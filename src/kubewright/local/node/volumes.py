"""The volumes of a pod: folders that the agent writes, and where containers see them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from kubewright.api.errors import KubewrightError
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.node.environment import (
    ConfigError,
    References,
    expand,
    read_data,
    read_field,
    read_resource,
)
from kubewright.local.node.runtime import Mount

DEFAULT_MODE = 0o644

TokenSource = Callable[[Object], Awaitable[str]]
"""Fetches a service account's token for a `serviceAccountToken` projection."""


class MountError(KubewrightError):
    """A volume cannot be set up: FailedMount."""


class VolumeFile(msgspec.Struct, frozen=True):
    """A file to write into a volume."""

    content: bytes
    mode: int = DEFAULT_MODE


class Volume(msgspec.Struct, frozen=True):
    """A volume that is ready: where it is on the host, and whether it may be written.

    `is_written` marks one whose files the agent writes, by way of `agent_path`.
    """

    path: Path
    read_only: bool = False
    is_written: bool = False
    agent_path: Path = Path()


def plan_files(
    pod: Object, volume: Object, references: References, tokens: Mapping[int, str], node: Object
) -> dict[str, VolumeFile] | None:
    """Plan the files of a volume that the API fills; None for a volume of another kind.

    `tokens` are the service account tokens of a projected volume, by the number of the source.

    Raises:
        MountError: a ConfigMap, a Secret or a key is missing.
    """
    if "projected" in volume:
        projected = volume["projected"]
        mode = projected.get("defaultMode") or DEFAULT_MODE
        files: dict[str, VolumeFile] = {}
        for number, source in enumerate(projected.get("sources") or ()):
            if "serviceAccountToken" in source:
                token = VolumeFile(tokens[number].encode(), mode)
                files[source["serviceAccountToken"]["path"]] = token
            else:
                files |= _plan_source(pod, source, mode, references, node)
        return files
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            mode = volume[kind].get("defaultMode") or DEFAULT_MODE
            return _plan_source(pod, volume, mode, references, node)
    return None


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
        files[item["path"]] = VolumeFile(text.encode(), item.get("mode") or mode)
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
    if items is None:
        return {key: VolumeFile(value, mode) for key, value in data.items()}
    files = {}
    for item in items:
        if item["key"] in data:
            files[item["path"]] = VolumeFile(data[item["key"]], item.get("mode") or mode)
        elif not optional:
            raise MountError(f"references non-existent {kind.lower()} key: {item['key']}")
    return files


def write_files(
    folder: Path, files: Mapping[str, VolumeFile], now: datetime, group: int | None
) -> None:
    """Write a volume's files so that readers see all of the old or all of the new ones.

    Files are links into a dated folder that `..data` points at, which is what programs that watch
    for changes know. `group` is the pod's fsGroup.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    if group is not None:
        files = {
            path: VolumeFile(file.content, file.mode | (file.mode & 0o400) >> 3)
            for path, file in files.items()
        }
    if read_files(folder) == files:
        return
    dated = folder / now.strftime("..%Y_%m_%d_%H_%M_%S.%f")
    dated.mkdir()
    for path, file in files.items():
        target = dated / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        if group is not None:
            os.chown(target, -1, group)
        target.chmod(file.mode)
    link, data = folder / "..data_tmp", folder / "..data"
    old = folder / os.readlink(data) if data.is_symlink() else None
    link.symlink_to(dated.name)
    link.replace(data)
    tops = {path.split("/")[0] for path in files}
    for name in tops:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name not in tops and not entry.name.startswith(".."):
            entry.unlink()
    if old is not None and old != dated:
        shutil.rmtree(old, ignore_errors=True)


def read_files(folder: Path) -> dict[str, VolumeFile] | None:
    """Read the files that a volume has; None if it was not written yet."""
    data = folder / "..data"
    if not data.exists():
        return None
    return {
        str(path.relative_to(data)): VolumeFile(path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(data.rglob("*"))
        if path.is_file()
    }


def make_empty(folder: Path, group: int | None) -> None:
    """Make the folder of an emptyDir: open to all, as the kubelet makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    if group is not None:
        os.chown(folder, -1, group)
    folder.chmod(0o777 if group is None else 0o2777)


def memory_size(source: Object) -> int | None:
    """Return the size in bytes of an emptyDir of medium Memory, where it is limited."""
    limit = source.get("sizeLimit")
    return Quantity(limit).to_int() if limit not in (None, "0", 0) else None


_KINDS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def check_host_path(source: Object) -> Path:
    """Return the path of a hostPath volume; make it where its type says so.

    Raises:
        MountError: the path is not what its type says.
    """
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
        kind = "Directory"
    elif kind == "FileOrCreate":
        path.touch(exist_ok=True)
        kind = "File"
    if kind not in _KINDS:
        if not path.exists():
            path.mkdir(parents=True)
        return path
    check, word = _KINDS[kind]
    if not path.exists():
        raise MountError(
            f"hostPath type check failed, {path} is not a {word}, unable to determine its type: "
            f'path "{path}" does not exist'
        )
    mode = path.stat().st_mode
    if not check(mode):
        found = next((name for name, (is_kind, _) in _KINDS.items() if is_kind(mode)), "Other")
        raise MountError(f"hostPath type check failed: {path} is not a {word}, it's a {found}")
    return path


def plan_container_mounts(
    container: Object, volumes: Mapping[str, Volume], variables: Mapping[str, str]
) -> Iterator[Mount]:
    """Plan where a container sees the volumes.

    Raises:
        ConfigError: a volume is not there, or a subPath leads out of it.
    """
    for entry in container.get("volumeMounts") or ():
        volume = volumes.get(entry["name"])
        if volume is None:
            raise ConfigError(f"cannot find volume {entry['name']!r} to mount")
        source = volume.path
        part = entry.get("subPath") or expand(entry.get("subPathExpr") or "", variables)
        if part:
            source = _resolve_part(volume.path, part, entry["name"])
        read_only = bool(entry.get("readOnly")) or volume.read_only
        yield Mount(entry["mountPath"], source, read_only)


def _resolve_part(folder: Path, part: str, volume: str) -> Path:
    if part.startswith("/") or ".." in Path(part).parts:
        raise ConfigError(f"subPath {part!r} of volume {volume!r} must stay within the volume")
    source = folder / part
    if not source.exists():
        source.mkdir(parents=True)
        source.chmod(0o777 & folder.stat().st_mode)
    resolved = source.resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise ConfigError(f"subPath {part!r} of volume {volume!r} must stay within the volume")
    return resolved
