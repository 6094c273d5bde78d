"""What Dapr is told, without a cluster."""

from __future__ import annotations

import kubewright as kw
from operators.webapp.tests.apps import build_guestbook, build_my_app
from webapp_operator import Guestbook, MyApp
from webapp_operator.operator import build_dapr_status, build_with_dapr


def children_of(app: Guestbook | MyApp) -> tuple[kw.Object, kw.Object]:
    component, deployment = build_with_dapr(app)
    return component, deployment


def test_a_guestbook_keeps_its_state_in_memory() -> None:
    component, _ = children_of(build_guestbook("book", daprAppId="guests"))

    assert component["apiVersion"] == "dapr.io/v1alpha1"
    assert component["kind"] == "Component"
    assert component["metadata"]["name"] == "book-state"
    assert component["spec"] == {"type": "state.in-memory", "version": "v1", "metadata": []}


def test_the_pods_and_the_deployment_tell_dapr_to_join_in() -> None:
    _, deployment = children_of(build_guestbook("book", daprAppId="guests"))

    wanted = {"dapr.io/enabled": "true", "dapr.io/app-id": "guests"}
    assert deployment["metadata"]["annotations"] == wanted
    assert deployment["spec"]["template"]["metadata"]["annotations"] == wanted


def test_the_app_id_is_the_name_unless_given() -> None:
    apps: list[Guestbook | MyApp] = [build_guestbook("book"), build_my_app("book")]
    for app in apps:
        _, deployment = children_of(app)
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        assert annotations["dapr.io/app-id"] == "book"


def test_the_component_comes_before_the_pods_that_read_it_as_they_start() -> None:
    kinds = [child["kind"] for child in build_with_dapr(build_my_app())]

    assert kinds == ["Component", "Deployment"]


def test_only_the_application_itself_loads_its_component() -> None:
    component, _ = children_of(build_my_app("mine", dapr={"appId": "id"}))

    assert component["scopes"] == ["id"]


def test_redis_is_where_it_usually_is() -> None:
    component, _ = children_of(build_my_app(dapr={"stateStore": "redis"}))

    assert component["spec"]["type"] == "state.redis"
    assert component["spec"]["metadata"] == [{"name": "redisHost", "value": "redis:6379"}]


def test_settings_that_are_given_replace_the_usual_ones() -> None:
    password = {"name": "redisPassword", "secretKeyRef": {"name": "redis", "key": "password"}}
    host = {"name": "redisHost", "value": "cache:6380"}
    dapr = {"stateStore": "redis", "stateStoreMetadata": [host, password]}

    component, _ = children_of(build_my_app(dapr=dapr))

    assert component["spec"]["metadata"] == [host, password]


def test_the_status_names_the_component_once_it_exists() -> None:
    app = build_my_app("mine")
    component, deployment = build_with_dapr(app)
    deployment["status"] = {"replicas": 2, "readyReplicas": 1}

    before = build_dapr_status(app, kw.Children([deployment]))
    after = build_dapr_status(app, kw.Children([component, deployment]))

    assert (before.state_store, after.state_store) == ("", "mine-state")
    assert (after.replicas, after.ready_replicas, after.app_id) == (2, 1, "mine")
    assert after.selector == "app.kubernetes.io/name=myapp,app.kubernetes.io/instance=mine"
