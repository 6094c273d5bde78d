import pytest
from pydantic import BaseModel, Field

from kubewright.api.custom_resource import Column, CustomResource, Scale, Status, pluralize, ready
from kubewright.api.errors import DecodeError, SchemaError
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import Resource


class PoolSpec(BaseModel):
    size: int = Field(ge=1)
    backup_enabled: bool = False


class PoolStatus(Status):
    ready_replicas: int = 0
    selector: str = ""


class Pool(
    CustomResource[PoolSpec, PoolStatus],
    group="example.com",
    version="v1",
    short_names=("po",),
    scale=Scale(spec="spec.size", status="status.readyReplicas"),
    columns=[Column("Size", "spec.size"), Column("Ready", ready)],
):
    """A pool
    of things."""


def version() -> dict[str, object]:
    versions: list[dict[str, object]] = Pool.crd()["spec"]["versions"]
    return versions[0]


def test_class_knows_its_resource() -> None:
    assert Pool.resource == Resource("example.com", "v1", "Pool", "pools")
    assert Pool.crd()["metadata"]["name"] == "pools.example.com"


def test_spec_fields_keep_their_names_and_status_fields_are_camel_case() -> None:
    schema = Pool.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert set(schema["properties"]["spec"]["properties"]) == {"size", "backup_enabled"}
    assert {"readyReplicas", "observedGeneration", "conditions"} <= set(
        schema["properties"]["status"]["properties"]
    )
    assert schema["description"] == "A pool of things."
    assert schema["required"] == ["spec"]


def test_columns_take_their_type_from_the_schema_and_end_with_the_age() -> None:
    assert version()["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ready},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_scale_maps_to_the_paths() -> None:
    assert version()["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.readyReplicas",
            "labelSelectorPath": ".status.selector",
        },
    }


def test_decodes_and_encodes_an_object() -> None:
    pool = Pool.decode(
        b'{"apiVersion":"example.com/v1","kind":"Pool","metadata":{"name":"a","namespace":"n"},'
        b'"spec":{"size":3},"status":{"readyReplicas":2,"unknown":1}}'
    )

    assert (pool.key.name, pool.spec.size, pool.status.ready_replicas) == ("a", 3, 2)
    assert pool.to_object()["spec"] == {"size": 3, "backup_enabled": False}
    assert pool == Pool.decode(str_to_json(pool))


def str_to_json(pool: Pool) -> bytes:
    import json

    return json.dumps(pool.to_object()).encode()


@pytest.mark.parametrize("raw", [b'{"spec":{"size":0}}', b'{"spec":{"size":"x"}}', b"{", b"[]"])
def test_what_does_not_fit_is_one_error_that_names_the_kind(raw: bytes) -> None:
    with pytest.raises(DecodeError, match="Pool"):
        Pool.decode(raw)


def test_objects_are_built_in_memory_for_tests() -> None:
    pool = Pool(metadata=ObjectMeta(name="a"), spec=PoolSpec(size=1))

    assert pool.status.ready_replicas == 0
    assert pool.to_object()["metadata"] == {"name": "a"}


def test_a_path_that_names_no_field_fails_at_import() -> None:
    with pytest.raises(SchemaError, match=r"spec\.replicas: there is no field 'replicas'"):

        class Bad(CustomResource[PoolSpec, PoolStatus], group="g", version="v1", scale=Scale()):
            pass


def test_a_class_without_models_fails_at_import() -> None:
    with pytest.raises(SchemaError, match="derive it from CustomResource"):

        class Bad(CustomResource, group="g", version="v1"):  # type: ignore[type-arg]  # the fault
            pass


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Memcached", "memcacheds"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Box", "boxes"),
    ],
)
def test_plurals_follow_english_rules(kind: str, plural: str) -> None:
    assert pluralize(kind) == plural
