"""What kubectl does with single objects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.manifests import build_config_map, build_deployment

pytestmark = pytest.mark.processes


def test_client_side_apply_creates_configures_and_leaves_alone(kubectl: Kubectl) -> None:
    manifest = build_config_map("settings", color="red")

    assert kubectl.apply(manifest) == "configmap/settings created\n"
    assert kubectl.apply(manifest) == "configmap/settings unchanged\n"
    manifest["data"] = {"shape": "round"}
    assert kubectl.apply(manifest) == "configmap/settings configured\n"
    assert kubectl.get("configmap", "settings")["data"] == {"shape": "round"}


def test_client_side_apply_of_a_deployment_is_stable(kubectl: Kubectl) -> None:
    manifest = build_deployment("web", replicas=0)

    assert kubectl.apply(manifest) == "deployment.apps/web created\n"
    generation = kubectl.get("deployment", "web")["metadata"]["generation"]
    assert kubectl.apply(manifest) == "deployment.apps/web unchanged\n"
    assert kubectl.get("deployment", "web")["metadata"]["generation"] == generation


def test_server_side_apply_owns_and_conflicts(kubectl: Kubectl) -> None:
    manifest = build_config_map("shared", color="red")

    first = kubectl.apply(manifest, "--server-side", "--field-manager=one")
    assert first == "configmap/shared serverside-applied\n"
    manifest["data"]["color"] = "blue"
    conflict = kubectl(
        *("apply", "--server-side", "--field-manager=two", "-f", "-"),
        stdin=str(manifest),
        code=1,
    )
    assert 'conflict with "one"' in conflict
    assert ".data.color" in conflict
    kubectl.apply(manifest, "--server-side", "--field-manager=two", "--force-conflicts")
    assert kubectl.get("configmap", "shared")["data"]["color"] == "blue"


def test_apply_refuses_unknown_fields_and_names_them(kubectl: Kubectl) -> None:
    manifest = build_deployment("typo", replicas=0)
    manifest["spec"]["replicsa"] = 3

    refused = kubectl("apply", "-f", "-", stdin=str(manifest), code=1)

    assert 'unknown field "spec.replicsa"' in refused


def test_watch_shows_changes_as_they_happen(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.apply(build_config_map("seen", a="1"))
    output = tmp_path / "watch"
    with output.open("wb") as file:
        command = kubectl.command("get", "configmap", "-w", "--output-watch-events")
        watch = subprocess.Popen(command, stdout=file, env=kubectl.environment())
    try:
        eventually(lambda: "seen" in output.read_text(), "the first list in get -w")
        kubectl("label", "configmap", "seen", "x=y")
        kubectl("delete", "configmap", "seen")

        def shows_all() -> bool:
            lines = [line for line in output.read_text().splitlines() if "seen" in line]
            return [line.split()[0] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]

        eventually(shows_all, "ADDED, MODIFIED, DELETED in get -w")
    finally:
        watch.terminate()
        watch.wait(10)


def test_get_prints_tables_and_names(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("table", replicas=0))

    table = kubectl("get", "deployments")
    assert table.splitlines()[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert table.splitlines()[1].split()[:4] == ["table", "0/0", "0", "0"]
    assert kubectl("get", "deploy", "-o", "name") == "deployment.apps/table\n"
    assert "memcached:1.6" in kubectl("get", "deploy", "-o", "wide")
    assert kubectl("get", "deploy", "absent", code=1) == (
        'Error from server (NotFound): deployments.apps "absent" not found\n'
    )


def test_describe_tells_of_a_deployment(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("told", replicas=1))
    eventually(
        lambda: "ScalingReplicaSet" in kubectl("describe", "deployment", "told"),
        "the event ScalingReplicaSet in describe",
    )

    text = kubectl("describe", "deployment", "told")

    assert "StrategyType:           RollingUpdate" in text
    assert "25% max unavailable, 25% max surge" in text
    assert "Scaled up replica set told-" in text


def test_diff_shows_what_apply_would_change(kubectl: Kubectl) -> None:
    manifest = build_deployment("differs", replicas=0)
    kubectl.apply(manifest)
    assert kubectl("diff", "-f", "-", stdin=str(manifest)) == ""

    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "memcached:1.6.18"
    text = kubectl("diff", "-f", "-", stdin=str(manifest), code=1)

    assert "-      - image: memcached:1.6" in text or "-        image: memcached:1.6" in text
    assert "memcached:1.6.18" in text
    assert kubectl.get("deploy", "differs")["metadata"]["generation"] == 1


def test_edit_saves_what_the_editor_wrote(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.apply(build_config_map("edited", color="red"))
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/color: red/color: green/' \"$1\"\n")
    editor.chmod(0o755)

    text = kubectl("edit", "configmap", "edited", environment={"KUBE_EDITOR": str(editor)})

    assert "configmap/edited edited" in text
    assert kubectl.get("configmap", "edited")["data"] == {"color": "green"}


def test_patch_takes_all_three_kinds(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("patched", replicas=0))
    container = '{"spec":{"template":{"spec":{"containers":[{"name":"memcached","tty":true}]}}}}'

    kubectl("patch", "deployment", "patched", "-p", container)
    kubectl("patch", "deployment", "patched", "--type=merge", "-p", '{"spec":{"paused":true}}')
    operation = '[{"op":"replace","path":"/spec/revisionHistoryLimit","value":2}]'
    kubectl("patch", "deployment", "patched", "--type=json", "-p", operation)

    spec = kubectl.get("deployment", "patched")["spec"]
    assert spec["template"]["spec"]["containers"][0]["image"] == "memcached:1.6"
    assert spec["template"]["spec"]["containers"][0]["tty"] is True
    assert (spec["paused"], spec["revisionHistoryLimit"]) == (True, 2)


def test_create_commands_that_send_protobuf_work(kubectl: Kubectl) -> None:
    assert "created" in kubectl("create", "configmap", "made", "--from-literal=a=b")
    secret = kubectl("create", "secret", "generic", "hidden", "--from-literal=k=v")
    assert "secret/hidden created" in secret
    assert kubectl.get("configmap", "made")["data"] == {"a": "b"}
    assert kubectl.get("secret", "hidden")["data"] == {"k": "dg=="}


def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl) -> None:
    kubectl.apply(build_config_map("gone", a="b"))

    assert 'configmap "gone" deleted' in kubectl("delete", "configmap", "gone")
    assert "not found" in kubectl("get", "configmap", "gone", code=1)
