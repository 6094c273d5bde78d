"""The Deployments of applications, without a cluster."""

from __future__ import annotations

import pytest

import kubewright as kw
from operators.webapp.tests.apps import build_guestbook, build_my_app, build_simple_app
from webapp_operator import SimpleApp
from webapp_operator.deployment import WebApp, build_selector
from webapp_operator.operator import build_simple_app as children_of_simple_app
from webapp_operator.operator import build_with_dapr


def find_deployment(app: WebApp) -> kw.Object:
    children = children_of_simple_app(app) if isinstance(app, SimpleApp) else build_with_dapr(app)
    [deployment] = [child for child in children if child["kind"] == "Deployment"]
    return deployment


def pod_spec(app: WebApp) -> kw.Object:
    spec: kw.Object = find_deployment(app)["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("app", "name"),
    [
        (build_simple_app("shop"), "shop"),
        (build_guestbook("book"), "book-deployment"),
        (build_my_app("mine"), "mine-deployment"),
    ],
)
def test_the_deployment_has_the_name_that_users_know(app: WebApp, name: str) -> None:
    assert find_deployment(app)["metadata"]["name"] == name


def test_replicas_and_image_are_those_of_the_spec() -> None:
    spec = find_deployment(build_simple_app(replicas=3, image="nginx:1.27"))["spec"]

    assert spec["replicas"] == 3
    assert [each["image"] for each in spec["template"]["spec"]["containers"]] == ["nginx:1.27"]


def test_what_is_left_out_is_one_pod_of_nginx() -> None:
    spec = find_deployment(build_simple_app())["spec"]

    assert spec["replicas"] == 1
    assert spec["template"]["spec"]["containers"][0]["image"] == "nginx:latest"


def test_a_pod_of_none_is_no_pod() -> None:
    assert find_deployment(build_simple_app(replicas=0))["spec"]["replicas"] == 0


@pytest.mark.parametrize("app", [build_simple_app(), build_guestbook(), build_my_app()])
def test_pods_fit_the_restricted_security_standard(app: WebApp) -> None:
    pod = pod_spec(app)
    [container] = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_image_made_for_root_can_open_its_port_and_write_its_pid_file() -> None:
    """Without these, nginx ends at once: as root it needs neither."""
    pod = pod_spec(build_simple_app(image="nginx:latest"))

    assert {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"} in (
        pod["securityContext"]["sysctls"]
    )
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {"/run": "scratch", "/var/cache/nginx": "scratch"}
    assert pod["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_no_writable_paths_are_no_volume() -> None:
    pod = pod_spec(build_simple_app(writablePaths=[]))

    assert pod["volumes"] is None
    assert pod["containers"][0]["volumeMounts"] is None


@pytest.mark.parametrize("build", [build_simple_app, build_guestbook, build_my_app])
def test_the_selector_never_depends_on_the_spec(build: type) -> None:
    """A Deployment's selector is immutable: no change of the spec may change it."""
    before = build("same", replicas=1, image="a:1")
    after = build("same", replicas=9, image="b:2", runAsUser=7)

    selector = find_deployment(after)["spec"]["selector"]["matchLabels"]
    assert find_deployment(before)["spec"]["selector"]["matchLabels"] == selector
    labels = find_deployment(after)["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_namesakes_of_two_kinds_do_not_select_each_others_pods() -> None:
    apps: list[WebApp] = [build_simple_app("same"), build_guestbook("same"), build_my_app("same")]

    assert len({tuple(build_selector(app).items()) for app in apps}) == 3


def test_people_find_the_pods_by_the_label_app() -> None:
    template = find_deployment(build_simple_app("shop"))["spec"]["template"]

    assert template["metadata"]["labels"]["app"] == "shop"


def test_building_twice_gives_the_same() -> None:
    app = build_my_app(dapr={"appId": "a"})

    assert list(build_with_dapr(app)) == list(build_with_dapr(app))
