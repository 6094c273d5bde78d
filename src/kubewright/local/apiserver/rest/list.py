"""LIST: what is in a collection, at one version, page by page."""

from __future__ import annotations

import base64
import binascii

import msgspec

from kubewright.api.errors import BadRequest, Expired, NotAcceptable
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Response, encode_json
from kubewright.local.apiserver.json_problem import find_problem
from kubewright.local.apiserver.options import ListOptions, parse_list_options, parse_revision
from kubewright.local.apiserver.representation import include_object, internal_type, represent
from kubewright.local.apiserver.rest.call import Call, too_large
from kubewright.local.apiserver.storage import decode_json
from kubewright.local.apiserver.table import build_partial, build_table, mark_default_class
from kubewright.local.apiserver.watching import Selection
from kubewright.local.store import Compacted, FutureRevision

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Page(msgspec.Struct):
    """Part of a list: JSON texts in the kind's version, and where the next part begins."""

    items: list[bytes]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> Object:
        """Return the list's metadata."""
        metadata: Object = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


async def list_objects(call: Call) -> Response:
    """Answer with the selected objects."""
    options = parse_list_options(call.request, watch=False)
    check_fields(call, options)
    return answer_list(call, await read_page(call, options))


def check_fields(call: Call, options: ListOptions) -> None:
    """Refuse field selectors that the kind does not know.

    Raises:
        BadRequest: a field cannot be selected by.
    """
    known = call.kind.strategy.selectable_field_names()
    for requirement in options.fields.requirements:
        field = requirement.field
        if field in known or field == "metadata.name":
            continue
        if field == "metadata.namespace" and (call.kind.resource.namespaced or not known):
            continue
        if known or call.kind.is_custom:
            raise BadRequest(f"field label not supported: {field}", None)
        raise BadRequest(
            f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"',
            None,
        )


async def read_page(call: Call, options: ListOptions) -> Page:
    """Read the objects that the options ask for.

    Raises:
        BadRequest: the version or the continue token cannot be read.
        Expired: they are older than the history.
        Timeout: the version is not written yet.
        StorageReadError: some of the objects cannot be had in the version of the path.
    """
    storage = call.storage
    scope = storage.scope(call.namespace)
    start, revision, limit = _position(call, options)
    selection = Selection(options.labels, options.fields)
    store_limit = limit if not selection else None
    try:
        found = call.backend.store.list(scope, revision=revision, start=start, limit=store_limit)
    except Compacted as error:
        message = (
            _TOO_OLD
            if options.continue_token
            else ("The resourceVersion for the provided list is too old.")
        )
        raise Expired(message, None) from error
    except FutureRevision as error:
        raise too_large(error.revision, error.current) from error
    page = Page([], found.revision)
    last = ""
    for item, raw in zip(found.items, await storage.texts(found.items), strict=True):
        if selection and not selection.matches(storage, item.key, raw):
            continue
        if limit and len(page.items) == limit:
            page.continue_token = _next_token(scope, last, found.revision)
            return page
        page.items.append(raw)
        last = item.key
    if found.remaining:
        page.continue_token = _next_token(scope, last, found.revision)
        page.remaining = found.remaining
    return page


def _position(call: Call, options: ListOptions) -> tuple[str | None, int | None, int]:
    """Return the first key, the revision (None for the newest) and the limit of a page."""
    version, limit = options.resource_version, options.limit
    if options.continue_token:
        if version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue", None)
        if version == "0":
            limit = 0  # a cache, which knows no pages, answers with all that is left
        revision, start = _parse_token(options.continue_token)
        key = call.storage.scope(call.namespace) + start
        return key, revision if revision > 0 else None, limit
    if not version:
        return None, None, limit
    try:
        revision = parse_revision(version)
    except ValueError as error:
        raise BadRequest(f"invalid resource version: {error}", None) from None
    if revision == 0:
        # Any version will do: the answer comes from a cache, which knows no pages.
        return None, None, 0
    if revision > call.backend.store.revision:
        raise too_large(revision, call.backend.store.revision)
    return None, revision if options.resource_version_match == "Exact" else None, limit


def _next_token(scope: str, last: str, revision: int) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": last.removeprefix(scope) + "\0"}
    return base64.urlsafe_b64encode(encode_json(token)).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, str]:
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data at input byte 0") from None
    if problem := find_problem(data.decode("latin-1")):
        raise _bad_token(problem)
    value = decode_json(data)
    if value.get("v") != "meta.k8s.io/v1":
        raise BadRequest(
            "invalid continue token: continue key is not valid: server does not recognize this "
            f'encoded version "{value.get("v", "")}"',
            None,
        )
    start, revision = value.get("start"), value.get("rv")
    if not isinstance(start, str) or not start or not isinstance(revision, int):
        raise _bad_token("encoded start key or version is empty (version meta.k8s.io/v1)")
    return revision, start.lstrip("/")


def _bad_token(problem: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {problem}", None)


def answer_list(call: Call, page: Page) -> Response:
    """Build the answer from a page, in the form that was negotiated.

    Raises:
        NotAcceptable: the form of a single object was asked for.
    """
    media, kind = call.media, call.kind
    if not media.convert:
        return represent(call.request, media, 200, _join(call, page))
    if media.convert == "PartialObjectMetadata":
        raise NotAcceptable(
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"(*{internal_type(kind, 'List')})",
            None,
        )
    objects = [decode_json(raw) for raw in page.items]
    if media.convert == "Table":
        answer = build_table(
            kind,
            objects,
            page.metadata(),
            include=include_object(call.request),
            version=media.version,
            now=call.backend.now(),
        )
        if kind.resource.plural == "storageclasses":
            mark_default_class(answer, objects)
    else:
        items = [build_partial(obj, media.version) for obj in objects]
        answer = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{media.version}",
            "metadata": page.metadata(),
            "items": items or None,
        }
    return represent(call.request, media, 200, encode_json(answer))


def _join(call: Call, page: Page) -> bytes:
    kind = call.kind
    metadata = page.metadata()
    if kind.is_custom:
        metadata.setdefault("continue", "")
    head = {
        "kind": kind.list_kind,
        "apiVersion": kind.resource.api_version,
        "metadata": metadata,
    }
    item = call.storage.item
    body = b",".join([item(raw) for raw in page.items])
    return encode_json(head)[:-1] + b',"items":[' + body + b"]}"
