"""namespaces/finalize: the only way to change a namespace's own finalizers."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Answer
from kubewright.local.apiserver.options import parse_write_options
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.decode import check_name, decode_body
from kubewright.local.apiserver.rest.update import Change, change_object


async def finalize(call: Call) -> Answer:
    """Replace spec.finalizers; a terminating namespace without any is gone."""
    options = parse_write_options(call.request, "UpdateOptions")
    body = decode_body(call, options)
    check_name(call, body)

    async def transform(live: Object | None) -> Object:
        assert live is not None  # finalize creates nothing
        return {**body, "status": live.get("status") or {}}

    uid = body["metadata"].get("uid") or ""
    change = Change(transform, options, subresource="finalize", ruled=True, uid=uid)
    raw, _ = await change_object(call, change)
    return call.answer(200, raw)
