"""The history of a workload's templates."""

from __future__ import annotations

from tests.local.controllers.objects import build_template

from kubewright.api.resource import Object
from kubewright.local.controllers.history.revision import (
    Revision,
    build_data,
    build_hash,
    build_name,
    find_surplus,
    sort_revisions,
)


def build_revision(name: str, number: int, template: Object | None = None) -> Revision:
    data = build_data(template or build_template())
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return Revision({"metadata": metadata, "data": data, "revision": number})


def build_stored_template(name: str, container: Object, metadata: Object) -> Object:
    """Return a template with all that an API server fills in."""
    return {
        "metadata": {"labels": {"app": name}, **metadata},
        "spec": {
            "containers": [
                {
                    "image": "nginx:1",
                    "imagePullPolicy": "IfNotPresent",
                    "name": "c",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    **container,
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 0,
        },
    }


def test_hashes_are_those_of_kube_controller_manager() -> None:
    # The names that kube-controller-manager 1.37.2 gave to the revisions of these templates.
    web = build_stored_template("web", {}, {"labels": {"app": "web", "v": "1"}})
    ports = {"ports": [{"containerPort": 80, "protocol": "TCP"}]}
    quoted = build_stored_template("quo", ports, {"annotations": {"q": "<a & b> ü\u2028"}})
    assert build_hash(build_data(web), "0") == "76c8d5b755"
    assert build_hash(build_data(quoted), "0") == "74b6c98697"


def test_a_collision_gives_another_hash() -> None:
    data = build_data(build_template())
    assert build_hash(data, "0") == build_hash(dict(reversed(data.items())), "0")
    assert build_hash(data, "0") != build_hash(data, "1")


def test_long_names_leave_room_for_the_hash() -> None:
    name = build_name({"metadata": {"name": "n" * 253}}, "4bcdfghjkl")
    assert name == "n" * 223 + "-4bcdfghjkl"


def test_a_field_that_is_null_says_nothing() -> None:
    template = build_template()
    older = {**template, "metadata": {**template["metadata"], "creationTimestamp": None}}
    assert build_revision("a", 1, older).data == build_data(template)
    assert build_revision("a", 1, older).template == template


def test_revisions_of_one_number_are_ordered_by_age() -> None:
    revisions = [build_revision(name, number) for name, number in (("b", 2), ("c", 1), ("a", 2))]
    revisions[0].obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    revisions[2].obj["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    assert [r.name for r in sort_revisions(r.obj for r in revisions)] == ["c", "b", "a"]


def test_only_the_oldest_revisions_that_nobody_uses_go() -> None:
    revisions = [build_revision(name, number) for number, name in enumerate("abcde")]
    assert [r.name for r in find_surplus(revisions, {"a", "e"}, 2)] == ["b"]
    assert find_surplus(revisions, {"a", "e"}, 3) == []
    assert [r.name for r in find_surplus(revisions, {"e"}, 0)] == ["a", "b", "c", "d"]
