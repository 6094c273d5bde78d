from __future__ import annotations

import base64

import pytest
from tests.local.node.objects import build_pod

from kubewright.local.node.environment import (
    ConfigError,
    build_environment,
    expand,
    list_references,
    read_field,
)

CONFIG_MAP = {"data": {"A": "one", "B": "one"}}
SECRET = {"data": {"B": base64.b64encode(b"two").decode()}}
REFERENCES = {("ConfigMap", "m"): CONFIG_MAP, ("Secret", "s"): SECRET, ("ConfigMap", "gone"): None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "a"),
        ("$$(A)", "$(A)"),
        ("$(NOPE)", "$(NOPE)"),
        ("$$$(A)", "$a"),
        ("$(A", "$(A"),
        ("100$", "100$"),
        ("cost $$5", "cost $5"),
    ],
)
def test_expands_as_the_kubelet_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "a"}) == expected


def test_env_goes_before_env_from_and_later_sources_before_earlier() -> None:
    container = {
        "envFrom": [
            {"configMapRef": {"name": "m"}},
            {"secretRef": {"name": "s"}},
            {"prefix": "P_", "configMapRef": {"name": "m"}},
        ],
        "env": [{"name": "A", "value": "env"}, {"name": "D", "value": "$(A)-$(B)"}],
    }
    assert build_environment(build_pod(), container, REFERENCES) == {
        "A": "env",
        "B": "two",
        "P_A": "one",
        "P_B": "one",
        "D": "env-two",
    }


def test_names_the_missing_config_map() -> None:
    container = {"envFrom": [{"configMapRef": {"name": "gone"}}]}
    with pytest.raises(ConfigError, match='configmap "gone" not found'):
        build_environment(build_pod(), container, REFERENCES)


def test_names_the_missing_key() -> None:
    value = {"secretKeyRef": {"name": "s", "key": "nope"}}
    container = {"env": [{"name": "K", "valueFrom": value}]}
    with pytest.raises(ConfigError, match="couldn't find key nope in Secret ns/s"):
        build_environment(build_pod(), container, REFERENCES)


def test_leaves_out_what_is_optional_and_missing() -> None:
    keys = [
        {"configMapKeyRef": {"name": "gone", "key": "k", "optional": True}},
        {"configMapKeyRef": {"name": "m", "key": "nope", "optional": True}},
    ]
    container = {"env": [{"name": f"K{n}", "valueFrom": key} for n, key in enumerate(keys)]}
    assert build_environment(build_pod(), container, REFERENCES) == {}


def test_rounds_resources_up_in_units_of_the_divisor() -> None:
    source = {"resource": "limits.cpu"}
    container = {
        "resources": {"limits": {"cpu": "250m", "memory": "64Mi"}},
        "env": [
            {"name": "CPU", "valueFrom": {"resourceFieldRef": source}},
            {"name": "MILLI", "valueFrom": {"resourceFieldRef": {**source, "divisor": "1m"}}},
            {
                "name": "MEGA",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1M"}},
            },
        ],
    }
    values = build_environment(build_pod(), container, {})
    assert values == {"CPU": "1", "MILLI": "250", "MEGA": "68"}


def test_tells_of_services_of_the_namespace_and_of_kubernetes() -> None:
    def service(namespace: str, name: str, address: str) -> dict[str, object]:
        metadata = {"namespace": namespace, "name": name}
        return {"metadata": metadata, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}

    services = [
        service("ns", "web-app", "10.0.0.1"),
        service("other", "far", "10.0.0.2"),
        service("ns", "headless", "None"),
        service("default", "kubernetes", "10.0.0.9"),
    ]
    values = build_environment(build_pod(), {}, {}, services=services)
    hosts = {name: value for name, value in values.items() if name.endswith("_SERVICE_HOST")}
    assert hosts == {
        "WEB_APP_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_HOST": "10.0.0.9",
    }
    assert values["WEB_APP_PORT_80_TCP"] == "tcp://10.0.0.1:80"
    pod = build_pod(enableServiceLinks=False)
    assert "WEB_APP_SERVICE_HOST" not in build_environment(pod, {}, {}, services=services)


def test_reads_a_label_by_its_key() -> None:
    pod = build_pod(metadata={"labels": {"a/b": "x"}})
    assert read_field(pod, "metadata.labels['a/b']") == "x"
    assert read_field(pod, "metadata.labels['none']") == ""


def test_refuses_a_field_that_the_downward_api_lacks() -> None:
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.volumes"):
        read_field(build_pod(), "spec.volumes")


def test_lists_references_of_containers_and_volumes() -> None:
    container = {
        "name": "c",
        "envFrom": [{"secretRef": {"name": "s"}}],
        "env": [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
    }
    volumes = [
        {"name": "v", "secret": {"secretName": "t"}},
        {"name": "w", "projected": {"sources": [{"configMap": {"name": "n"}}]}},
    ]
    pod = build_pod(containers=[container], volumes=volumes)
    assert list_references(pod) == {
        ("Secret", "s"),
        ("Secret", "t"),
        ("ConfigMap", "m"),
        ("ConfigMap", "n"),
    }
