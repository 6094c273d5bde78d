"""Defaults, preparation and validation of the kinds that users write most."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin import builtin_kinds
from kubewright.local.apiserver.kind import Strategy

CONTAINER = {"name": "c", "image": "nginx"}


def strategy_of(kind: str, group: str = "") -> Strategy:
    return next(
        k.strategy for k in builtin_kinds() if (k.resource.group, k.resource.kind) == (group, kind)
    )


def created(kind: str, group: str = "", **body: Any) -> Object:
    strategy = strategy_of(kind, group)
    metadata = {"name": "a", "namespace": "ns", "uid": "u1", **body.pop("metadata", {})}
    obj = strategy.decode({"metadata": metadata, **body}).obj
    strategy.default(obj)
    strategy.prepare_for_create(obj)
    return obj


def faults(kind: str, group: str = "", **body: Any) -> list[str]:
    obj = created(kind, group, **body)
    return [f"{c.field}: {c.message}" for c in strategy_of(kind, group).validate(obj)]


def update_faults(kind: str, group: str, old: Object, new: Object) -> list[str]:
    old["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"] = "1"
    strategy = strategy_of(kind, group)
    strategy.prepare_for_update(new, old)
    return [f"{c.field}: {c.message}" for c in strategy.validate_update(new, old)]


def deployment_spec(**spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}


def test_deployment_gets_its_defaults() -> None:
    spec = created("Deployment", "apps", spec=deployment_spec())["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Always"
    assert pod["terminationGracePeriodSeconds"] == 30
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert "enableServiceLinks" not in pod


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    pod = created("Pod", spec={"containers": [{"name": "c", "image": image}]})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_pod_requests_follow_limits_and_decide_the_quality_of_service() -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    pod = created("Pod", spec={"containers": [{**CONTAINER, "resources": {"limits": limits}}]})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == limits
    assert pod["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_probe_gets_its_defaults() -> None:
    probe = {"httpGet": {"port": 80}}
    pod = created("Pod", spec={"containers": [{**CONTAINER, "livenessProbe": probe}]})
    got = pod["spec"]["containers"][0]["livenessProbe"]
    assert got["httpGet"] == {"path": "/", "port": 80, "scheme": "HTTP"}
    assert (got["timeoutSeconds"], got["failureThreshold"]) == (1, 3)


def test_service_gets_its_defaults() -> None:
    spec = created("Service", spec={"ports": [{"port": 80}]})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
    assert spec["internalTrafficPolicy"] == "Cluster"


def test_job_gets_a_selector_of_its_own() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    job = created("Job", "batch", spec={"template": template})
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "a"


def test_secret_string_data_becomes_data() -> None:
    secret = created("Secret", stringData={"k": "v"})
    assert secret["data"] == {"k": "dg=="}
    assert secret["type"] == "Opaque"
    assert "stringData" not in secret


def test_creation_drops_the_status() -> None:
    body = created("Deployment", "apps", spec=deployment_spec(), status={"replicas": 3})
    assert body["status"] == {}


def test_update_keeps_the_status_and_status_updates_keep_the_spec() -> None:
    strategy = strategy_of("Deployment", "apps")
    old = created("Deployment", "apps", spec=deployment_spec())
    old["status"] = {"replicas": 1}
    new = deepcopy(old)
    new["status"] = {"replicas": 9}
    new["spec"]["replicas"] = 5
    main, status = deepcopy(new), deepcopy(new)
    strategy.prepare_for_update(main, old)
    strategy.prepare_for_status_update(status, old)
    assert (main["spec"]["replicas"], main["status"]["replicas"]) == (5, 1)
    assert (status["spec"]["replicas"], status["status"]["replicas"]) == (1, 9)


def test_annotations_raise_the_generation_of_a_deployment() -> None:
    old = created("Deployment", "apps", spec=deployment_spec())
    old["metadata"]["generation"] = 1
    new = deepcopy(old)
    new["metadata"]["annotations"] = {"a": "b"}
    strategy_of("Deployment", "apps").prepare_for_update(new, old)
    assert new["metadata"]["generation"] == 2


def test_deployment_faults_are_worded_as_upstream() -> None:
    assert faults("Deployment", "apps", spec={}) == [
        "spec.selector: Required value",
        (
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template"
            " `labels`"
        ),
        "spec.template.spec.containers: Required value",
    ]


def test_deployment_selector_is_immutable() -> None:
    old = created("Deployment", "apps", spec=deployment_spec())
    new = deepcopy(old)
    new["spec"]["selector"] = {"matchLabels": {"a": "b", "c": "d"}}
    new["spec"]["template"]["metadata"]["labels"] = {"a": "b", "c": "d"}
    assert update_faults("Deployment", "apps", old, new) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'
    ]


def test_pod_faults_come_in_the_order_of_the_spec() -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    containers = [{"name": "c"}, {"name": "c", "image": "i", "volumeMounts": mounts}]
    spec = {"containers": containers, "restartPolicy": "Sometimes"}
    assert faults("Pod", spec=spec) == [
        "spec.containers[0].image: Required value",
        'spec.containers[1].volumeMounts[0].name: Not found: "v"',
        'spec.containers[1].name: Duplicate value: "c"',
        (
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always",'
            ' "OnFailure", "Never"'
        ),
    ]


def test_only_images_of_a_pod_may_change() -> None:
    old = created("Pod", spec={"containers": [CONTAINER]})
    image, command = deepcopy(old), deepcopy(old)
    image["spec"]["containers"][0]["image"] = "other"
    command["spec"]["containers"][0]["command"] = ["sh"]
    assert update_faults("Pod", "", old, image) == []
    assert update_faults("Pod", "", old, command)[0].startswith(
        "spec: Forbidden: pod updates may not change fields other than"
    )


def test_immutable_config_map_keeps_its_data() -> None:
    old = created("ConfigMap", data={"a": "1"}, immutable=True)
    new = {**deepcopy(old), "data": {"a": "2"}}
    assert update_faults("ConfigMap", "", old, new) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]


def test_secret_type_is_immutable() -> None:
    old = created("Secret", type="example.com/x")
    new = {**deepcopy(old), "type": "Opaque"}
    assert update_faults("Secret", "", old, new) == [
        'type: Invalid value: "Opaque": field is immutable'
    ]


def test_service_ports_of_several_need_names() -> None:
    ports = [{"port": 80}, {"port": 81}]
    assert faults("Service", spec={"ports": ports}) == [
        "spec.ports[0].name: Required value",
        "spec.ports[1].name: Required value",
    ]


def test_stateful_set_template_may_mount_claims() -> None:
    mounts = [{"name": "data", "mountPath": "/d"}]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": claim}]
    spec = deployment_spec(serviceName="s", volumeClaimTemplates=claims)
    spec["template"] = deepcopy(spec["template"])
    spec["template"]["spec"]["containers"] = [{**CONTAINER, "volumeMounts": mounts}]
    assert faults("StatefulSet", "apps", spec=spec) == []


def test_claim_is_immutable_but_for_growth_once_bound() -> None:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    old = created("PersistentVolumeClaim", spec=spec)
    new = deepcopy(old)
    new["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert update_faults("PersistentVolumeClaim", "", old, deepcopy(new))
    old["status"]["phase"] = "Bound"
    old["status"]["capacity"] = {"storage": "1Gi"}
    assert update_faults("PersistentVolumeClaim", "", old, deepcopy(new)) == []


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ("*/5 * * * *", None),
        ("@daily", None),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("0 0 * jan-feb mon", None),
    ],
)
def test_cron_schedules_are_checked(schedule: str, fault: str | None) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}
    found = faults("CronJob", "batch", spec=spec)
    expected = [] if fault is None else [f'spec.schedule: Invalid value: "{schedule}": {fault}']
    assert found == expected


def test_selectable_fields_of_a_pod() -> None:
    pod = created("Pod", spec={"containers": [CONTAINER], "nodeName": "n1"})
    fields = strategy_of("Pod").selectable_fields(pod)
    assert fields["spec.nodeName"] == "n1"
    assert fields["spec.hostNetwork"] == "false"
    assert fields["status.phase"] == "Pending"


def test_unset_numbers_that_are_no_pointers_get_their_default() -> None:
    reference = {"name": "global-default"}
    schema = created(
        "FlowSchema",
        "flowcontrol.apiserver.k8s.io",
        spec={"priorityLevelConfiguration": reference, "matchingPrecedence": 0},
    )
    assert schema["spec"]["matchingPrecedence"] == 1000


def test_network_policy_exceptions_lie_within_their_network() -> None:
    block = {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "192.0.2.0/24"]}
    spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
    assert faults("NetworkPolicy", "networking.k8s.io", spec=spec) == [
        (
            'spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "192.0.2.0/24": must be a'
            " strict subset of `cidr`"
        )
    ]


def test_writes_do_not_move_the_creation_time() -> None:
    old = created("ConfigMap", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    new = deepcopy(old)
    new["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    assert update_faults("ConfigMap", "", old, new) == []
    assert new["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
