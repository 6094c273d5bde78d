"""Conversion of custom objects by the webhook that their definition names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kubewright.api.resource import Object
from kubewright.local.apiserver.conversion import ConversionFailed, ConversionUnanswered
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.exchange import encode_json
from kubewright.local.apiserver.objectmeta import validate_annotations, validate_labels
from kubewright.local.apiserver.schema.json_value import GO_TYPES
from kubewright.local.apiserver.webhook_call import WebhookFailed

_GROUP = "apiextensions.k8s.io"
_RECOGNIZED = ("v1", "v1beta1")
_TIMEOUT = 30
_OPEN = {"labels": validate_labels, "annotations": validate_annotations}
# Go's path of annotations in this one place.
_PATHS = {"labels": "metadata.labels", "annotations": "metadata.annotation"}

Ask = Callable[[Mapping[str, Any], Object, int], Awaitable[Object]]
"""Sends a review by a client configuration, within so many seconds, and returns the answer."""


class ConversionWebhook:
    """The `VersionConverter` of a definition whose conversion strategy is Webhook.

    Several objects go in one ConversionReview. Of the metadata a webhook may change labels and
    annotations alone; all else is that of the object that was sent.

    Args:
        crd: the definition, valid and defaulted.
        schemas: the schemas of all its versions, served or not, by the version's name.
        ask: sends the review to where the client configuration says; `WebhookCaller.ask`.
        new_uid: makes the UID of a review.
    """

    def __init__(
        self,
        crd: Object,
        schemas: Mapping[str, StructuralSchema],
        ask: Ask,
        new_uid: Callable[[], str],
    ) -> None:
        webhook = crd["spec"]["conversion"]["webhook"]
        self._config: Mapping[str, Any] = webhook["clientConfig"]
        wanted = webhook["conversionReviewVersions"]
        self._version = next(version for version in wanted if version in _RECOGNIZED)
        group = crd["spec"]["group"]
        self._schemas = {f"{group}/{name}": schema for name, schema in schemas.items()}
        self._send = ask
        self._new_uid = new_uid

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Return the objects in another version, as the webhook converts them.

        Raises:
            ConversionUnanswered: the webhook could not be asked within 30 seconds.
            ConversionFailed: it refused, or returned something else than these objects.
        """
        if not objects:
            return []
        who = f"conversion webhook for {_display(objects[0])}"
        for source in dict.fromkeys(str(obj.get("apiVersion")) for obj in objects):
            if source not in self._schemas:
                problem = f"request to convert CR from an invalid group/version: {source}"
                raise ConversionFailed(problem, None)
        converted = await self._ask(who, objects, api_version)
        if len(converted) != len(objects):
            found = f"returned {len(converted)} objects, expected {len(objects)}"
            raise ConversionFailed(f"{who} {found}", None)
        for got in converted:
            if not isinstance(got, dict) or not got.get("kind"):
                raise ConversionFailed(f"Object 'Kind' is missing in '{_text(got)}'", None)
        pairs = zip(objects, converted, strict=True)
        try:
            return [
                _accept(sent, got, api_version, index) for index, (sent, got) in enumerate(pairs)
            ]
        except ValueError as error:
            raise ConversionFailed(f"{who} returned {error}", None) from None

    def complete(self, obj: Object) -> None:
        """Prune a stored object and fill in its defaults, by its own version's schema."""
        schema = self._schemas.get(obj["apiVersion"])
        if schema is not None:
            schema.prune(obj)
            schema.default(obj)

    def prune(self, obj: Object) -> None:
        """Drop what the schema of the object's own version does not declare."""
        schema = self._schemas.get(obj["apiVersion"])
        if schema is not None:
            schema.prune(obj)

    async def _ask(self, who: str, objects: Sequence[Object], api_version: str) -> list[Any]:
        uid = self._new_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{self._version}",
            "request": {
                "uid": uid,
                "desiredAPIVersion": api_version,
                "objects": [_as_sent(obj) for obj in objects],
            },
        }
        try:
            answer = await self._send(self._config, review, _TIMEOUT)
        except WebhookFailed as error:
            raise ConversionUnanswered(f"{who} failed: {error}", None) from error
        try:
            return self._converted(answer, uid)
        except ValueError as error:
            raise ConversionFailed(f"{who} failed: {error}", None) from None

    def _converted(self, answer: Object, uid: str) -> list[Any]:
        """Return the objects of an answer.

        Raises:
            ValueError: it is no success, or answers something else.
        """
        expected, found = f"{_GROUP}/v1, Kind=ConversionReview", _display(answer)
        # The older version never had its type and UID checked.
        is_checked = self._version == "v1"
        if is_checked and found != expected:
            raise ValueError(f"expected webhook response of {expected}, got {found}")
        response = answer.get("response")
        if not isinstance(response, dict):
            raise ValueError("no response provided")
        if is_checked and response.get("uid") != uid:
            raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
        result = response.get("result") or {}
        status = result.get("status") or ""
        if status != "Success":
            told = f"response.result.status was '{status}', not 'Success'"
            raise ValueError(result.get("message") or told)
        return list(response.get("convertedObjects") or ())


