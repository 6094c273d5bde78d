"""Writing a pod's status to the API, and seeing when somebody else overwrote it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kubewright.api.builtin import POD
from kubewright.api.errors import Conflict, KubewrightError, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType

_logger = logging.getLogger(__name__)


class StatusPublisher:
    """Publishes the status of one pod, each time that it differs from what was published last."""

    def __init__(self, client: Client, key: NamespacedName, uid: str) -> None:
        self._client = client
        self._key = key
        self._uid = uid
        self._published: Object | None = None
        self._types: set[str] = set()

    @property
    def has_published(self) -> bool:
        """Tell whether a status was published and stands."""
        return self._published is not None

    def observe(self, pod: Object) -> None:
        """Take note of the pod as the API has it: what was overwritten is published again."""
        if self._published is not None and is_contradicted(pod, self._published):
            self._published = None

    async def publish(self, status: Object) -> bool:
        """Publish a status; return whether the API has it. If not, try again later."""
        if status == self._published:
            return True
        types = {condition["type"] for condition in status["conditions"]}
        body = build_patch(self._uid, status, self._types - types)
        try:
            await self._client.patch(
                POD,
                self._key.name,
                body,
                type=PatchType.STRATEGIC,
                namespace=self._key.namespace,
                subresource="status",
            )
        except (NotFound, Conflict) as error:
            # The pod is gone or is another one by now, and the cache will tell.
            _logger.debug("status of pod %s was not taken: %s", self._key, error)
            return False
        except KubewrightError as error:
            _logger.warning("status of pod %s was not written: %s", self._key, error)
            return False
        self._published, self._types = status, types
        return True


def build_patch(uid: str, status: Object, gone: Iterable[str] = ()) -> Object:
    """Build the strategic merge patch of a status; `gone` are conditions that it has no more.

    Addresses are merged by address: without a directive, a pod would keep those of an earlier run
    of its node beside the new ones, which the API server refuses.
    """
    replaced: Object = {
        field: [{"$patch": "replace"}, *status[field]]
        for field in ("hostIPs", "podIPs")
        if field in status
    }
    if dropped := [{"$patch": "delete", "type": type} for type in gone]:
        replaced["conditions"] = [*status["conditions"], *dropped]
    return {"metadata": {"uid": uid}, "status": status | replaced}


def is_contradicted(pod: Object, published: Object) -> bool:
    """Tell whether a pod's status is another one than the one that was published."""
    status = pod.get("status") or {}
    current = {entry["type"]: entry.get("status") for entry in status.get("conditions") or ()}
    wrong = [c for c in published["conditions"] if current.get(c["type"], "") != c["status"]]
    return bool(wrong) or status.get("phase") != published["phase"]
