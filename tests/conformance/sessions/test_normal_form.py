"""What counts as the same output."""

from __future__ import annotations

import pytest

from conformance.sessions.normal_form import normalize


@pytest.mark.parametrize(
    ("printed", "normal"),
    [
        ("created: 2026-11-28T10:05:03.123456Z", "created: <time>"),
        ("UPDATED  2026-11-28 10:05:03.1 +0000 UTC", "UPDATED  <time>"),
        ("LAST DEPLOYED: Sat Nov 28 10:05:03 2026", "LAST DEPLOYED: <time>"),
        ("CreationTimestamp:  Sat, 28 Nov 2026 10:05:03 +0000", "CreationTimestamp:  <time>"),
        ('resourceVersion: "481"', 'resourceVersion: "<version>"'),
        ("uid: 0a1b2c3d-0000-4000-8000-000000000000", "uid: <uid>"),
        ("NodePort:  <unset>  31234/TCP", "NodePort:  <unset>  <node-port>/TCP"),
        ("IP:  10.96.14.3", "IP:  <cluster-ip>"),
        ("pod/web-6b7f9c8d5b-x2k4z  1/1", "pod/web-<hash>-<generated>  1/1"),
        ("pod-template-hash=wqzxrskhrz", "pod-template-hash=<hash>"),
        ("E1128 10:05:03.123456   1234 memcache.go:265] no", "E memcache.go] no"),
    ],
)
def test_what_a_run_makes_up_gets_a_name(printed: str, normal: str) -> None:
    assert normalize(printed) == normal


@pytest.mark.parametrize(
    "text",
    [
        "renewTime: 2020-01-01T00:00:00.000000Z",
        "kubernetes  ClusterIP  10.96.0.1",
        "cpu  500m",
        "generation: 3",
        "delay=0s timeout=1s period=10s",
        "    - name: web",
    ],
)
def test_what_a_session_says_stays(text: str) -> None:
    assert normalize(text) == text


@pytest.mark.parametrize("age", ["5s", "119s", "2m", "2m3s"])
def test_a_table_is_the_same_whatever_the_widths_of_its_ages(age: str) -> None:
    table = f"NAME   READY   {'AGE':<{len(age) + 3}}IMAGES\nweb    0/2     {age}   nginx\n"

    assert normalize(table) == "NAME  READY  AGE  IMAGES\nweb  0/2  <age>  nginx"


def test_places_of_the_run_get_their_names() -> None:
    assert normalize("in /tmp/x/work/a", [("/tmp/x/work", "<folder>")]) == "in <folder>/a"
