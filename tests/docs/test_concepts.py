"""The program of "Concepts" behaves as its page says, and what the page links to is there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.conditions import is_condition_true
from kubewright.api.resource import Object
from kubewright.client.requests import PatchType
from kubewright.testing import Cluster, consistently, eventually
from tests.docs.pages import DOCS, run_page

PAGES = sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"])


async def read_text(cluster: Cluster) -> Object:
    return await cluster.client.get(builtin.CONFIG_MAP, "shopping", namespace=cluster.namespace)


async def read_note(cluster: Cluster, program: Any) -> Object:
    return await cluster.client.get(program.Note.resource, "shopping", namespace=cluster.namespace)


async def create_note(cluster: Cluster) -> None:
    metadata = {"name": "shopping", "namespace": cluster.namespace}
    spec = {"text": "milk"}
    await cluster.client.create(
        {
            "apiVersion": "notes.example.com/v1",
            "kind": "Note",
            "metadata": metadata,
            "spec": spec,
        }
    )


async def test_a_child_tells_whose_it_is_and_the_status_how_far_it_is(cluster: Cluster) -> None:
    program = run_page("concepts.md")

    async with cluster.run(program.operator):
        await create_note(cluster)
        note = await eventually(
            lambda: read_note(cluster, program), lambda note: is_condition_true(note, "Ready")
        )
        metadata = (await read_text(cluster))["metadata"]

    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "note-operator"}
    assert metadata["ownerReferences"][0]["uid"] == note["metadata"]["uid"]
    assert metadata["managedFields"][0]["manager"] == "note-operator"
    assert "finalizers" not in note["metadata"]
    assert note["status"]["observedGeneration"] == note["metadata"]["generation"]
    conditions = {each["type"]: each["status"] for each in note["status"]["conditions"]}
    assert conditions == {"Ready": "True", "Reconciling": "False", "Stalled": "False"}


async def test_what_is_yielded_is_put_right_and_the_rest_belongs_to_others(
    cluster: Cluster,
) -> None:
    program = run_page("concepts.md")
    theirs = {"data": {"text": "beer", "others": "theirs"}}

    async with cluster.run(program.operator):
        await create_note(cluster)
        await eventually(lambda: read_text(cluster))
        await cluster.client.patch(
            builtin.CONFIG_MAP,
            "shopping",
            theirs,
            type=PatchType.MERGE,
            namespace=cluster.namespace,
        )
        await eventually(lambda: read_text(cluster), lambda text: text["data"]["text"] == "milk")

    assert (await read_text(cluster))["data"] == {"text": "milk", "others": "theirs"}


async def test_a_settled_state_is_not_computed_again_until_it_differs(cluster: Cluster) -> None:
    program = run_page("concepts.md")
    await cluster.install(program.operator)
    calls: list[str] = []
    [managed] = program.operator.kinds
    carry = managed.desired

    def counting(note: Any) -> Any:
        calls.append(note.spec.text)
        return carry(note)

    managed.desired = counting
    [controller] = program.operator.controllers()

    async with cluster.run(controller):
        await create_note(cluster)
        note = await eventually(
            lambda: read_note(cluster, program), lambda note: is_condition_true(note, "Ready")
        )
        key = program.kw.NamespacedName.of(note)
        computed = len(calls)

        async def ask() -> int:
            controller.enqueue(key)
            return len(calls)

        await consistently(ask, lambda now: now == computed, during=0.3)
        await cluster.client.patch(
            program.Note.resource,
            "shopping",
            {"metadata": {"labels": {"colour": "blue"}}},
            type=PatchType.MERGE,
            namespace=cluster.namespace,
        )
        await eventually(ask, lambda now: now > computed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Any) -> None:
    """Links to pages and folders, and to headings of pages."""
    missing = []
    for target in re.findall(r"\]\(([^)#]*(?:#[^)]*)?)\)", page.read_text()):
        path, _, heading = target.partition("#")
        if "://" in target:
            continue
        there = page.parent / path if path else page
        if not there.exists() or (heading and heading not in anchors_of(there.read_text())):
            missing.append(target)

    assert missing == []


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
