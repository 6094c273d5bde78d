"""Telling the API server of our webhooks, and keeping it told."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

from kubewright.api import builtin
from kubewright.api.errors import Conflict, Invalid, NotFound
from kubewright.api.resource import GroupVersionKind, Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.operator import Operator
from kubewright.webhook.configuration import (
    MANAGED_BY,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    Endpoint,
    build_configurations,
    build_conversions,
    client_configs_of,
)

_RESOURCES: dict[GroupVersionKind, Resource] = {
    resource.gvk: resource
    for resource in (
        MUTATING_WEBHOOK_CONFIGURATION,
        VALIDATING_WEBHOOK_CONFIGURATION,
        builtin.CUSTOM_RESOURCE_DEFINITION,
    )
}

_logger = logging.getLogger(__name__)


class Registration:
    """Keeps the webhook configurations and the conversions of CRDs as some operators want them.

    They are applied with the field manager `OPERATOR-webhook`. A configuration outlives its
    operator: to remove it when one replica ends would switch the checks off for all. It goes when
    an operator starts that has no such functions any more.
    """

    def __init__(self, client: Client, operators: Sequence[Operator]) -> None:
        self._client = client
        self._operators = operators
        self._cleared: set[str] = set()
        for resource in _RESOURCES.values():
            client.mapper.add(resource)

    async def ensure(self, endpoint: Endpoint, authorities: bytes) -> None:
        """Make the API server ask at `endpoint`, and trust `authorities`; write only what differs.

        Raises:
            NotFound: a CRD is not installed, so that nobody can be named who converts.
            APIError: the API server refuses it.
        """
        for operator in self._operators:
            configurations = build_configurations(operator, endpoint, authorities)
            for wanted in configurations:
                await self._ensure_applied(operator, wanted)
            if operator.name not in self._cleared:
                await self._remove_others(operator, configurations)
                self._cleared.add(operator.name)
            for wanted in build_conversions(operator, endpoint, authorities):
                await self._ensure_applied(operator, wanted)

    async def read_authorities(self) -> bytes:
        """Return the authorities (PEM) that the API server trusts for these webhooks by now.

        Raises:
            APIError: the API server refuses to tell.
        """
        endpoint = Endpoint(url="https://unused")
        for operator in self._operators:
            built = (
                *build_configurations(operator, endpoint),
                *build_conversions(operator, endpoint),
            )
            for wanted in built:
                live = await self._read(wanted) or {}
                for _, config in client_configs_of(live):
                    if bundle := config.get("caBundle"):
                        return base64.b64decode(bundle)
        return b""

    async def switch_conversions(self, endpoint: Endpoint) -> None:
        """Let the CRDs that are there lead to `endpoint`, where they lead elsewhere by other means.

        A clientConfig has a URL or a Service, and server-side apply does not take away what another
        manager owns.
        """
        for operator in self._operators:
            for wanted in build_conversions(operator, endpoint):
                live = await self._read(wanted)
                if live is not None and (operations := plan_switch(live, wanted)):
                    await self._patch(wanted, operations)

    async def _ensure_applied(self, operator: Operator, wanted: Object) -> None:
        live = await self._read(wanted)
        if live is None:
            if _resource_of(wanted) is builtin.CUSTOM_RESOURCE_DEFINITION:
                # Applied alone, the part for conversion would be refused for what it lacks.
                name = wanted["metadata"]["name"]
                raise NotFound(f"the CRD {name} is not installed: its conversion cannot be set")
        elif contains(live, wanted):
            return
        elif operations := plan_switch(live, wanted):
            # Whoever wrote the other way to reach us owns it: applying ours would leave both.
            await self._patch(wanted, operations)
        await self._client.apply(wanted, field_manager=f"{operator.name}-webhook")
        _logger.info("registered webhooks: %s %s", wanted["kind"], wanted["metadata"]["name"])

    async def _read(self, wanted: Object) -> Object | None:
        try:
            return await self._client.get(_resource_of(wanted), wanted["metadata"]["name"])
        except NotFound:
            return None

    async def _patch(self, wanted: Object, operations: list[Object]) -> None:
        name = wanted["metadata"]["name"]
        try:
            await self._client.patch(_resource_of(wanted), name, operations, type=PatchType.JSON)
        except (Conflict, Invalid) as error:
            # Another replica was faster; if not, what is applied next tells why.
            _logger.debug("the webhooks of %s were not switched: %s", name, error)

    async def _remove_others(self, operator: Operator, wanted: Sequence[Object]) -> None:
        """Remove our configuration of a sort that the operator has no functions for."""
        kinds = {obj["kind"] for obj in wanted}
        for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION):
            if resource.kind in kinds:
                continue
            try:
                live = await self._client.get(resource, operator.name)
                if (live["metadata"].get("labels") or {}).get(MANAGED_BY) != operator.name:
                    continue
                uid = live["metadata"]["uid"]
                await self._client.delete(resource, operator.name, uid=uid)
            except (NotFound, Conflict):
                continue
            _logger.info("removed webhooks that nobody answers: %s %s", resource, operator.name)


def contains(live: Any, wanted: Any) -> bool:
    """Tell whether an object has all that is wanted.

    Lists are equal in length; their items are compared in order, or by name where they have names.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and contains(live[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(live, list) and len(live) == len(wanted):
        return all(contains(*pair) for pair in zip(_sort(live), _sort(wanted), strict=True))
    return bool(live == wanted)


def _sort(items: list[Any]) -> list[Any]:
    if all(isinstance(item, dict) and "name" in item for item in items):
        return sorted(items, key=lambda item: str(item["name"]))
    return items


def plan_switch(live: Object, wanted: Object) -> list[Object]:
    """Return the JSON patch that takes a live object from URLs to a Service, or back."""
    replacing = next((config for _, config in client_configs_of(wanted)), {})
    other = "service" if "url" in replacing else "url"
    by_path = dict(_by_name(wanted))
    operations: list[Object] = []
    for (pointer, config), (name, _) in zip(client_configs_of(live), _by_name(live), strict=True):
        if other in config and name in by_path:
            operations.append({"op": "test", "path": f"{pointer}/{other}", "value": config[other]})
            operations.append({"op": "replace", "path": pointer, "value": by_path[name]})
    return operations


def _by_name(obj: Object) -> list[tuple[str, Object]]:
    names = [webhook.get("name") or "" for webhook in obj.get("webhooks") or ()] or [""]
    configs = [config for _, config in client_configs_of(obj)]
    return list(zip(names, configs, strict=False))


def _resource_of(obj: Object) -> Resource:
    return _RESOURCES[GroupVersionKind.of(obj)]
