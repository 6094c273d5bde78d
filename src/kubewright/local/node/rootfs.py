"""The plan of a container's file system, for `launcher.py` to carry out."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kubewright.local.node.image.image import Image
from kubewright.local.node.runtime import Mount

MountStep: TypeAlias = dict[str, Any]
_logger = logging.getLogger(__name__)

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
FOLDERS = ("etc", "home", "mnt", "opt", "root", "run", "srv", "var/lib", "var/log", "var/cache")
HOST_ETC = (
    "alternatives",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "protocols",
    "services",
    "ssl",
)
HIDDEN = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/acpi",
    "/proc/scsi",
    "/sys/firmware",
)
PROTECTED = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
MS_NOEXEC = 8


def plan_mounts(
    image: Image, mounts: Iterable[Mount], *, host: Path = Path("/"), privileged: bool = False
) -> list[MountStep]:
    """Plan the file system: the image, the kernel's own file systems, then the mounts, outer first.

    `host` is where the machine's root is, for an image that the machine's own /usr serves.
    """
    steps = _plan_image(image, host)
    steps += _plan_kernel(list_devices(host) if privileged else DEVICES)
    ordered = sorted(mounts, key=lambda mount: Path(mount.target).parts)
    steps += [_plan_mount(mount) for mount in ordered]
    if not privileged:
        steps += [{"do": "mask", "target": path} for path in HIDDEN]
        steps += [{"do": "protect", "target": path} for path in PROTECTED]
    return steps


def _plan_image(image: Image, host: Path) -> list[MountStep]:
    if image.root is not None:
        return [{"do": "overlay", "source": str(image.root), "target": ""}]
    steps: list[MountStep] = [{"do": "tmpfs", "target": "", "options": "mode=0755"}]
    steps += [_folder(f"/{name}") for name in FOLDERS]
    steps += [_folder(f"/{name}", 0o1777) for name in ("tmp", "var/tmp")]
    steps.append({"do": "link", "source": "../run", "target": "/var/run"})
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = host / name
        if path.is_symlink():
            steps.append({"do": "link", "source": os.readlink(path), "target": f"/{name}"})
        elif path.is_dir():
            steps.append(_bind(path, f"/{name}"))
    for entry in sorted((host / "usr").iterdir()):
        # /usr/local stays the image's own: what the machine's owner put there is no package's.
        if entry.is_dir() and entry.name != "local":
            steps.append(_bind(entry, f"/usr/{entry.name}"))
    for name in HOST_ETC:
        if (host / "etc" / name).exists():
            steps.append(_bind((host / "etc" / name).resolve(), f"/etc/{name}"))
    if image.files is not None:
        steps.append({"do": "copy", "source": str(image.files), "target": ""})
    return steps


def list_devices(host: Path) -> list[str]:
    """List the devices of the machine, which a privileged container has."""
    folder = host / "dev"
    names = [entry.name for entry in folder.iterdir() if _is_device(entry)]
    return sorted({*DEVICES, *names})


def _is_device(path: Path) -> bool:
    return not path.is_symlink() and (path.is_char_device() or path.is_block_device())


def _plan_kernel(devices: Iterable[str]) -> list[MountStep]:
    steps: list[MountStep] = [
        {"do": "proc", "target": "/proc"},
        {"do": "sysfs", "target": "/sys"},
        {"do": "tmpfs", "target": "/dev", "options": "mode=0755,size=64k", "flags": MS_NOEXEC},
        {"do": "tmpfs", "target": "/dev/shm", "options": "mode=1777,size=64m", "flags": MS_NOEXEC},
    ]
    steps += [{**_bind(Path("/dev", name), f"/dev/{name}"), "writable": True} for name in devices]
    steps.append({"do": "devpts", "target": "/dev/pts"})
    links = {
        "ptmx": "pts/ptmx",
        "fd": "/proc/self/fd",
        "stdin": "fd/0",
        "stdout": "fd/1",
        "stderr": "fd/2",
    }
    steps += [{"do": "link", "source": to, "target": f"/dev/{name}"} for name, to in links.items()]
    return steps


def _plan_mount(mount: Mount) -> MountStep:
    if mount.source is None:
        return {"do": "tmpfs", "target": mount.target, "options": mount.options}
    step = {**_bind(mount.source, mount.target), "writable": not mount.read_only}
    return {**step, "recursive": True} if mount.is_recursive else step


def _bind(source: Path, target: str) -> MountStep:
    return {"do": "bind", "source": str(source), "target": target, "writable": False}


def _folder(target: str, mode: int = 0o755) -> MountStep:
    return {"do": "folder", "target": target, "mode": mode}


def remove_tree(folder: Path) -> None:
    """Remove the folder of a container, with what is in it that its owner made unreadable."""

    def open_up(_: object, path: str, __: object) -> None:
        try:
            os.chmod(path, 0o700)
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.warning("%s was not removed: %s", path, error)

    shutil.rmtree(folder, onerror=open_up)


def capability_numbers(mask: int) -> Sequence[int]:
    """Return the numbers of the capabilities in a mask."""
    return [number for number in range(64) if mask >> number & 1]
