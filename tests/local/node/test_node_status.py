from __future__ import annotations

from msgspec.structs import replace
from tests.local.node.objects import NOW_TEXT

from kubewright.local.node.machine import read_os_name
from kubewright.local.node.node_status import NodeFacts, build_lease, build_node

FACTS = NodeFacts(
    name="n",
    address="127.0.0.1",
    port=10250,
    cpus=2,
    memory_bytes=2 << 30,
    runtime="kubewright://0",
    pod_cidr="10.244.0.0/24",
    machine="x86_64",
    kernel="6.1",
    os_image="Debian",
    machine_id="m",
    boot_id="b",
)


def test_says_what_the_machine_has_and_where_logs_are_asked_for() -> None:
    status = build_node(FACTS, now=NOW_TEXT)["status"]
    assert status["capacity"]["cpu"] == "2"
    assert status["capacity"]["memory"] == "2097152Ki"
    assert status["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}


def test_ready_keeps_its_time_of_transition() -> None:
    old = "2020-01-01T00:00:00Z"
    before = [
        {"type": "Ready", "status": "True", "lastTransitionTime": old},
        {"type": "DiskPressure", "status": "Unknown", "lastTransitionTime": old},
    ]
    conditions = build_node(FACTS, now=NOW_TEXT, before=before)["status"]["conditions"]
    times = {entry["type"]: entry["lastTransitionTime"] for entry in conditions}
    assert (times["Ready"], times["DiskPressure"]) == (old, NOW_TEXT)


def test_says_in_what_it_is_less_than_other_nodes() -> None:
    annotations = build_node(replace(FACTS, is_one_uid=True, has_limits=False), now=NOW_TEXT)[
        "metadata"
    ]
    assert set(annotations["annotations"]) == {"kubewright.dev/limits", "kubewright.dev/one-uid"}


def test_lease_is_owned_by_the_node() -> None:
    node = {"metadata": {"name": "n", "uid": "u"}}
    lease = build_lease(node, now=NOW_TEXT)
    assert lease["metadata"]["namespace"] == "kube-node-lease"
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_reads_the_name_of_the_distribution() -> None:
    assert read_os_name('ID=x\nPRETTY_NAME="X 1"\n') == "X 1"
    assert read_os_name("") == "Linux"


def test_a_simulated_node_says_only_that() -> None:
    node = build_node(
        replace(FACTS, runtime="simulated://1", is_one_uid=True, has_limits=False), now=NOW_TEXT
    )

    assert list(node["metadata"]["annotations"]) == ["kubewright.dev/simulated"]
