"""WATCH: the changes of a collection as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from kubewright.api.errors import APIError, Expired
from kubewright.api.resource import Object
from kubewright.local.apiserver.converting_watcher import ConvertingWatcher
from kubewright.local.apiserver.exchange import StreamResponse, encode_json
from kubewright.local.apiserver.options import ListOptions, parse_list_options, parse_revision
from kubewright.local.apiserver.representation import include_object
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.list import check_fields
from kubewright.local.apiserver.selectors import FieldRequirement, FieldSelector
from kubewright.local.apiserver.storage import decode_json
from kubewright.local.apiserver.table import build_partial, build_table
from kubewright.local.apiserver.watching import (
    Encode,
    Selection,
    Watcher,
    build_bookmark,
    build_frame,
)
from kubewright.local.store import Compacted

_MIN_TIMEOUT = 1800
_BOOKMARK_EVERY = 60.0


async def watch(call: Call) -> StreamResponse:
    """Answer with a stream of events.

    Without a version, or from version 0, it begins with an ADDED event for each object. A version
    older than the history gives one ERROR event of code 410. The stream ends after `timeoutSeconds`
    or, without them, after half an hour to an hour; a last bookmark precedes that end where
    bookmarks are allowed.
    """
    options = parse_list_options(call.request, watch=True)
    check_fields(call, options)
    watcher = _build_watcher(call, options)
    revision = _revision(options)
    try:
        _begin(call, options, watcher, revision)
    except Compacted as error:
        watcher.fail(Expired(f"too old resource version: {revision} ({error.oldest})", None))
    timeout = options.timeout_seconds
    if timeout is None:
        timeout = _MIN_TIMEOUT + call.backend.random.randrange(_MIN_TIMEOUT)
    return StreamResponse(200, _stream(call, watcher, float(timeout), options.allow_bookmarks))


def _revision(options: ListOptions) -> int:
    try:
        return parse_revision(options.resource_version) if options.resource_version else 0
    except ValueError as error:
        raise APIError(str(error), None) from None


def _build_watcher(call: Call, options: ListOptions) -> Watcher:
    fields = options.fields
    if call.name:
        # The deprecated /watch/…/NAME path is a watch of one object.
        one = FieldRequirement("metadata.name", call.name)
        fields = FieldSelector((*fields.requirements, one))
    form, encode = _encoder(call)
    kind = ConvertingWatcher if call.kind.webhook else Watcher
    return kind(
        call.storage,
        call.storage.scope(call.namespace),
        Selection(options.labels, fields),
        encode,
        form,
    )


def _begin(call: Call, options: ListOptions, watcher: Watcher, revision: int) -> None:
    """Queue what the watch begins with and connect it to what follows, with nothing in between."""
    hub = call.backend.hub
    wants_state = options.send_initial_events
    if wants_state is None:
        wants_state = revision == 0
    if wants_state:
        watcher.show_state(call.backend.store.list(watcher.scope).items)
        if options.send_initial_events and options.allow_bookmarks:
            watcher.show("BOOKMARK", _bookmark(call, initial_end=True))
        hub.add(watcher)
    elif revision == 0 or revision > call.backend.store.revision:
        hub.add(watcher)
    else:
        hub.replay(watcher, revision)


def _bookmark(call: Call, *, initial_end: bool = False) -> bytes:
    revision = call.backend.store.revision
    return encode_json(build_bookmark(call.kind, revision, initial_end=initial_end))


async def _stream(
    call: Call, watcher: Watcher, timeout: float, bookmarks: bool
) -> AsyncIterator[bytes]:
    monotonic = call.backend.monotonic
    end = monotonic() + timeout
    try:
        while True:
            left = end - monotonic()
            if left <= 0:
                if bookmarks and not watcher.closed:
                    watcher.show("BOOKMARK", _bookmark(call))
                    yield await watcher.read(0)
                return
            frames = await watcher.read(min(left, _BOOKMARK_EVERY))
            if frames:
                yield frames
            elif watcher.closed:
                return
            elif bookmarks and end - monotonic() > 0:
                watcher.show("BOOKMARK", _bookmark(call))
    finally:
        call.backend.hub.remove(watcher)


def _encoder(call: Call) -> tuple[Any, Encode]:
    """Return the form of the events, equal for watches that share frames, and its encoder."""
    media = call.media
    if not media.convert:
        return "plain", lambda kind, raw, first: build_frame(kind, raw)
    if media.convert == "Table":
        include = include_object(call.request)
        return (media.convert, media.version, include), lambda kind, raw, first: build_frame(
            kind, encode_json(_table(call, kind, decode_json(raw), include, first))
        )
    return (media.convert, media.version), lambda kind, raw, first: build_frame(
        kind, encode_json(build_partial(decode_json(raw), media.version))
    )


def _table(call: Call, kind: str, obj: Object, include: str, first: bool) -> Object:
    version = (obj.get("metadata") or {}).get("resourceVersion", "")
    table = build_table(
        call.kind,
        [obj],
        {"resourceVersion": version},
        include=include,
        version=call.media.version,
        now=call.backend.now(),
    )
    if not first:
        table["columnDefinitions"] = None
    if kind == "BOOKMARK":
        row = {"cells": [], "object": build_partial(obj, call.media.version)}
        table |= {"columnDefinitions": None, "rows": [row]}
    return table
