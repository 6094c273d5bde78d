"""How a process becomes a container: sets up its mounts and identity, then executes its command.

    create      makes a container in a sandbox; its command is the first process
    join        runs a command in a running container, as `kubectl exec` does

The holder (`holder.py`) loads this file and calls `launch` in a copy of itself, so that its pid and
mount namespaces are entered already. The configuration is read as JSON from a socket. Messages come
back, each with its sender's process id (SCM_CREDENTIALS): `hello` before the configuration is read,
`made PID` with the number of the command's process as the holder knows it, `ready` just before the
command is executed, and `error TEXT` if something fails. Execution closes the socket.

The processes on the way are made with CLONE_PARENT, so that the holder is the parent of the
command: it sees the command's own exit status, a container outlives the agent, and nothing but the
command stays in memory. `unshare --fork` would stay, and in util-linux 2.38 it turns a kill into
exit status 1. bubblewrap always sets no_new_privs and cannot set groups, so neither `id` nor
/proc/self/status would say what the pod asks for.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import termios
from typing import Any

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
CLONE_PARENT, CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x8000, 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
JOINED = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38
SECCOMP_MODE_FILTER = 2
INSTRUCTION_BYTES = 8
NAMESPACES = 3
LAST_CAPABILITY = 40
MAX_DESCRIPTORS = 4096
MAX_LINKS = 255
FAILED = 128
SYSCALLS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "mount_setattr": 442},
    "aarch64": {"clone": 220, "pivot_root": 41, "mount_setattr": 442},
}

_libc = ctypes.CDLL(None, use_errno=True)


class LaunchError(Exception):
    """The container cannot be started; the text is what its status will say."""


def check(result: int, what: str) -> None:
    """Raise when a C call failed."""
    if result < 0:
        raise LaunchError(f"{what}: {os.strerror(ctypes.get_errno())}")


def syscall(name: str, *arguments: Any) -> int:
    """Make a system call that the C library has no function for."""
    numbers = SYSCALLS.get(os.uname().machine)
    if numbers is None:
        raise LaunchError(f"{name}: unknown on {os.uname().machine}")
    result: int = _libc.syscall(numbers[name], *arguments)
    check(result, name)
    return result


def pass_on(flags: int, channel: socket.socket | None = None) -> None:
    """Go on in a new child of the same parent; the process that called ends.

    On a `channel` it tells first by which number their common parent knows the child.
    """
    nothing = ctypes.c_void_p(0)
    number = CLONE_PARENT | flags | signal.SIGCHLD
    if pid := syscall("clone", ctypes.c_ulong(number), nothing, nothing, nothing, nothing):
        if channel is not None:
            channel.send(f"made {pid}".encode())
        os._exit(0)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Make a mount, or change one."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    check(result, f"mount {source} at {target}")


def read_only(target: str) -> None:
    """Make a mount read-only. Flags that a parent user namespace locked must be repeated."""
    locked = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | locked)


def resolve(root: str, target: str) -> str:
    """Return where a path of the container is, following links as they will be from inside.

    Without this, an absolute link in an image would lead a mount out of the image.
    """
    pending = [part for part in reversed(target.split("/")) if part not in ("", ".")]
    resolved: list[str] = []
    for _ in range(MAX_LINKS):
        if not pending:
            return "/".join([root, *resolved])
        part = pending.pop()
        if part == "..":
            del resolved[-1:]
            continue
        path = "/".join([root, *resolved, part])
        if os.path.islink(path):
            link = os.readlink(path)
            if link.startswith("/"):
                resolved.clear()
            pending += [part for part in reversed(link.split("/")) if part not in ("", ".")]
        else:
            resolved.append(part)
    raise LaunchError(f"too many levels of links in {target}")


def touch(path: str) -> None:
    """Make sure that a file is there to mount over."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def read_only_below(target: str) -> None:
    """Make a mount read-only with all that is mounted below it (Linux 5.12)."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    flags = ctypes.c_uint(AT_RECURSIVE)
    syscall("mount_setattr", AT_FDCWD, target.encode(), flags, attributes, size)


def bind(source: str, target: str, writable: bool, recursive: bool = False) -> None:
    """Show a file or folder at another place."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        touch(target)
    mount(source, target, None, MS_BIND | MS_REC)
    if recursive:
        read_only_below(target)
    elif not writable:
        read_only(target)


