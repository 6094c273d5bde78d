"""GET of one object."""

from __future__ import annotations

from kubewright.api.errors import APIError
from kubewright.local.apiserver.exchange import Response
from kubewright.local.apiserver.options import parse_revision
from kubewright.local.apiserver.rest.call import Call, too_large


async def get(call: Call) -> Response:
    """Answer with the newest version of an object, which is never older than the one asked for."""
    wanted = call.request.param("resourceVersion")
    if wanted:
        try:
            revision = parse_revision(wanted)
        except ValueError as error:
            raise APIError(str(error), None) from None
        if revision > call.backend.store.revision:
            raise too_large(revision, call.backend.store.revision)
    return call.answer(200, (await call.read()).raw)
