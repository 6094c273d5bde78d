"""pods/binding: a scheduler gives a pod its node."""

from __future__ import annotations

from kubewright.api.errors import BadRequest, Cause, Conflict, Invalid
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.exchange import Answer, encode_json
from kubewright.local.apiserver.options import parse_write_options
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.review import decode_review
from kubewright.local.apiserver.rest.update import Change, change_object

SUCCESS: Object = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


async def bind(call: Call) -> Answer:
    """Set the pod's node, once."""
    options = parse_write_options(call.request, "CreateOptions")
    binding = decode_review(call, options, "", "Binding")
    metadata = binding.get("metadata") or {}
    if metadata.get("name") and metadata["name"] != call.name:
        raise BadRequest("name in URL does not match name in Binding object", None)
    target = binding.get("target") or {}
    _check_target(call, target)

    async def transform(pod: Object | None) -> Object:
        assert pod is not None  # a binding creates nothing
        return _bound(call, pod, binding, target["name"])

    uid = metadata.get("uid") or ""
    change = Change(transform, options, subresource="binding", ruled=True, uid=uid)
    await change_object(call, change)
    return call.answer_plain(201, encode_json(SUCCESS))


def _check_target(call: Call, target: Object) -> None:
    causes: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        message = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        causes.append(Cause("FieldValueNotSupported", message, "target.kind"))
    if not target.get("name"):
        causes.append(Cause("FieldValueRequired", "Required value", "target.name"))
    if causes:
        raise Invalid.of("", "Binding", call.name, causes)


def _bound(call: Call, pod: Object, binding: Object, node: str) -> Object:
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        raise _refused(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refused(call, f'pod {call.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(call, f"pod {call.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    for field in ("annotations", "labels"):
        if added := (binding.get("metadata") or {}).get(field):
            pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **added}
    _set_scheduled(pod, format_time(call.backend.now()))
    return pod


def _set_scheduled(pod: Object, now: str) -> None:
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    conditions = [c for c in status.get("conditions") or [] if c.get("type") != "PodScheduled"]
    conditions.append(
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
    )
    status["conditions"] = conditions


def _refused(call: Call, message: str) -> Conflict:
    return Conflict.of("", "pods/binding", call.name, message)
