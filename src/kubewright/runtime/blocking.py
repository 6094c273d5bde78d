"""Blocking functions of users: a plain `def` runs in a thread and gets a context that blocks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

from kubewright.api.errors import ConfigurationError, KubewrightError
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.client.requests import Patch, PatchType, Propagation
from kubewright.runtime.context import Context
from kubewright.runtime.event_series import EventType
from kubewright.runtime.result import Result
from kubewright.runtime.thread_pool import ThreadPool
from kubewright.runtime.user_function import ReconcileTimeout, locate

R = TypeVar("R")
Function: TypeAlias = Callable[[Any, Context], Awaitable[Result | None]]


class ReconcileCancelled(KubewrightError):
    """The reconcile that a blocking function runs for is over: return from the function."""


class BlockingContext:
    """What a blocking function works with: a `Context` whose methods wait instead of being awaited.

    Reads and writes are carried out on the event loop, one at a time, and mean what they mean in
    `Context`. When the reconcile is cancelled, as at the end of the process or of the leadership,
    every method raises ReconcileCancelled, so that nothing is written any more.

    Attributes:
        request: the key of the object to reconcile.
        logger: tells the controller and the key with every line.
    """

    def __init__(self, context: Context) -> None:
        self.request: NamespacedName = context.request
        self.logger: logging.LoggerAdapter[logging.Logger] = context.logger
        self.context = context
        self._loop = asyncio.get_running_loop()
        self._pending: concurrent.futures.Future[Any] | None = None
        self._is_over = False

    def wait(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the event loop and wait for it: `ctx.wait(ctx.context.client.get(…))`.

        Raises:
            ReconcileCancelled: the reconcile is over.
        """
        if self._is_over:
            coroutine.close()
            raise ReconcileCancelled(f"the reconcile of {self.request} was cancelled")
        self._pending = pending = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return pending.result()
        except concurrent.futures.CancelledError:
            text = f"the reconcile of {self.request} was cancelled"
            raise ReconcileCancelled(text) from None

    def cancel(self) -> None:
        """End it, on the event loop: what is under way is cancelled, and nothing else begins."""
        self._is_over = True
        if self._pending is not None:
            self._pending.cancel()

    def get(self, resource: Resource, key: NamespacedName | None = None) -> Object | None:
        """Read an object from its store; see `Context.get`."""
        return self.wait(_call(self.context.get, resource, key))

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> list[Object]:
        """Read objects from their store; see `Context.list`."""
        read = self.context.list
        return self.wait(_call(read, resource, namespace=namespace, labels=labels, owner=owner))

    def create(self, obj: Object) -> Object:
        """Create an object and return it as the server stored it."""
        return self.wait(self.context.create(obj))

    def replace(self, obj: Object, *, subresource: str | None = None) -> Object:
        """Replace an object; see `Context.replace`."""
        return self.wait(self.context.replace(obj, subresource=subresource))

    def apply(
        self,
        obj: Object,
        *,
        force: bool = True,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Apply an object server-side; see `Context.apply`."""
        apply = self.context.apply
        return self.wait(
            apply(obj, force=force, subresource=subresource, field_manager=field_manager)
        )

    def patch(
        self,
        resource: Resource,
        key: NamespacedName,
        patch: Patch,
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str | None = None,
    ) -> Object:
        """Patch an object and return it as the server stored it."""
        change = self.context.patch
        return self.wait(change(resource, key, patch, type=type, subresource=subresource))

    def delete(
        self,
        resource: Resource,
        key: NamespacedName,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete an object; see `Context.delete`."""
        deletion = self.context.delete(
            resource,
            key,
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
        )
        self.wait(deletion)

    def event(
        self, regarding: Object, type: EventType, reason: str, note: str, *, action: str = ""
    ) -> None:
        """Record an Event about an object, `regarding`.

        `type` is `Normal` or `Warning`, `reason` a CamelCase word for programs, `note` a sentence
        for people, and `action` what was done or tried; see `EventRecorder.event`.
        """
        record = self.context.recorder.event
        self.wait(_call(record, regarding, type, reason, note, action=action))


BlockingFunction: TypeAlias = Callable[[Any, BlockingContext], Result | None]


def adapt(function: Function | BlockingFunction, threads: ThreadPool) -> Function:
    """Return a function to await: an async one as it is, a blocking one in a thread of the pool.

    A call that was given up, because of a time limit, still runs: until it ends, the same object is
    not worked on a second time.
    """
    if is_async(function):
        return function  # type: ignore[return-value] # `is_async` looked at what it is

    running: set[NamespacedName] = set()

    @functools.wraps(function)
    async def run(obj: Any, ctx: Context) -> Result | None:
        if ctx.request in running:
            raise ReconcileTimeout(
                "the call before this one was given up, but still runs in its thread; "
                f"nothing can stop it ({locate(function)})"
            )
        context = BlockingContext(ctx)

        def work() -> Result | Awaitable[Result | None] | None:
            running.add(ctx.request)
            try:
                return function(obj, context)  # type: ignore[arg-type] # `is_async` looked
            finally:
                running.discard(ctx.request)

        try:
            result = await threads.run(work)
        finally:
            context.cancel()
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise ConfigurationError(
                f"it returned something to await: make it `async def` ({locate(function)})"
            )
        return result

    return run


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function, or an object that can be called, is defined with `async def`."""
    call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _call(function: Callable[..., R], *arguments: Any, **keywords: Any) -> R:
    return function(*arguments, **keywords)
