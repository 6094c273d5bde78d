"""Diffs are for people: YAML, without what the server keeps for itself, and without secrets."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.runtime.object_diff import diff_objects


def build(kind: str = "ConfigMap", **data: str) -> Object:
    metadata = {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{"manager": "m"}],
        "creationTimestamp": "2026-11-28T00:00:00Z",
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data, "status": {}}


def test_shows_what_changes_in_its_place() -> None:
    assert diff_objects(build(x="1", y="1"), build(x="2", y="1")).splitlines() == [
        "--- live/ConfigMap/n/a",
        "+++ desired/ConfigMap/n/a",
        "@@ -1,6 +1,6 @@",
        " apiVersion: v1",
        " data:",
        "-  x: '1'",
        "+  x: '2'",
        "   y: '1'",
        " kind: ConfigMap",
        " metadata:",
    ]


def test_what_comes_and_what_goes_is_shown_whole() -> None:
    came = diff_objects(None, build(x="1")).splitlines()
    assert came[:2] == ["--- /dev/null", "+++ desired/ConfigMap/n/a"]
    assert came[3:] == [
        "+apiVersion: v1",
        "+data:",
        "+  x: '1'",
        "+kind: ConfigMap",
        "+metadata:",
        "+  name: a",
        "+  namespace: n",
    ]
    went = diff_objects(build(x="1"), None).splitlines()
    assert went[:2] == ["--- live/ConfigMap/n/a", "+++ /dev/null"]
    assert [line[1:] for line in went[3:]] == [line[1:] for line in came[3:]]


def test_what_only_the_server_changes_is_no_difference() -> None:
    before, after = build(x="1"), build(x="1")
    after["metadata"] |= {"resourceVersion": "8", "generation": 2}
    after["status"] = {"ready": True}
    assert diff_objects(before, after) == ""
    assert diff_objects(None, None) == ""


def test_secrets_tell_only_which_values_change() -> None:
    text = diff_objects(
        build("Secret", a="b2xk", b="c2FtZQ=="), build("Secret", a="bmV3", b="c2FtZQ==")
    )
    assert "-  a: '*** (before)'" in text
    assert "+  a: '*** (after)'" in text
    assert "   b: '***'" in text
    whole = (
        text
        + diff_objects(None, build("Secret", a="b2xk"))
        + diff_objects(build("Secret", a="b2xk"), None)
    )
    assert "b2xk" not in whole
    assert "bmV3" not in whole


def test_kubectls_copy_of_a_secret_is_masked_too() -> None:
    secret = build("Secret", a="b2xk")
    name = "kubectl.kubernetes.io/last-applied-configuration"
    secret["metadata"]["annotations"] = {name: '{"data":{"a":"b2xk"}}'}
    assert "b2xk" not in diff_objects(secret, None)
