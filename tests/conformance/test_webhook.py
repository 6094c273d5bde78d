from __future__ import annotations

from conformance.case import WebhookScript
from conformance.webhook import ScriptedWebhook, move_field
from kubewright.api.resource import Object


def answer(script: WebhookScript, review: Object) -> Object | None:
    return ScriptedWebhook(script, "", "").answer(review)


def test_a_value_moves_between_two_paths() -> None:
    obj: Object = {"spec": {"old": 1}}
    move_field(obj, "spec.old", "spec.deep.new")
    move_field(obj, "status.absent", "spec.other")
    assert obj == {"spec": {"deep": {"new": 1}}}


def test_a_scripted_patch_is_sent_as_kubernetes_wants_it() -> None:
    review: Object = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u"},
    }
    answered = answer(WebhookScript(patch=[]), review)
    assert answered is not None
    assert answered["response"] == {
        "uid": "u",
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": "W10=",
    }
    assert answer(WebhookScript(fail=True), review) is None


def test_a_conversion_renames_in_both_directions() -> None:
    script = WebhookScript(rename=[("spec.old", "spec.new")], to="/v2")
    old: Object = {"apiVersion": "e.com/v1", "spec": {"old": 1}}
    new: Object = {"apiVersion": "e.com/v2", "spec": {"new": 1}}
    for source, target in ((old, new), (new, old)):
        review: Object = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {
                "uid": "u",
                "objects": [source],
                "desiredAPIVersion": target["apiVersion"],
            },
        }
        answered = answer(script, review)
        assert answered is not None
        assert answered["response"]["convertedObjects"] == [target]
