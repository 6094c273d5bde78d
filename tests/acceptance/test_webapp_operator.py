"""The web application operator, end to end: its users' flows, and flaws that it must not have."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.conditions import find_condition, is_condition_true
from tests.acceptance.clusters import Cluster
from tests.acceptance.conftest import ROOT, running_operator, start_operator
from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.user_objects import find_user_object

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

WEBAPP = ROOT / "operators/webapp"
DAPR = WEBAPP / "tests/dapr_components.yaml"
DAPR_CRD = "crd/components.dapr.io"


@pytest.fixture(scope="module")
def webapp_crds(cluster: Cluster) -> None:
    """The kinds of the operator, installed."""
    kubectl = Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")
    kubectl("apply", "-f", str(WEBAPP / "config/crd.yaml"))
    for crd in ("simpleapps.example.com", "guestbooks.app.example.com", "myapps.myapp.example.com"):
        kubectl("wait", "--for=condition=Established", f"crd/{crd}")


@pytest.fixture
def webapp(cluster: Cluster, webapp_crds: None, nginx: None, tmp_path: Path) -> Iterator[None]:
    """The operator, run as its user would."""
    with running_operator(cluster, "webapp_operator", tmp_path / "operator.log"):
        yield


@pytest.fixture
def dapr(admin: Kubectl) -> Iterator[Callable[[], None]]:
    """Install Dapr's definition when the test says so; it is gone at the start and at the end."""
    remove = ("delete", DAPR_CRD, "--ignore-not-found")
    admin(*remove)

    def install() -> None:
        admin("apply", "-f", str(DAPR))
        admin("wait", "--for=condition=Established", DAPR_CRD)

    yield install
    admin(*remove)


@pytest.fixture
def in_default(cluster: Cluster) -> Iterator[Kubectl]:
    """Kubectl in the namespace `default`, which an object of the users names."""
    kubectl = Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")
    yield kubectl
    kubectl("delete", "simpleapp", "--all")


def build_app(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    groups = {
        "SimpleApp": "example.com/v1",
        "Guestbook": "app.example.com/v1alpha1",
        "MyApp": "myapp.example.com/v1",
    }
    return {
        "apiVersion": groups[kind],
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def wait_ready(kubectl: Kubectl, app: str, seconds: int = 110) -> Any:
    kubectl("wait", "--for=condition=Ready", app, f"--timeout={seconds}s")
    return kubectl.get(app)


def pods(kubectl: Kubectl, name: str) -> list[Any]:
    """Return the pods of an application by name, without those that are on their way out."""
    items = kubectl.get("pods", "-l", f"app={name}")["items"]
    alive = [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]
    return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))


def uids(kubectl: Kubectl, name: str) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods(kubectl, name)]


def fetch_page(kubectl: Kubectl, pod: Any) -> str:
    """Ask the application of a pod for its first page."""
    name = f"{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    return kubectl("get", "--raw", f"/api/v1/namespaces/{name}:80/proxy/")


def test_simple_app_runs_as_many_pods_of_its_image_as_it_says(
    in_default: Kubectl, webapp: None
) -> None:
    in_default("apply", "-f", str(find_user_object("simpleapp/simpleapp.yaml")))

    app = wait_ready(in_default, "simpleapp/my-app")

    deployment = in_default.get("deployment", "my-app")
    assert deployment["spec"]["replicas"] == 2
    images = [pod["spec"]["containers"][0]["image"] for pod in pods(in_default, "my-app")]
    assert images == ["nginx:latest", "nginx:latest"]
    assert (app["status"]["replicas"], app["status"]["readyReplicas"]) == (2, 2)
    assert app["status"]["observedGeneration"] == app["metadata"]["generation"]
    header, row = in_default("get", "simpleapp", "my-app").splitlines()
    assert header.split() == ["NAME", "REPLICAS", "RUNNING", "IMAGE", "READY", "AGE"]
    assert row.split()[:5] == ["my-app", "2", "2", "nginx:latest", "True"]


def test_simple_app_answers_on_port_80_though_it_is_not_root(
    admin: Kubectl, webapp: None, cluster: Cluster
) -> None:
    if cluster.simulated:
        pytest.skip("pods are simulated on this machine: no process answers")
    admin.apply(build_app("SimpleApp", "web", image="nginx:latest"))
    wait_ready(admin, "simpleapp/web")

    [pod] = pods(admin, "web")
    if not cluster.is_real:  # the API server is in the network of the pods
        assert "nginx" in fetch_page(admin, pod)
    assert admin("exec", pod["metadata"]["name"], "--", "id", "-u").strip() == "65532"


