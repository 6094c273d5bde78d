from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.local.apiserver.crd.definitions import established, version

from kubewright.local.apiserver.conversion import ConversionFailed, ConversionUnanswered
from kubewright.local.apiserver.crd.conversion_webhook import ConversionWebhook
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.webhook_call import WebhookFailed

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
Objects = list[dict[str, Any]]
WHO = "conversion webhook for example.com/v1, Kind=Widget"


class Scripted:
    """A conversion webhook that changes objects, and the answer about them, as a test says."""

    def __init__(self) -> None:
        self.reviews: list[dict[str, Any]] = []
        self.change: Callable[[dict[str, Any]], object] = lambda obj: None
        self.response: dict[str, Any] = {}

    async def ask(
        self, config: Mapping[str, Any], review: dict[str, Any], timeout: int
    ) -> dict[str, Any]:
        assert timeout == 30
        self.reviews.append(review)
        request = review["request"]
        objects = [
            {**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]
        ]
        for obj in objects:
            obj["metadata"] = {**obj["metadata"]}
            self.change(obj)
        success = {"uid": request["uid"], "result": {"status": "Success"}}
        return {**review, "response": {**success, "convertedObjects": objects, **self.response}}


def converter(hook: Scripted, **webhook: Any) -> ConversionWebhook:
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://hook.example"},
            "conversionReviewVersions": ["v1"],
            **webhook,
        },
    }
    crd = established(version(OPEN), version(OPEN, name="v2", storage=False), conversion=conversion)
    schemas = {name: StructuralSchema(OPEN) for name in ("v1", "v2")}
    return ConversionWebhook(crd, schemas, hook.ask, lambda: "u")


def widget(name: str = "a", **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", **metadata}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


async def convert(hook: Scripted, *objects: dict[str, Any], **webhook: Any) -> Objects:
    return await converter(hook, **webhook).convert(objects, "example.com/v2")


async def test_objects_go_together_and_without_a_resource_version() -> None:
    hook = Scripted()
    converted = await convert(hook, widget("a", resourceVersion="7"), widget("b"))
    (review,) = hook.reviews
    assert (review["apiVersion"], review["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert review["request"]["desiredAPIVersion"] == "example.com/v2"
    assert [obj["metadata"]["name"] for obj in review["request"]["objects"]] == ["a", "b"]
    assert "resourceVersion" not in review["request"]["objects"][0]["metadata"]
    assert converted[0]["metadata"]["resourceVersion"] == "7"
    assert [obj["apiVersion"] for obj in converted] == ["example.com/v2"] * 2


async def test_only_labels_and_annotations_may_change() -> None:
    hook = Scripted()
    hook.change = lambda obj: obj["metadata"].update(
        labels={"l": "new"}, finalizers=["x/y"], generation=9
    )
    (converted,) = await convert(hook, widget(labels={"l": "old"}, annotations={"a": "b"}))
    assert converted["metadata"]["labels"] == {"l": "new"}
    assert converted["metadata"]["annotations"] == {"a": "b"}
    assert not {"finalizers", "generation"} & converted["metadata"].keys()


async def test_labels_that_do_not_come_back_are_gone() -> None:
    hook = Scripted()
    hook.change = lambda obj: obj["metadata"].pop("labels")
    (converted,) = await convert(hook, widget(labels={"l": "old"}))
    assert "labels" not in converted["metadata"]


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"name": "b"}, "invalid object: must have the same name: a != b"),
        ({"uid": None}, "invalid object: must have the same UID: uid-a != "),
        ({"labels": []}, "invalid metadata.labels of type []interface {} in converted object"),
        ({"labels": {"l": 1}}, "metadata.labels[l] must be a string, but is int64 in converted"),
        ({"labels": {"!": "v"}}, 'invalid metadata: metadata.labels: Invalid value: "!"'),
        ({"annotations": {"!": "v"}}, 'metadata.annotation: Invalid value: "!"'),
    ],
)
async def test_metadata_that_may_not_change_is_told(metadata: Any, problem: str) -> None:
    hook = Scripted()
    hook.change = lambda obj: obj["metadata"].update(metadata)
    with pytest.raises(ConversionFailed) as failed:
        await convert(hook, widget())
    assert failed.value.message.startswith(f"{WHO} returned ")
    assert problem in failed.value.message
    assert (failed.value.code, failed.value.reason) == (500, "")


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ({"result": {"status": "Failure", "message": "no"}}, "failed: no"),
        ({"result": {}}, "failed: response.result.status was '', not 'Success'"),
        ({"uid": "other"}, 'failed: expected response.uid="u", got "other"'),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        (
            {"convertedObjects": [{**widget(), "apiVersion": "example.com/v3"}]},
            (
                "returned invalid object at index 0: invalid groupVersion "
                "(expected example.com/v2, received example.com/v3)"
            ),
        ),
        (
            {"convertedObjects": [{**widget(), "apiVersion": "example.com/v2", "kind": "Odd"}]},
            "returned invalid object at index 0: invalid kind (expected Widget, received Odd)",
        ),
    ],
)
async def test_an_answer_that_is_none_is_told(response: dict[str, Any], problem: str) -> None:
    hook = Scripted()
    hook.response = response
    with pytest.raises(ConversionFailed) as failed:
        await convert(hook, widget())
    assert failed.value.message == f"{WHO} {problem}"


async def test_a_webhook_that_cannot_be_asked_is_told_apart() -> None:
    async def ask(config: Mapping[str, Any], review: dict[str, Any], timeout: int) -> Any:
        raise WebhookFailed("nobody there")

    hook = Scripted()
    hook.ask = ask  # type: ignore[method-assign]  # the failure of this one test
    with pytest.raises(ConversionUnanswered, match=f"^{WHO} failed: nobody there$"):
        await convert(hook, widget())


async def test_the_older_review_is_sent_where_it_is_preferred_and_its_uid_is_not_checked() -> None:
    hook = Scripted()
    hook.response = {"uid": ""}
    await convert(hook, widget(), conversionReviewVersions=["v9", "v1beta1", "v1"])
    assert hook.reviews[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


async def test_a_version_that_the_definition_does_not_have_is_refused() -> None:
    with pytest.raises(ConversionFailed, match=r"from an invalid group/version: example\.com/v0"):
        await convert(Scripted(), {**widget(), "apiVersion": "example.com/v0"})
