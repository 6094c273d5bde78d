from kubewright.api import builtin
from kubewright.api.metadata import build_owner_reference, controller_of, decode_metadata
from kubewright.api.resource import GroupVersionKind, NamespacedName, Resource


def test_paths_follow_the_api_conventions() -> None:
    assert builtin.POD.path("p", namespace="n") == "/api/v1/namespaces/n/pods/p"
    assert builtin.POD.path() == "/api/v1/pods"
    assert builtin.NODE.path("n1", namespace="ignored") == "/api/v1/nodes/n1"
    assert (
        builtin.DEPLOYMENT.path("d", namespace="n", subresource="scale")
        == "/apis/apps/v1/namespaces/n/deployments/d/scale"
    )


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert builtin.SECRET.path("../x?y", namespace="n/m").endswith(
        "/namespaces/n%2Fm/secrets/..%2Fx%3Fy"
    )


def test_api_version_splits_and_joins() -> None:
    assert GroupVersionKind.parse("v1", "Pod") == builtin.POD.gvk
    assert GroupVersionKind.parse("apps/v1", "Deployment").api_version == "apps/v1"
    assert builtin.BUILTIN[builtin.DEPLOYMENT.gvk] is builtin.DEPLOYMENT


def test_group_resource_is_the_name_in_messages() -> None:
    assert builtin.POD.group_resource == "pods"
    assert Resource("g.io", "v1", "Thing", "things").group_resource == "things.g.io"


def test_key_of_a_cluster_scoped_object_has_no_slash() -> None:
    assert str(NamespacedName.of({"metadata": {"name": "n"}})) == "n"
    assert str(NamespacedName.of({"metadata": {"name": "n", "namespace": "m"}})) == "m/n"


def test_owner_reference_marks_the_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "o", "uid": "u"}}

    child = {"metadata": {"ownerReferences": [build_owner_reference(owner)]}}

    reference = controller_of(child)
    assert reference is not None
    assert (reference["name"], reference["uid"], reference["controller"]) == ("o", "u", True)
    assert controller_of({"metadata": {}}) is None


def test_metadata_decodes_without_the_rest() -> None:
    raw = (
        b'{"metadata":{"name":"a","generation":2,"deletionTimestamp":"2026-01-01T00:00:00Z",'
        b'"ownerReferences":[{"kind":"X","uid":"u","controller":true}],"managedFields":[{}]},'
        b'"spec":{"deep":[1,2,{"a":null}]}}'
    )

    metadata = decode_metadata(raw)

    assert metadata.is_deleting
    assert metadata.generation == 2
    assert metadata.controller is not None
    assert metadata.controller.uid == "u"
