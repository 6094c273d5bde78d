"""Waiting for pods, and building those that tests run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.local.node.objects import build_pod

from kubewright.api.builtin import POD
from kubewright.api.conditions import is_condition_true
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client


async def create_pod(client: Client, name: str, **spec: Any) -> Object:
    """Create a pod that is bound to the node of the test."""
    spec = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 2, **spec}
    pod = build_pod(name, nodeName="node-1", **spec)
    del pod["metadata"]["uid"]
    return await client.create(pod)


async def wait_for(
    client: Client, name: str, is_met: Callable[[Object], bool], seconds: float = 20.0
) -> Object:
    """Wait until a pod meets a condition."""
    pod: Object = {}
    try:
        async with asyncio.timeout(seconds):
            while True:
                pod = await client.get(POD, name, namespace="ns")
                if is_met(pod):
                    return pod
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"pod {name} did not get there: {pod.get('status')}") from None


async def wait_gone(client: Client, name: str, seconds: float = 20.0) -> None:
    """Wait until a pod is gone from the API."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                await client.get(POD, name, namespace="ns")
            except NotFound:
                return
            await asyncio.sleep(0.02)


async def wait_until(is_met: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while True:
            if is_met():
                return
            await asyncio.sleep(0.02)


def is_ready(pod: Object) -> bool:
    """Tell whether a pod is ready."""
    return is_condition_true(pod, "Ready")


def has_phase(phase: str) -> Callable[[Object], bool]:
    """Return what tells whether a pod is in a phase."""
    return lambda pod: (pod.get("status") or {}).get("phase") == phase


def container_state(pod: Object) -> Object:
    """Return the state of a pod's only container."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    state: Object = statuses[0].get("state") or {}
    return state