def test_simple_app_of_any_image_runs_as_the_user_of_its_spec(
    admin: Kubectl, webapp_crds: None, cluster: Cluster, tmp_path: Path
) -> None:
    """On a real node the kubelet judges the user, and containerd gives the rights."""
    admin("label", "namespace", admin.namespace, "pod-security.kubernetes.io/enforce=restricted")
    with running_operator(cluster, "webapp_operator", tmp_path / "operator.log"):
        app = build_app("SimpleApp", "cache", replicas=2, image="memcached:1.6.18", runAsUser=1234)
        admin.apply(app)

        wait_ready(admin, "simpleapp/cache")

    first, second = pods(admin, "cache")
    for pod in (first, second):
        [container] = pod["status"]["containerStatuses"]
        assert container["ready"]
        assert container["restartCount"] == 0
    if not cluster.simulated:
        assert admin("exec", first["metadata"]["name"], "--", "id", "-u").strip() == "1234"
        admin("exec", first["metadata"]["name"], "--", "touch", "/run/pid", "/var/cache/nginx/x")


def test_simple_app_is_updated(admin: Kubectl, webapp: None) -> None:
    admin.apply(build_app("SimpleApp", "shop", replicas=2, image="nginx:1.26"))
    wait_ready(admin, "simpleapp/shop")
    before = admin.get("deployment", "shop")

    admin.apply(build_app("SimpleApp", "shop", replicas=3, image="nginx:1.27"))
    admin("wait", "simpleapp/shop", "--for=jsonpath={.status.observedGeneration}=2")
    wait_ready(admin, "simpleapp/shop")

    images = [pod["spec"]["containers"][0]["image"] for pod in pods(admin, "shop")]
    assert images == ["nginx:1.27"] * 3
    after = admin.get("deployment", "shop")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["selector"] == before["spec"]["selector"]


