"""The network of pods: names, Services, policies, as programs in pods meet them."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clusters import BIN, Cluster
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = pytest.mark.processes

IMAGE = "busybox:1.35"
WAIT = "--timeout=90s"
SERVE = "mkdir /tmp/w; hostname > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"


@pytest.fixture(autouse=True)
def needs_processes(cluster: Cluster, admin: Kubectl) -> None:
    if cluster.simulated:
        pytest.skip("simulated pods have no network")
    account = ("get", "serviceaccount", "default", "-o", "name")
    eventually(lambda: "/default" in admin(*account, code=None), "pods have an account")


def build_pod(name: str, command: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": IMAGE,
        "command": ["sh", "-c", command],
        "ports": [{"name": "http", "containerPort": 8080}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def build_service(name: str, **spec: Any) -> dict[str, Any]:
    spec.setdefault("selector", {"app": "web"})
    spec.setdefault("ports", [{"name": "http", "port": 80, "targetPort": "http"}])
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def site(admin: Kubectl) -> Kubectl:
    """Two servers behind a Service, and a client."""
    for name in ("one", "two"):
        admin.apply(build_pod(name, SERVE, {"app": "web"}, hostname=name, subdomain="pods"))
    admin.apply(build_pod("client", "sleep 10000", {"app": "client"}))
    admin.apply(build_service("web"))
    admin.apply(build_service("pods", clusterIP="None", ports=[{"name": "http", "port": 8080}]))
    admin("wait", "pods", "--all", "--for=condition=Ready", WAIT)
    eventually(lambda: get(admin, "http://web") != "", "the Service leads to its pods")
    return admin


def get(kubectl: Kubectl, url: str, pod: str = "client") -> str:
    """Return what a pod gets from a URL; "" where it gets nothing in time."""
    answer = kubectl("exec", pod, "--", "timeout", "5", "wget", "-q", "-O", "-", url, code=None)
    return answer.strip() if "wget" not in answer and "exit code" not in answer else ""


def look_up(kubectl: Kubectl, name: str, type: str = "a") -> str:
    return kubectl("exec", "client", "--", "nslookup", f"-type={type}", name, code=None)


def test_service_leads_to_all_its_pods_by_each_of_its_names(site: Kubectl, namespace: str) -> None:
    assert {get(site, "http://web") for _ in range(20)} == {"one", "two"}
    for name in (f"web.{namespace}", f"web.{namespace}.svc", f"web.{namespace}.svc.cluster.local"):
        assert get(site, f"http://{name}") in ("one", "two")
    # A pod reaches itself through its Service as it reaches others.
    assert {get(site, "http://web", pod="one") for _ in range(20)} == {"one", "two"}
    assert get(site, "http://web:81") == ""


def test_pods_and_ports_have_names(site: Kubectl, namespace: str) -> None:
    assert get(site, "http://one.pods:8080") == "one"
    zone = f"{namespace}.svc.cluster.local"
    assert look_up(site, f"pods.{zone}").count("Name:") == 2
    ports = look_up(site, f"_http._tcp.pods.{zone}", "srv")
    assert f"0 50 8080 one.pods.{zone}" in ports
    assert "NXDOMAIN" in look_up(site, f"three.pods.{zone}")


ASK_THE_API = """
import json, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(folder + "token").read()
url = "https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews"
body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
context = ssl.create_default_context(cafile=folder + "ca.crt")
answer = json.load(urllib.request.urlopen(request, context=context, timeout=10))
print(answer["status"]["userInfo"]["username"])
"""


def test_pod_reaches_the_api_with_its_own_account(admin: Kubectl, namespace: str) -> None:
    """By the Service's name, which the API server's certificate has, with the projected token."""
    pod = build_pod("client", "", {}, restartPolicy="Never")
    pod["spec"]["containers"][0] |= {
        "image": "python:3.11",
        "command": ["python3", "-c", ASK_THE_API],
    }
    admin.apply(pod)
    admin("wait", "pod/client", "--for=jsonpath={.status.phase}=Succeeded", WAIT, code=None)
    assert admin("logs", "client").strip() == f"system:serviceaccount:{namespace}:default"


def test_unready_pod_gets_no_new_connections(admin: Kubectl) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    pod = build_pod("one", f"touch /tmp/ready; {SERVE}", {"app": "web"})
    pod["spec"]["containers"][0]["readinessProbe"] = probe
    admin.apply(pod)
    admin.apply(build_pod("client", "sleep 10000", {"app": "client"}))
    admin.apply(build_service("web"))
    admin("wait", "pods", "--all", "--for=condition=Ready", WAIT)
    eventually(lambda: get(admin, "http://web") == "one", "the ready pod serves")
    admin("exec", "one", "--", "rm", "/tmp/ready")
    admin("wait", "pod/one", "--for=condition=Ready=False", WAIT)
    eventually(lambda: get(admin, "http://web") == "", "the unready pod serves no more")


def test_client_stays_with_a_pod(site: Kubectl) -> None:
    site.apply(build_service("sticky", sessionAffinity="ClientIP"))
    eventually(lambda: get(site, "http://sticky") != "", "the Service leads to its pods")
    assert len({get(site, "http://sticky") for _ in range(10)}) == 1


def test_policies_say_who_may_connect(site: Kubectl) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "web"}},
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": {"may": "ask"}}}],
                    "ports": [{"port": "http"}],
                }
            ],
        },
    }
    site.apply(policy)
    eventually(lambda: get(site, "http://web") == "", "the client is kept out")
    site("label", "pod", "client", "may=ask")
    eventually(lambda: get(site, "http://web") != "", "the client is let in")
    leaving = {
        "podSelector": {"matchLabels": {"app": "client"}},
        "policyTypes": ["Egress"],
        "egress": [
            {
                "to": [
                    {
                        "namespaceSelector": {
                            "matchLabels": {"kubernetes.io/metadata.name": "kube-system"}
                        },
                        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                    }
                ],
                "ports": [{"port": 53, "protocol": "UDP"}],
            }
        ],
    }
    site.apply({**policy, "metadata": {"name": "client"}, "spec": leaving})
    eventually(lambda: get(site, "http://web") == "", "the client is kept in")
    assert "Address" in look_up(site, "web").partition("\n\n")[2]
    site("delete", "networkpolicy", "--all")
    eventually(lambda: get(site, "http://web") != "", "nobody is kept out")


@contextmanager
def server_of_the_host(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve a file at an address of the host that is not its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("the host has no address but its loopback")
        address = str(probe.getsockname()[0])
    (folder / "index.html").write_text("from the host\n")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the output of the test to itself."""

    with http.server.ThreadingHTTPServer((address, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address, server.server_port
        server.shutdown()
        thread.join()


def test_service_without_selector_leads_out_of_the_cluster(site: Kubectl, tmp_path: Path) -> None:
    service = build_service("outside", ports=[{"port": 80}])
    del service["spec"]["selector"]
    site.apply(service)
    with server_of_the_host(tmp_path) as (address, port):
        site.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": "outside-1",
                    "labels": {"kubernetes.io/service-name": "outside"},
                },
                "addressType": "IPv4",
                "ports": [{"name": "", "port": port}],
                "endpoints": [{"addresses": [address]}],
            }
        )
        eventually(lambda: get(site, "http://outside") == "from the host", "the host answers")


