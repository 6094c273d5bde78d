"""Passwords are long, and free of what shells and URLs would read."""

from __future__ import annotations

from urllib.parse import quote

from database_objects import generate_password


def test_passwords_differ_and_need_no_escapes() -> None:
    passwords = {generate_password() for _ in range(100)}

    assert len(passwords) == 100
    assert all(len(each) == 24 and quote(each, safe="") == each for each in passwords)
