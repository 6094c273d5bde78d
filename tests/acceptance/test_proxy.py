"""What the API server passes on into the cluster: proxied requests, and reviews for webhooks."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.acceptance.clusters import Cluster
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = pytest.mark.processes

SERVE = "cd /tmp; echo hello from $HOSTNAME > index.html; httpd -f -p 8080 -h /tmp"
REVIEW = """
import http.server, json, ssl
class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "no"}}
        body = json.dumps({**review, "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server = http.server.ThreadingHTTPServer(("", 8443), Webhook)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def can_reach_pods(request: pytest.FixtureRequest, cluster: Cluster) -> None:
    """A real kube-apiserver dials pods directly, and those of our node have a network apart."""
    if cluster.simulated:
        pytest.skip("needs processes in pods")
    if request.config.getoption("--cluster") in ("real", "mixed"):
        pytest.skip("this API server is not in the network of the pods")


def build_pod(name: str, port: int, **container: Any) -> dict[str, Any]:
    """Build a pod that listens on a port."""
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    ports = [{"containerPort": port}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "ports": ports, "readinessProbe": probe, **container}],
            "volumes": [{"name": "tls", "secret": {"secretName": "tls", "optional": True}}],
        },
    }


def build_service(name: str, port: int, target: int) -> dict[str, Any]:
    """Build a Service in front of it."""
    ports = [{"name": "main", "port": port, "targetPort": target}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports},
    }


def start(kubectl: Kubectl, pod: dict[str, Any], service: dict[str, Any]) -> None:
    """Run a pod and its Service until the Service has an endpoint."""
    eventually(
        lambda: "default" in kubectl("get", "serviceaccount", "-o", "name"),
        "a service account for pods in the new namespace",
    )
    name = pod["metadata"]["name"]
    kubectl.apply(pod)
    kubectl.apply(service)
    kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=90s")
    address = "-o=jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"
    slices = ("get", "endpointslices", "-l", f"kubernetes.io/service-name={name}")
    eventually(lambda: bool(kubectl(*slices, address)), "an endpoint of the Service")


def test_requests_go_on_to_pods_services_and_nodes(kubectl: Kubectl) -> None:
    pod = build_pod("web", 8080, image="busybox:1.35", command=["sh", "-c", SERVE])
    start(kubectl, pod, build_service("web", 80, 8080))
    base = f"/api/v1/namespaces/{kubectl.namespace}"
    first = ("get", "--raw", f"{base}/services/web:80/proxy/")
    eventually(lambda: "hello" in kubectl(*first, code=None), "an API server that knows of it")

    for path in (
        "services/web:80/proxy/index.html",
        "services/http:web:main/proxy/",
        "pods/web/proxy/",
        "pods/web:8080/proxy/index.html",
    ):
        assert kubectl("get", "--raw", f"{base}/{path}") == "hello from web\n", path
    node = kubectl("get", "pod", "web", "-o=jsonpath={.spec.nodeName}")
    assert kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/healthz") == "ok"
    missing = kubectl("get", "--raw", f"{base}/services/web:9/proxy/", code=1)
    assert 'no service port 9 found for service "web"' in missing
    # The only port has a name: without it none is meant.
    missing = kubectl("get", "--raw", f"{base}/services/web/proxy/", code=1)
    assert 'no endpoints available for service "web"' in missing
    refused = kubectl("get", "--raw", f"{base}/pods/web:9/proxy/", code=1)
    assert "connection refused" in refused


def build_certificate(host: str) -> tuple[str, str]:
    """Build a certificate for a host, signed by itself, and its key: PEM in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (
        base64.b64encode(certificate.public_bytes(pem)).decode(),
        base64.b64encode(private).decode(),
    )


def test_a_webhook_that_runs_in_a_pod_is_asked(kubectl: Kubectl) -> None:
    certificate, key = build_certificate(f"hook.{kubectl.namespace}.svc")
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "tls"},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": certificate, "tls.key": key},
        }
    )
    mounts = [{"name": "tls", "mountPath": "/tls"}]
    command = ["python3", "-c", REVIEW]
    pod = build_pod("hook", 8443, image="python:3.11", command=command, volumeMounts=mounts)
    start(kubectl, pod, build_service("hook", 443, 8443))
    name = f"hook-{kubectl.namespace}"
    service = {"name": "hook", "namespace": kubectl.namespace, "path": "/review"}
    only_here = {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    hook = {
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": service, "caBundle": certificate},
        "namespaceSelector": only_here,
        "rules": [{**rule, "resources": ["configmaps"]}],
    }
    kubectl.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
    )
    try:
        refused = kubectl("create", "configmap", "c", code=1)
    finally:
        kubectl("delete", "validatingwebhookconfiguration", name)

    assert 'admission webhook "hook.example.com" denied the request: no' in refused
