"""The program of "Errors and retries" fails as its page says."""

from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import Remedy
from kubewright.api.resource import NamespacedName, Object
from kubewright.runtime.failure import is_fault, is_passing, remedy_of
from kubewright.testing import Cluster, eventually
from tests.docs.pages import run_page


def build_link(namespace: str, name: str, target: str) -> Object:
    return {
        "apiVersion": "links.example.com/v1",
        "kind": "Link",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"target": target},
    }


def test_what_is_not_there_yet_is_no_fault_of_the_program() -> None:
    error = run_page("errors-and-retries.md").NotThereYet("no Service")
    assert remedy_of(error) is Remedy.RETRY
    assert is_passing(error)
    assert not is_fault(error)


async def test_what_is_raised_decides_what_happens(cluster: Cluster) -> None:
    program = run_page("errors-and-retries.md")
    client, namespace = cluster.client, cluster.namespace
    await cluster.install(program.operator)

    async def state_of(name: str) -> dict[str, str]:
        link = await client.get(program.Link.resource, name, namespace=namespace)
        conditions = (link.get("status") or {}).get("conditions") or []
        found = {type: find_condition(conditions, type) for type in ("Ready", "Stalled")}
        return {
            **{type: each["status"] if each else "" for type, each in found.items()},
            "message": str((found["Ready"] or {}).get("message")),
        }

    async with cluster.run(program.operator):
        await client.create(build_link(namespace, "wrong", "nowhere"))
        wrong = await eventually(
            lambda: state_of("wrong"), lambda state: state["Stalled"] == "True"
        )
        assert wrong["message"] == "spec.target: write it as NAMESPACE/NAME"

        target = NamespacedName(namespace, "web")
        await client.create(build_link(namespace, "early", str(target)))
        early = await eventually(lambda: state_of("early"), lambda state: state["Ready"] == "False")
        assert early["message"] == f"there is no Service {target} yet"
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": namespace},
                "spec": {"ports": [{"port": 80}]},
            }
        )
        await eventually(lambda: state_of("early"), lambda state: state["Ready"] == "True")
        assert (await state_of("wrong"))["Stalled"] == "True"
    assert (await client.get(builtin.SERVICE, "web", namespace=namespace))["spec"]["ports"]