def test_pods_of_different_nodes_reach_each_other(tmp_path: Path, cluster: Cluster) -> None:
    """Two nodes; each runs a server, and a client on the first reaches both in every way."""
    if cluster.is_real:
        pytest.skip("nodes of our own cluster")
    environment = {**cluster.environment, "XDG_STATE_HOME": str(tmp_path)}
    command = [str(BIN / "kubewright"), "local"]
    up = [*command, "up", "--name", "two-nodes", "--nodes", "2", "-o", "json"]
    started = subprocess.run(up, env=environment, capture_output=True, text=True, check=True)
    try:
        record = json.loads(started.stdout)
        other = Cluster(Path(record["kubeconfig"]), simulated=False, is_real=False, folder=tmp_path)
        binary = Path(sys.prefix) / "kubectl-37" / "kubectl"
        admin = Kubectl(binary, other, "default")
        for number in (1, 2):
            pod = build_pod(f"web-{number}", SERVE, {"app": "web"}, nodeName=f"node-{number}")
            admin.apply(pod)
        admin.apply(build_pod("client", "sleep 10000", {"app": "client"}, nodeName="node-1"))
        admin.apply(build_service("web", type="NodePort"))
        admin("wait", "pods", "--all", "--for=condition=Ready", WAIT)
        eventually(lambda: get(admin, "http://web") != "", "the Service leads to its pods")
        assert {get(admin, "http://web") for _ in range(20)} == {"web-1", "web-2"}
        address = admin("get", "pod", "web-2", "-o", "jsonpath={.status.podIP}")
        assert get(admin, f"http://{address}:8080") == "web-2"
        port = int(admin("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"))
        networks = admin("get", "nodes", "-o", "jsonpath={.items[*].spec.podCIDR}").split()
        for network in networks:
            gateway = network.replace(".0/24", ".1")
            assert {get(admin, f"http://{gateway}:{port}") for _ in range(20)} == {"web-1", "web-2"}
    finally:
        down = [*command, "down", "--name", "two-nodes"]
        subprocess.run(down, env=environment, capture_output=True, check=True)