def test_simple_app_is_scaled_through_the_subresource(admin: Kubectl, webapp: None) -> None:
    admin.apply(build_app("SimpleApp", "scaled", replicas=1))
    wait_ready(admin, "simpleapp/scaled")

    admin("scale", "simpleapp/scaled", "--replicas=3")

    admin("wait", "simpleapp/scaled", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=90s")
    assert admin.get("simpleapp/scaled")["spec"]["replicas"] == 3
    assert admin.get("deployment/scaled")["spec"]["replicas"] == 3


def test_simple_app_is_deleted_with_all_that_it_made(admin: Kubectl, webapp: None) -> None:
    admin.apply(build_app("SimpleApp", "gone", replicas=2))
    wait_ready(admin, "simpleapp/gone")

    admin("delete", "simpleapp", "gone")

    left = ("get", "deploy,rs,pods", "-l", "app=gone", "-o", "name")
    eventually(lambda: not admin(*left), "the Deployment and its pods are collected")


def test_guestbook_has_its_deployment_and_its_state_and_is_cleaned_up(
    admin: Kubectl, webapp: None, dapr: Callable[[], None]
) -> None:
    dapr()
    admin("apply", "-f", str(find_user_object("guestbook/guestbook-sample.yaml")))

    book = wait_ready(admin, "guestbook/guestbook-sample")

    deployment = admin.get("deployment", "guestbook-sample-deployment")
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["dapr.io/enabled"] == "true"
    assert annotations["dapr.io/app-id"] == "guestbook"
    assert deployment["spec"]["replicas"] == 2
    component = admin.get("component.dapr.io", "guestbook-sample-state")
    assert component["spec"]["type"] == "state.in-memory"
    for child in (deployment, component):
        assert child["metadata"]["ownerReferences"][0]["uid"] == book["metadata"]["uid"]

    admin("delete", "guestbook", "guestbook-sample")
    left = ("get", "deploy,components.dapr.io", "-o", "name")
    eventually(lambda: not admin(*left), "both children are collected")


def test_guestbook_says_that_dapr_is_missing_runs_meanwhile_and_recovers(
    admin: Kubectl, webapp: None, dapr: Callable[[], None]
) -> None:
    admin("apply", "-f", str(find_user_object("guestbook/guestbook-sample.yaml")))
    admin("wait", "guestbook/guestbook-sample", "--for=jsonpath={.status.readyReplicas}=2")
    book = admin.get("guestbook/guestbook-sample")
    ready = find_condition(book["status"]["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "KindNotInstalled")
    assert "install its definition, components.dapr.io" in ready["message"]
    before = uids(admin, "guestbook-sample")

    dapr()

    wait_ready(admin, "guestbook/guestbook-sample")
    assert admin("get", "components.dapr.io", "-o", "name").split() == [
        "component.dapr.io/guestbook-sample-state"
    ]
    assert uids(admin, "guestbook-sample") == before


def test_my_app_has_its_deployment_and_its_state_and_is_cleaned_up(
    admin: Kubectl, webapp: None, dapr: Callable[[], None]
) -> None:
    dapr()
    admin("apply", "-f", str(find_user_object("guestbook/myapp.yaml")))

    wait_ready(admin, "myapp/my-app")

    template = admin.get("deployment", "my-app-deployment")["spec"]["template"]
    assert template["metadata"]["annotations"]["dapr.io/app-id"] == "my-app"
    assert len(pods(admin, "my-app")) == 2
    component = admin.get("component.dapr.io", "my-app-state")
    assert component["spec"]["type"] == "state.redis"
    header, row = admin("get", "myapp").splitlines()
    assert header.split()[3:5] == ["APP-ID", "STATE-STORE"]
    assert row.split()[3:6] == ["my-app", "my-app-state", "True"]

    admin("delete", "myapp", "my-app")
    left = ("get", "deploy,components.dapr.io", "-o", "name")
    eventually(lambda: not admin(*left), "both children are collected")


def test_a_component_of_the_users_own_is_left_alone(
    admin: Kubectl, webapp: None, dapr: Callable[[], None]
) -> None:
    dapr()
    admin("apply", "-f", str(find_user_object("guestbook/statestore.yaml")))
    before = admin.get("component.dapr.io", "statestore")
    admin.apply(build_app("MyApp", "mine", dapr={"stateStore": "redis"}))
    wait_ready(admin, "myapp/mine")
    admin("delete", "myapp", "mine")

    assert admin.get("component.dapr.io", "statestore") == before


def test_pods_run_where_the_restricted_level_is_enforced(
    admin: Kubectl, webapp: None, dapr: Callable[[], None]
) -> None:
    dapr()
    label = "pod-security.kubernetes.io"
    levels = [f"{label}/{mode}=restricted" for mode in ("enforce", "warn")]
    admin("label", "namespace", admin.namespace, *levels)
    for kind in ("SimpleApp", "Guestbook", "MyApp"):
        admin.apply(build_app(kind, f"safe-{kind.lower()}"))

    for kind in ("simpleapp", "guestbook", "myapp"):
        wait_ready(admin, f"{kind}/safe-{kind}")
    bare = admin("run", "bare", "--image=nginx", code=1)
    assert 'violates PodSecurity "restricted:latest"' in bare, "nothing was enforced"


@pytest.mark.usefixtures("nginx")
def test_an_upgraded_operator_restarts_no_pod(
    admin: Kubectl, webapp_crds: None, cluster: Cluster, dapr: Callable[[], None], tmp_path: Path
) -> None:
    """Another process that wants the same writes nothing."""
    dapr()
    with running_operator(cluster, "webapp_operator", tmp_path / "before.log"):
        admin.apply(build_app("SimpleApp", "same", replicas=2))
        admin.apply(build_app("Guestbook", "same", replicas=1))
        wait_ready(admin, "simpleapp/same")
        wait_ready(admin, "guestbook/same")
        before = uids(admin, "same"), read_versions(admin)

    with running_operator(cluster, "webapp_operator", tmp_path / "after.log"):
        time.sleep(4)  # the time in which a write would show

        assert (uids(admin, "same"), read_versions(admin)) == before


def read_versions(kubectl: Kubectl) -> str:
    kinds = "simpleapp,guestbook,deploy,rs,components.dapr.io"
    return kubectl("get", kinds, "-o", "jsonpath={.items[*].metadata.resourceVersion}")


def test_a_deleted_pod_and_a_deleted_child_come_back(
    admin: Kubectl, webapp: None, dapr: Callable[[], None]
) -> None:
    dapr()
    admin.apply(build_app("MyApp", "kept", replicas=1))
    wait_ready(admin, "myapp/kept")
    [before] = uids(admin, "kept")

    admin("delete", "pod", "-l", "app=kept", "--grace-period=1")
    admin("delete", "component.dapr.io", "kept-state")

    eventually(
        lambda: "kept-state" in admin("get", "components.dapr.io", "-o", "name"), "the Component"
    )
    eventually(lambda: before not in uids(admin, "kept"), "another pod")
    wait_ready(admin, "myapp/kept")


@pytest.mark.usefixtures("nginx")
def test_killed_at_any_moment_it_ends_in_the_same_state(
    admin: Kubectl, webapp_crds: None, cluster: Cluster, tmp_path: Path
) -> None:
    """Kill -9 while applications come and change: each has one Deployment of what it last said."""
    names = [f"app-{number}" for number in range(6)]
    with (tmp_path / "operator.log").open("wb") as log:
        process = start_operator(cluster, log.fileno(), "webapp_operator")
        for name in names:
            admin.apply(build_app("SimpleApp", name, replicas=2))
            admin("scale", f"simpleapp/{name}", "--replicas=1")
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = start_operator(cluster, log.fileno(), "webapp_operator")
        try:
            for name in names:
                admin(
                    "wait",
                    f"simpleapp/{name}",
                    "--for=jsonpath={.status.observedGeneration}=2",
                    "--timeout=60s",
                )
                wait_ready(admin, f"simpleapp/{name}")
                assert len(pods(admin, name)) == 1
        finally:
            process.terminate()
            process.wait(40)
    assert len(admin("get", "deployments", "-o", "name").split()) == len(names)


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        (build_app("SimpleApp", "wrong", replicas=-1), "spec.replicas: Invalid value: -1"),
        (build_app("SimpleApp", "wrong", image="My App"), "write an image as [REGISTRY/]NAME"),
        (build_app("SimpleApp", "a" * 64), "metadata.name: give it 63 characters at most"),
        (build_app("Guestbook", "my.book"), "spec.daprAppId: give one, for metadata.name"),
        (
            build_app("MyApp", "wrong", dapr={"stateStore": "state.redis"}),
            "write the name of a Dapr state store without 'state.'",
        ),
    ],
    ids=["replicas", "image", "name", "app-id", "state-store"],
)
def test_bad_input_is_refused_in_a_sentence(
    admin: Kubectl, webapp_crds: None, app: dict[str, Any], sentence: str
) -> None:
    refused = admin("apply", "-f", "-", stdin=str(app), code=1)

    assert sentence in refused


def test_flaw_an_application_that_does_not_run_never_says_ready(
    admin: Kubectl, webapp: None
) -> None:
    admin.apply(build_app("SimpleApp", "broken", image="registry.invalid/no/such:image"))
    admin("wait", "simpleapp/broken", "--for=jsonpath={.status.replicas}=1", "--timeout=60s")

    admin("wait", "simpleapp/broken", "--for=condition=PodsHealthy=false", "--timeout=60s")
    app = admin.get("simpleapp/broken")

    assert not is_condition_true(app, "Ready")
    assert is_condition_true(app, "Reconciling")
    told = find_condition(app["status"]["conditions"], "PodsHealthy") or {}
    assert told["reason"] == "ImagePullBackOff"
    assert "its image registry.invalid/no/such:image cannot be pulled" in told["message"]

    admin("patch", "simpleapp", "broken", "--type=merge", "-p", '{"spec":{"image":"nginx:1.27"}}')
    admin("wait", "simpleapp/broken", "--for=condition=PodsHealthy", "--timeout=60s")
    wait_ready(admin, "simpleapp/broken")


def test_flaw_status_is_a_subresource_that_is_declared(admin: Kubectl, webapp_crds: None) -> None:
    """Else what a user applies would overwrite what the operator says."""
    app = build_app("SimpleApp", "claimed") | {"status": {"readyReplicas": 99}}
    admin.apply(app)

    status = admin.get("simpleapp/claimed").get("status") or {}

    assert status.get("readyReplicas") != 99


def test_flaw_immutable_fields_are_not_written_again(admin: Kubectl, webapp: None) -> None:
    """The Deployment of an application is written once for each change, whatever wakes it."""
    admin.apply(build_app("SimpleApp", "still", replicas=1))
    wait_ready(admin, "simpleapp/still")
    before = admin.get("deployment/still")["metadata"]["generation"]

    for number in range(5):
        admin("annotate", "--overwrite", "simpleapp/still", f"example.com/poke={number}")
    time.sleep(2)  # the time in which a write would show

    assert admin.get("deployment/still")["metadata"]["generation"] == before


def test_flaw_what_others_write_into_the_object_stays(admin: Kubectl, webapp: None) -> None:
    """Finalizers and annotations of users are theirs: no list of ours replaces them."""
    app = build_app("SimpleApp", "theirs")
    app["metadata"] |= {
        "annotations": {"example.com/note": "mine"},
        "finalizers": ["example.com/mine"],
    }
    admin.apply(app)
    wait_ready(admin, "simpleapp/theirs")

    found = admin.get("simpleapp/theirs")["metadata"]
    assert found["finalizers"] == ["example.com/mine"]
    assert found["annotations"]["example.com/note"] == "mine"
    admin("delete", "simpleapp/theirs", "--wait=false")
    assert "deletionTimestamp" in admin.get("simpleapp/theirs")["metadata"]
    free = '{"metadata":{"finalizers":null}}'
    admin("patch", "simpleapp/theirs", "--type=merge", "-p", free)
    eventually(lambda: not admin("get", "simpleapp", "-o", "name"), "it ends when it is let go")
