from __future__ import annotations

import struct

import pytest

from kubewright.local.node.seccomp import build_filter

ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
X86_64 = 0xC000003E
CLONE_THREAD, CLONE_NEWUSER = 0x00010000, 0x10000000


def run(program: bytes, number: int, argument: int = 0, audit: int = X86_64) -> int:
    """Run a filter as the kernel does and return its verdict."""
    data = {0: number, 4: audit, 16: argument}
    instructions = list(struct.iter_unpack("HBBI", program))
    accumulator = position = 0
    while True:
        code, if_true, if_false, value = instructions[position]
        position += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            accumulator = data[value]
            continue
        holds = {
            0x15: accumulator == value,
            0x35: accumulator >= value,
            0x45: bool(accumulator & value),
        }[code]
        position += if_true if holds else if_false


@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        (0, ALLOW),  # read
        (165, EPERM),  # mount
        (272, EPERM),  # unshare
        (248, EPERM),  # add_key
        (425, EPERM),  # io_uring_setup
        (435, ENOSYS),  # clone3
        (0x40000000, ENOSYS),  # a call of the x32 interface
    ],
)
def test_refuses_what_reaches_out_of_a_container(number: int, verdict: int) -> None:
    assert run(build_filter("x86_64", ()), number) == verdict


def test_threads_may_be_made_and_namespaces_not() -> None:
    program = build_filter("x86_64", ())
    assert run(program, 56, CLONE_THREAD) == ALLOW
    assert run(program, 56, CLONE_NEWUSER) == EPERM


def test_capability_allows_what_it_stands_for() -> None:
    program = build_filter("x86_64", ("SYS_ADMIN",))
    assert run(program, 165) == ALLOW
    assert run(program, 435) == ALLOW
    assert run(program, 169) == EPERM  # reboot needs another
    assert run(program, 248) == EPERM


def test_calls_of_another_architecture_do_not_exist() -> None:
    assert run(build_filter("x86_64", ()), 0, audit=0x40000003) == ENOSYS


def test_unknown_machine_has_no_filter() -> None:
    assert build_filter("riscv64", ()) == b""