def overlay(lower: str, target: str) -> None:
    """Show a folder with a layer above that takes the writes: `upper` in the target, on disk.

    In memory it would count against the container's limit; that is left where the disk's file
    system cannot be an upper layer.
    """
    try:
        stack_layers(lower, target)
    except LaunchError:
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
        stack_layers(lower, target)


def stack_layers(lower: str, target: str) -> None:
    """Mount an overlay whose own folders are in `target` over it."""
    for name in ("upper", "work", "merged"):
        os.makedirs(f"{target}/{name}", 0o755, exist_ok=True)
    layers = f"lowerdir={lower},upperdir={target}/upper,workdir={target}/work"
    merged = f"{target}/merged"
    try:
        mount("overlay", merged, "overlay", 0, layers + ",userxattr")
    except LaunchError:
        # Only a user namespace needs userxattr, and with trusted attributes it is refused.
        mount("overlay", merged, "overlay", 0, layers)
    mount(merged, target, None, MS_BIND | MS_REC)


def apply_mount(root: str, step: dict[str, Any]) -> None:
    """Carry out one step of the plan that the agent made (`rootfs.py`)."""
    link = step["do"] == "link"
    target = root + step["target"] if link else resolve(root, step["target"])
    match step["do"]:
        case "tmpfs":
            os.makedirs(target, exist_ok=True)
            flags = MS_NOSUID | MS_NODEV | step.get("flags", 0)
            mount("tmpfs", target, "tmpfs", flags, step.get("options", ""))
        case "overlay":
            overlay(step["source"], target)
        case "bind":
            bind(step["source"], target, step["writable"], step.get("recursive", False))
        case "proc":
            os.makedirs(target, exist_ok=True)
            mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        case "sysfs":
            os.makedirs(target, exist_ok=True)
            mount("sysfs", target, "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
        case "devpts":
            os.makedirs(target, exist_ok=True)
            options = "newinstance,ptmxmode=0666,mode=0620"
            mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, options)
        case "copy":
            import shutil  # costs more than all else here, and few images need it

            shutil.copytree(step["source"], target, symlinks=True, dirs_exist_ok=True)
        case "folder":
            os.makedirs(target, exist_ok=True)
            os.chmod(target, step["mode"])
        case "link":
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.lexists(target):
                os.symlink(step["source"], target)
        case "mask" if os.path.isdir(target):
            mount("tmpfs", target, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
        case "mask" if os.path.exists(target):
            mount("/dev/null", target, None, MS_BIND)
        case "protect" if os.path.exists(target):
            mount(target, target, None, MS_BIND | MS_REC)
            read_only(target)


def enter_root(root: str, writable: bool) -> None:
    """Make the prepared folder the root and let go of the old one."""
    os.chdir(root)
    syscall("pivot_root", b".", b".")
    check(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")
    if not writable:
        read_only("/")


def map_identity(uid: int, gid: int) -> None:
    """Be `uid` and `gid` in a user namespace: an ordinary user has only one uid to give."""
    check(_libc.unshare(CLONE_NEWUSER), "unshare of the user namespace")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} 0 1"),
        ("gid_map", f"{gid} 0 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def drop_privileges(config: dict[str, Any]) -> None:
    """Take on the user, the groups and the capabilities that the container may have."""
    keep = set(config["capabilities"])
    for number in range(LAST_CAPABILITY + 1):
        if number not in keep and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            code = ctypes.get_errno()
            if code != errno.EINVAL:  # the kernel does not know this one
                raise LaunchError(f"drop of capability {number}: {os.strerror(code)}")
    if config["no_new_privileges"]:
        check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    filter_calls(bytes.fromhex(config["seccomp"]))
    if not config["one_uid"]:
        os.setgroups(config["groups"])
        os.setresgid(config["gid"], config["gid"], config["gid"])
        os.setresuid(config["uid"], config["uid"], config["uid"])


class FilterProgram(ctypes.Structure):
    """The kernel's struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def filter_calls(program: bytes) -> None:
    """Install a seccomp filter; that needs a capability that the container may not have later."""
    if not program:
        return
    length = len(program) // INSTRUCTION_BYTES
    argument = ctypes.byref(FilterProgram(length, program))
    result = _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, argument, 0, 0)
    check(result, "installation of the seccomp filter")


def find_command(name: str, path: str) -> str:
    """Look a command up as execvp does.

    Raises:
        LaunchError: it is nowhere, or is no program; worded as runc words it.
    """
    if "/" in name:
        if not os.path.exists(name):
            raise LaunchError(f'exec: "{name}": stat {name}: no such file or directory')
        if os.path.isdir(name) or not os.access(name, os.X_OK):
            raise LaunchError(f'exec: "{name}": permission denied')
        return name
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise LaunchError(f'exec: "{name}": executable file not found in $PATH')


def find_home(uid: int) -> str:
    """Return the home of a user by the image's own list; / for one who is not on it."""
    try:
        with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
            for fields in (line.rstrip("\n").split(":") for line in file):
                if len(fields) > 5 and fields[2] == str(uid):
                    return fields[5] or "/"
    except OSError:
        pass
    return "/"


def mount_namespace() -> int:
    """Return the number of this process' mount namespace; 0 where there is no /proc to ask."""
    try:
        return os.stat("/proc/self/ns/mnt").st_ino
    except OSError:
        return 0


def execute(config: dict[str, Any], channel: socket.socket) -> None:
    """Execute the command. Never returns."""
    env = dict(config["env"])
    env.setdefault("HOME", find_home(config["uid"]))
    os.umask(0o022)
    try:
        os.chdir(config["workdir"])
    except OSError as error:
        raise LaunchError(f"chdir to cwd ({config['workdir']}): {error.strerror}") from None
    command = find_command(config["argv"][0], env.get("PATH", ""))
    # Python ignores these two; a container expects the default.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    descriptor = channel.fileno()
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, MAX_DESCRIPTORS)
    os.set_inheritable(descriptor, False)
    channel.send(f"ready {mount_namespace()}".encode())
    try:
        os.execve(command, config["argv"], env)
    except OSError as error:
        raise LaunchError(f'exec: "{command}": {error.strerror}') from None


def give_output(config: dict[str, Any]) -> None:
    """Let the container open its own standard output again through /proc/1/fd/1."""
    if not config["one_uid"]:
        for descriptor in (1, 2):
            os.fchown(descriptor, config["uid"], config["gid"])


def enter(pid: int, flags: int) -> None:
    """Enter namespaces of a process; a pid namespace counts from the next child on."""
    descriptor = os.pidfd_open(pid)
    check(_libc.setns(descriptor, flags), f"setns of process {pid}")
    os.close(descriptor)


def create(config: dict[str, Any], channel: socket.socket) -> None:
    """Become the first process of a container."""
    shared = config["sandbox"]
    for descriptor in shared[:NAMESPACES]:
        check(_libc.setns(descriptor, 0), "setns of the sandbox")
    for descriptor in shared[NAMESPACES:]:
        check(_libc.setns(descriptor, CLONE_NEWPID), "setns of the pod's processes")
    if config["beside"]:
        enter(config["beside"], CLONE_NEWPID)
    has_processes = config["beside"] or len(shared) > NAMESPACES
    pass_on(CLONE_NEWNS | (0 if has_processes else CLONE_NEWPID), channel)
    root = config["root"]
    for step in config["mounts"]:
        apply_mount(root, step)
    enter_root(root, writable=not config["read_only_root"])
    if not config["read_only_root"]:
        os.makedirs(config["workdir"], exist_ok=True)
    os.setsid()
    if config["tty"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    give_output(config)
    if config["one_uid"] and config["uid"]:
        map_identity(config["uid"], config["gid"])
    drop_privileges(config)
    execute(config, channel)


def join(config: dict[str, Any], channel: socket.socket) -> None:
    """Become a process of a running container."""
    has_own_user = config["one_uid"] and config["uid"]
    enter(config["target"], JOINED | (CLONE_NEWUSER if has_own_user else 0))
    pass_on(0, channel)
    os.setsid()
    if config.get("tty"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if not config["one_uid"]:
            os.fchown(0, config["uid"], config["gid"])
    drop_privileges(config)
    execute(config, channel)


def read_config(channel: socket.socket) -> dict[str, Any]:
    """Read the configuration to the end of the agent's half of the socket."""
    parts = []
    while part := channel.recv(1 << 16):
        parts.append(part)
    config: dict[str, Any] = json.loads(b"".join(parts))
    return config


def launch(verb: str, descriptor: int) -> None:
    """Do what is asked for over the socket of that descriptor; see the module's text.

    Never returns: what Python does at its end is not for a process that was copied from another.
    """
    channel = socket.socket(fileno=descriptor)
    try:
        channel.send(b"hello")
        config = read_config(channel)
        if verb == "join":
            join(config, channel)
        else:
            create(config, channel)
    except (LaunchError, OSError, ValueError) as error:
        channel.send(f"error {error}".encode())
    finally:
        os._exit(FAILED)
