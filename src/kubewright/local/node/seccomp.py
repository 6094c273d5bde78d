"""The seccomp filter of a container whose profile is RuntimeDefault. Pure.

Container runtimes list what is allowed and mean by it that these are refused: what a missing
capability stands for, and what reaches through namespaces. This filter lists the refused ones: a
program sees the same for each of them, and a system call that is newer than the list is allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Mapping

import msgspec

ALWAYS = ""
_REFUSED: Mapping[str, tuple[tuple[int, int], ...]] = {
    ALWAYS: (
        (248, 217),  # add_key
        (250, 219),  # keyctl
        (249, 218),  # request_key
        (246, 104),  # kexec_load
        (320, 294),  # kexec_file_load
        (180, 42),  # nfsservctl
        (167, 224),  # swapon
        (168, 225),  # swapoff
        (323, 282),  # userfaultfd
        (425, 425),  # io_uring_setup
        (426, 426),  # io_uring_enter
        (427, 427),  # io_uring_register
        (155, 41),  # pivot_root
        (139, -1),  # sysfs
        (134, -1),  # uselib
        (136, -1),  # ustat
    ),
    "SYS_ADMIN": (
        (300, 262),  # fanotify_init
        (431, 431),  # fsconfig
        (432, 432),  # fsmount
        (430, 430),  # fsopen
        (433, 433),  # fspick
        (212, 18),  # lookup_dcookie
        (165, 40),  # mount
        (442, 442),  # mount_setattr
        (429, 429),  # move_mount
        (428, 428),  # open_tree
        (179, 60),  # quotactl
        (443, 443),  # quotactl_fd
        (171, 162),  # setdomainname
        (170, 161),  # sethostname
        (308, 268),  # setns
        (166, 39),  # umount2
        (272, 97),  # unshare
    ),
    "SYS_BOOT": (
        (169, 142),  # reboot
    ),
    "SYS_CHROOT": (
        (161, 51),  # chroot
    ),
    "SYS_MODULE": (
        (176, 106),  # delete_module
        (175, 105),  # init_module
        (313, 273),  # finit_module
    ),
    "SYS_PACCT": (
        (163, 89),  # acct
    ),
    "SYS_RAWIO": (
        (172, -1),  # iopl
        (173, -1),  # ioperm
    ),
    "SYS_TIME": (
        (164, 170),  # settimeofday
        (227, 112),  # clock_settime
    ),
    "SYS_TTY_CONFIG": (
        (153, 58),  # vhangup
    ),
    "SYS_NICE": (
        (239, 236),  # get_mempolicy
        (237, 235),  # mbind
        (238, 237),  # set_mempolicy
        (279, 239),  # move_pages
        (256, 238),  # migrate_pages
    ),
    "SYSLOG": (
        (103, 116),  # syslog
    ),
    "BPF": (
        (321, 280),  # bpf
    ),
    "PERFMON": (
        (298, 241),  # perf_event_open
    ),
    "DAC_READ_SEARCH": (
        (304, 265),  # open_by_handle_at
    ),
    "SYS_PTRACE": (
        (312, 272),  # kcmp
        (438, 438),  # pidfd_getfd
        (440, 440),  # process_madvise
        (310, 270),  # process_vm_readv
        (311, 271),  # process_vm_writev
    ),
}
"""Numbers of system calls on x86_64 and aarch64 (-1: not there), by the capability that allows."""


class Machine(msgspec.Struct, frozen=True):
    """What differs between machines: AUDIT_ARCH, and the numbers of clone and clone3."""

    column: int
    audit: int
    clone: int
    clone3: int = 435


MACHINES = {
    "x86_64": Machine(0, 0xC000003E, 56),
    "aarch64": Machine(1, 0xC00000B7, 220),
}

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""


def build_filter(machine: str, capabilities: Container[str]) -> bytes:
    """Build the program for PR_SET_SECCOMP; empty for a machine whose numbers are not known.

    `capabilities` are the names that the container has: each allows what it stands for, as with
    the default profile of container runtimes. System calls of another architecture do not exist.
    """
    known = MACHINES.get(machine)
    if known is None:
        return b""
    program = [
        _statement(_LOAD, _ARCHITECTURE),
        _jump(_JUMP_EQUAL, known.audit, 1, 0),
        _statement(_RETURN, _ERRNO | _ENOSYS),
        _statement(_LOAD, _NUMBER),
        _jump(_JUMP_GREATER_EQUAL, _X32, 0, 1),
        _statement(_RETURN, _ERRNO | _ENOSYS),
    ]
    for number in sorted(_refused(known, capabilities)):
        program += [_jump(_JUMP_EQUAL, number, 0, 1), _statement(_RETURN, _ERRNO | _EPERM)]
    if "SYS_ADMIN" not in capabilities:
        program += [
            # A filter cannot follow the pointer to its flags; libraries then use clone.
            _jump(_JUMP_EQUAL, known.clone3, 0, 1),
            _statement(_RETURN, _ERRNO | _ENOSYS),
            _jump(_JUMP_EQUAL, known.clone, 0, 3),
            _statement(_LOAD, _FIRST_ARGUMENT),
            _jump(_JUMP_SET, _NEW_NAMESPACES, 0, 1),
            _statement(_RETURN, _ERRNO | _EPERM),
        ]
    program.append(_statement(_RETURN, _ALLOW))
    return b"".join(program)


def _refused(machine: Machine, capabilities: Container[str]) -> Iterator[int]:
    for capability, numbers in _REFUSED.items():
        if capability is ALWAYS or capability not in capabilities:
            yield from (pair[machine.column] for pair in numbers if pair[machine.column] >= 0)


def _statement(code: int, value: int) -> bytes:
    return struct.pack("HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