def _display(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _as_sent(obj: Object) -> Object:
    """Return an object as a webhook sees it: a resourceVersion is no part of what is stored."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "resourceVersion" not in metadata:
        return obj
    kept = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**obj, "metadata": kept}


def _accept(sent: Object, got: Object, api_version: str, index: int) -> Object:
    """Return a converted object with the metadata of the one that was sent.

    Raises:
        ValueError: it is another object, or its labels or annotations are none.
    """
    version, kind = got.get("apiVersion"), got["kind"]
    if version != api_version:
        problem = f"invalid groupVersion (expected {api_version}, received {version or ''})"
        raise ValueError(f"invalid object at index {index}: {problem}")
    if kind != sent["kind"]:
        problem = f"invalid kind (expected {sent['kind']}, received {kind})"
        raise ValueError(f"invalid object at index {index}: {problem}")
    metadata = got.get("metadata")
    before = sent.get("metadata") or {}
    found = metadata if isinstance(metadata, dict) else {}
    for field in ("name", "namespace", "UID"):
        wanted, told = (part.get(field.lower()) or "" for part in (before, found))
        if wanted != told:
            raise ValueError(f"invalid object: must have the same {field}: {wanted} != {told}")
    try:
        return {**got, "metadata": _restored(before, got)}
    except ValueError as error:
        raise ValueError(f"invalid metadata: {error}") from None


def _restored(before: Object, got: Object) -> Object:
    """Return the metadata that was sent, with the labels and annotations that came back.

    Raises:
        ValueError: they are not maps of strings, or break the rules of labels and annotations.
    """
    metadata = got.get("metadata")
    if "metadata" not in got:
        raise ValueError("missing metadata in converted object")
    if not isinstance(metadata, dict):
        raise ValueError(f"invalid metadata of type {_go_type(metadata)} in converted object")
    restored = {key: value for key, value in before.items() if key not in _OPEN}
    for field, validate in _OPEN.items():
        values = metadata.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            found = _go_type(values)
            raise ValueError(f"invalid metadata.{field} of type {found} in converted object")
        for key, value in values.items():
            if not isinstance(value, str):
                told = f"must be a string, but is {_go_type(value)} in converted object"
                raise ValueError(f"metadata.{field}[{key}] {told}")
        if values != before.get(field) and (causes := validate(values, _PATHS[field])):
            texts = [f"{cause.field}: {cause.message}" for cause in causes]
            raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        restored[field] = values
    return restored


def _text(value: Any) -> str:
    return encode_json(value).decode()


def _go_type(value: Any) -> str:
    return "<nil>" if value is None else GO_TYPES[type(value)]
