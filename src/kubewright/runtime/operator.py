"""The operator: functions of custom resources, and the controllers that run them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

from kubewright.api import builtin
from kubewright.api.definition import merge_definitions
from kubewright.api.errors import ConfigurationError, NotFound, Timeout
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.kind import ObjectClass
from kubewright.runtime.child_kind import ChildKind, map_to_kept_owner
from kubewright.runtime.controller import Controller
from kubewright.runtime.conversion import Conversions
from kubewright.runtime.event_stream import EventStream, OpenStream
from kubewright.runtime.kind_reconciler import KindReconciler
from kubewright.runtime.managed_kind import (
    CustomKind,
    CustomObject,
    DesiredDecorator,
    ManagedKind,
    ReconcileDecorator,
    StatusDecorator,
    T,
)
from kubewright.runtime.manager import Manager
from kubewright.runtime.read import Read, Readable
from kubewright.runtime.readiness import Progress, compute_readiness
from kubewright.runtime.thread_pool import THREADS, ThreadPool
from kubewright.runtime.user_function import check_is_plain
from kubewright.runtime.validation import (
    DefaultFunction,
    ValidateDeleteFunction,
    ValidateFunction,
)
from kubewright.runtime.watch import ChangeFilter, Watch, is_any_change

CONVERT_PATH = "/convert"
"""Where conversion webhooks are served."""

C = TypeVar("C", bound=CustomObject)
U = TypeVar("U", bound=CustomObject)
F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Operator:
    """Say what should exist for each custom resource; the runtime makes it exist and keeps it so.

        operator = Operator("memcached-operator")

        @operator.desired(Memcached, owns=[builtin.SERVICE, builtin.DEPLOYMENT])
        def pool(mc: Memcached) -> Iterable[Object]:
            yield service(mc)
            yield deployment(mc)

    `name` is the field manager of all that is applied, the source of Events, and part of the
    finalizer. Keep it: children are recognised by it.

    `workers` objects of a kind are in work at once. An awaited function that takes longer than
    `reconcile_timeout` is cancelled and called again later, since it would keep its worker from all
    other objects; None lets it take as long as it likes. Of blocking functions, which run in
    threads, `threads` run at once, of all kinds together; what waits for one keeps its worker.

    Raises:
        ConfigurationError: the name is no RFC 1123 subdomain of 63 characters at most, as the
            managed-by label, the finalizer and the Lease need it; or the timeout is no timedelta.
    """

    def __init__(
        self,
        name: str,
        *,
        workers: int = 4,
        threads: int = THREADS,
        reconcile_timeout: timedelta | None = timedelta(minutes=10),
    ) -> None:
        if len(name) > 63 or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"Operator({name!r:.80}): a name has 63 lower-case letters, digits, '-' and '.' at "
                "most, and begins and ends with a letter or digit, such as 'memcached-operator'"
            )
        if not isinstance(reconcile_timeout, timedelta | None):
            raise ConfigurationError(
                f"Operator({name!r}, reconcile_timeout={reconcile_timeout!r}): give a timedelta, "
                "such as minutes=10"
            )
        self.name = name
        self._workers = workers
        self._threads = threads
        self._reconcile_timeout = reconcile_timeout
        self._kinds: dict[Resource, ManagedKind[Any]] = {}
        self._versions: dict[Resource, CustomKind[Any]] = {}
        self.conversions = Conversions()

    @property
    def kinds(self) -> Sequence[ManagedKind[Any]]:
        """The kinds that the operator manages, in the order in which they were named."""
        return tuple(self._kinds.values())

    def desired(
        self,
        kind: ObjectClass[T],
        *,
        owns: Sequence[Resource | ChildKind],
        reads: Sequence[Readable] = (),
        watches: Sequence[Watch] = (),
        ordered_deletion: bool = False,
    ) -> DesiredDecorator[T]:
        """Register the function that yields what should exist for an object.

        It must be pure: no I/O, no clock, no randomness. Its children get an owner reference, their
        owner's namespace and the managed-by label; those that it no longer yields are deleted.
        What it raises stalls the object until it changes. A `Gate` among the children holds back
        those after it until those before it are ready.

        Arguments:
            kind: the custom resource class, or a `Resource` such as `builtin.NAMESPACE`: then the
                function gets dicts, and nothing is written to their status unless a status function
                says what.
            owns: every kind that the function may yield. A `ChildKind` says more than a resource.
                The list must not shrink while such children exist: they are only looked for here.
            reads: kinds that the status function finds in their stores; a `Read` holds a part.
            watches: further objects whose changes wake objects of this kind.
            ordered_deletion: when an object is deleted, delete its children in the reverse order of
                the gates, each stage after the next is gone. The object keeps a finalizer until
                then. Else they are collected after it, in no order.

        Raises:
            ConfigurationError: the function is async, or the kind has one already.
        """
        managed = self._managed(kind)
        managed.own(owns)
        managed.ordered_deletion = ordered_deletion
        return self._register(managed, "desired", reads, watches)

    def prepare(
        self,
        kind: ObjectClass[T],
        *,
        owns: Sequence[Resource | ChildKind] = (),
        reads: Sequence[Readable] = (),
        watches: Sequence[Watch] = (),
    ) -> ReconcileDecorator[T]:
        """Register what must have been done before the children are looked at.

        For what a pure function cannot make and the children need, such as a Secret with a password
        that is generated once. It is called in each reconcile, before `desired`, as `reconcile` is
        called after it: it must be able to run any number of times. Where it raises, the children
        stay as they are. Where it returns a `Result`, the object is looked at again then, and the
        children are applied all the same.

        Arguments:
            kind: as for `desired`.
            owns: kinds of objects that the function makes for an object, and whose changes wake it.
                The engine leaves what was not applied by `desired` alone.
            reads: kinds that the function reads by `ctx.get` and `ctx.list`; a `Read` holds a part.
            watches: further objects whose changes wake objects of this kind.

        Raises:
            ConfigurationError: the kind has one already.
        """
        managed = self._managed(kind)
        managed.own(owns)
        return self._register(managed, "prepare", reads, watches)

    def reconcile(
        self,
        kind: ObjectClass[T],
        *,
        owns: Sequence[Resource | ChildKind] = (),
        reads: Sequence[Readable] = (),
        watches: Sequence[Watch] = (),
    ) -> ReconcileDecorator[T]:
        """Register what a pure function cannot say; it is called after the children are applied.

        An `async def` is awaited on the event loop and gets a `Context`; it must not block. A plain
        `def` may block: it runs in a thread and gets a `BlockingContext`.

        It raises to say how it failed (see `Controller`), and may return a `Result` to be called
        again. It must be able to run any number of times.

        Arguments:
            kind: as for `desired`.
            owns: further kinds of objects that belong to an object of this kind and wake it.
            reads: kinds that the function reads by `ctx.get` and `ctx.list`; a `Read` holds a part.
            watches: further objects whose changes wake objects of this kind.

        Raises:
            ConfigurationError: the kind has one already.
        """
        managed = self._managed(kind)
        managed.own(owns)
        return self._register(managed, "reconcile", reads, watches)

    def finalize(self, kind: ObjectClass[T]) -> ReconcileDecorator[T]:
        """Register what to do before a deleted object may end; as `reconcile`, async or blocking.

        The object keeps a finalizer until the function returns None; a `Result` means that the work
        is not done yet and when to look again. Children need no such function: they are collected.

        Raises:
            ConfigurationError: the kind has one already.
        """
        return self._register(self._managed(kind), "finalize", (), ())

    def status(
        self,
        kind: ObjectClass[T],
        *,
        reads: Sequence[Readable] = (),
        watches: Sequence[Watch] = (),
    ) -> StatusDecorator[T]:
        """Register the pure function that computes the status from the object and its children.

        The conditions Ready, Reconciling and Stalled and `observedGeneration` are added to it, and
        to other conditions (`Condition.to_object`) their times; of a `Resource`, the status is what
        the function returns and nothing else. Do not put in it what changes by itself, such as the
        time: each change is a write.

        Arguments:
            kind: as for `desired`.
            reads: kinds that the function finds by `children.find`; a `Read` holds a part.
            watches: the same, of kinds whose changes also wake objects of this kind.

        Raises:
            ConfigurationError: the function is async, or the kind has one already.
        """
        return self._register(self._managed(kind), "status", reads, watches)

    def validate(self, kind: CustomKind[C]) -> Callable[[ValidateFunction[C]], ValidateFunction[C]]:
        """Register a check that a schema cannot express; there may be several.

        It gets the new object and the old one (None when it is not known) and raises ValueError
        with a sentence for the user. What it yields or returns are warnings for the user. It must
        be pure: the webhook asks it before a write is stored, and the controller before it works
        on an object, for a webhook may be absent. A refused object is stalled until it changes.
        """
        return self._append(self._managed(kind).validate, "validate")

    def validate_delete(
        self, kind: CustomKind[C]
    ) -> Callable[[ValidateDeleteFunction[C]], ValidateDeleteFunction[C]]:
        """Register a check of deletions; only a webhook can ask it.

        It gets the object and raises ValueError with a sentence to keep it. What it yields or
        returns are warnings.
        """
        return self._append(self._managed(kind).validate_delete, "validate_delete")

    def default(self, kind: CustomKind[C]) -> Callable[[DefaultFunction[C]], DefaultFunction[C]]:
        """Register a function that fills in what a user left out, in the object that it gets.

        It must be pure, and change nothing when it is called on its own result. The webhook stores
        what it fills in. The controller calls it too, before all other functions, for a webhook may
        be absent; it never writes that into the spec. Constants belong in the model: the API server
        fills them in by itself.
        """
        return self._append(self._managed(kind).default, "default")

    def convert(
        self, source: CustomKind[C], target: CustomKind[U]
    ) -> Callable[[Callable[[C], U]], Callable[[C], U]]:
        """Register how to make an object of the version `target` from that of `source`.

        Of a kind with several versions, each has its own class; one of them is stored, the others
        say `storage=False`. Choose one as the hub and register both ways between it and each other
        version. Nothing may be lost on the way there and back: what another version has no field
        for belongs in an annotation. The function must be pure. Name, UID and the like are kept
        whatever it returns; labels and annotations are its own.

        Raises:
            ConfigurationError: these are not two versions of one kind, or are registered already.
        """

        def register(function: Callable[[C], U]) -> Callable[[C], U]:
            self.conversions.add(source.resource, target.resource, function)
            for kind in (source, target):
                self._versions.setdefault(kind.resource, kind)
            return function

        return register

    def source(self, kind: ObjectClass[T]) -> Callable[[OpenStream], OpenStream]:
        """Register an async generator function that yields keys of objects to reconcile.

        For what happens outside the API server: messages, webhooks of others, a database's own
        notifications. See `EventStream` for what happens when it fails or ends.
        """
        managed = self._managed(kind)

        def register(function: OpenStream) -> OpenStream:
            name = f"{self.name}: {getattr(function, '__name__', 'source')}"
            managed.sources.append(EventStream(name, function))
            return function

        return register

    def filter_changes(self, kind: ObjectClass[T], changes: ChangeFilter) -> None:
        """Let only some changes of an object itself wake it, such as `generation_changed`.

        Its deletion, its children and what it watches wake it as ever. By default every change
        does, so that a status that somebody else changed is put right.

        Raises:
            ConfigurationError: the kind has a filter already.
        """
        self._managed(kind).set("filter_changes", changes)

    def versions(self) -> list[list[CustomKind[Any]]]:
        """Return the classes of all kinds, those of one kind together.

        Raises:
            ConfigurationError: a kind has several versions, and a conversion is missing.
        """
        kinds: dict[str, list[CustomKind[Any]]] = {}
        for kind in self._versions.values():
            kinds.setdefault(kind.resource.group_resource, []).append(kind)
        for versions in kinds.values():
            self.conversions.check([version.resource for version in versions])
        return list(kinds.values())

    def crds(self, conversion: Object | None = None) -> list[Object]:
        """Return the CustomResourceDefinitions of all kinds, one for all versions of a kind.

        Arguments:
            conversion: the clientConfig of the conversion webhook, for kinds with several versions.
                By default it is the Service `NAME-webhook` in the namespace `NAME-system`, where
                NAME is that of the operator.

        Raises:
            ConfigurationError: a kind has several versions, and a conversion is missing.
            SchemaError: the versions of a kind do not fit together.
        """
        if conversion is None:
            service = {"name": f"{self.name}-webhook", "namespace": f"{self.name}-system"}
            conversion = {"service": {**service, "path": CONVERT_PATH, "port": 443}}
        definitions = []
        for versions in self.versions():
            crds = [version.crd() for version in versions]
            definitions.append(crds[0] if len(crds) == 1 else merge_definitions(crds, conversion))
        return definitions

    def controllers(self) -> list[Controller]:
        """Build the controllers, one for each kind.

        Raises:
            ConfigurationError: two versions of one kind have functions for a controller.
        """
        threads = ThreadPool(self.name, self._threads)
        return [self._build_controller(managed, threads) for managed in self._reconciled()]

    def add_to(self, manager: Manager) -> None:
        """Give the controllers to a manager, before it runs.

        Raises:
            ConfigurationError: two versions of one kind have functions for a controller.
        """
        for resource in {**self._versions, **self._kinds}:
            # The class knows where it is served: no discovery is needed to write its objects.
            manager.client.mapper.add(resource)
        for managed in self.kinds:
            for child in managed.owns.values():
                manager.client.mapper.add(child.resource)
        for controller in self.controllers():
            manager.add(controller)

    async def ensure_crds(
        self,
        client: Client,
        *,
        conversion: Object | None = None,
        timeout: timedelta = timedelta(seconds=30),
        clock: Clock | None = None,
    ) -> None:
        """Apply the CRDs and wait until the API server serves them; see `crds` for `conversion`.

        Without `conversion`, a CRD that leads to a webhook already goes on leading there.

        Raises:
            Timeout: a CRD is not established in time; the message says what it waits for.
            APIError: the server refuses a CRD.
        """
        clock = SystemClock() if clock is None else clock
        deadline = clock.monotonic() + timeout.total_seconds()
        wanted = self.crds(conversion)
        if conversion is None:
            wanted = [await _keep_conversion(client, crd) for crd in wanted]
        applied = [await client.apply(crd, field_manager=self.name) for crd in wanted]
        for crd in applied:
            await _wait_established(client, crd["metadata"]["name"], clock, deadline)

    def _managed(self, kind: ObjectClass[T]) -> ManagedKind[T]:
        if hasattr(kind, "crd"):
            # A class has a definition; a Resource is a kind of somebody else.
            self._versions.setdefault(kind.resource, cast("CustomKind[Any]", kind))
        managed = self._kinds.setdefault(kind.resource, ManagedKind(kind))
        return cast("ManagedKind[T]", managed)

    def _reconciled(self) -> list[ManagedKind[Any]]:
        """Return of each kind the version that a controller works with."""
        count = Counter(kind.group_resource for kind in self._versions)
        chosen: dict[str, ManagedKind[Any]] = {}
        for managed in self.kinds:
            name = managed.resource.group_resource
            if count[name] > 1 and not managed.is_reconciled:
                continue
            if name in chosen:
                raise ConfigurationError(
                    f"{managed.resource.kind} is reconciled as {chosen[name].resource.version} and "
                    f"as {managed.resource.version}: use one version, the others are converted"
                )
            chosen[name] = managed
        return list(chosen.values())

    @staticmethod
    def _append(functions: list[F], role: str) -> Callable[[F], F]:
        def register(function: F) -> F:
            check_is_plain(role, function)
            functions.append(function)
            return function

        return register

    def _register(
        self,
        managed: ManagedKind[T],
        role: str,
        reads: Sequence[Readable],
        watches: Sequence[Watch],
    ) -> Callable[[Any], Any]:
        for watch in watches:
            if not isinstance(watch, Watch):
                raise ConfigurationError(
                    f"@operator.{role}: watches={watch!r:.80}: write Watch(resource, map), where "
                    "`map` names the objects that a change concerns; what is read goes in reads"
                )

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            managed.set(role, function)
            managed.reads += reads
            managed.watches += watches
            return function

        return register

    def _build_controller(self, managed: ManagedKind[Any], threads: ThreadPool) -> Controller:
        reconciler = KindReconciler(
            self.name, managed, timeout=self._reconcile_timeout, threads=threads
        )
        kept = [child.resource for child in managed.owns.values() if child.is_kept]
        # Kept children have no owner reference that would wake their owner.
        wake = map_to_kept_owner(managed.resource)
        return Controller(
            self.name if len(self._reconciled()) == 1 else f"{self.name}-{managed.resource.plural}",
            managed.resource,
            reconciler.reconcile,
            owns=[child.resource for child in managed.owns.values()],
            watches=[
                *managed.watches,
                *reconciler.watch_strangers(),
                *(Watch(resource, wake) for resource in kept),
            ],
            reads=[
                *managed.reads,
                *(Read(kind, optional=True) for kind in managed.optional_children),
            ],
            changes=managed.filter_changes or is_any_change,
            sources=managed.sources,
            workers=self._workers,
            field_manager=reconciler.side_manager,
        )


async def _keep_conversion(client: Client, crd: Object) -> Object:
    """Let a CRD lead to the webhook that it has: a Service beside a URL would be refused."""
    if "conversion" not in crd["spec"]:
        return crd
    try:
        live = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"])
    except NotFound:
        return crd
    config = ((live["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig")
    return merge_definitions([crd], config) if config else crd


async def _wait_established(client: Client, name: str, clock: Clock, deadline: float) -> None:
    pause, waits_for = 0.05, "it does not exist"
    while True:
        try:
            crd = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, name)
        except NotFound:
            pass
        else:
            readiness = compute_readiness(crd)
            if readiness.is_ready:
                return
            waits_for = readiness.message
            if readiness.progress is Progress.FAILED:
                raise Timeout(f"the CRD {name} is not served: {waits_for}")
        if clock.monotonic() >= deadline:
            raise Timeout(f"the CRD {name} is not served in time: {waits_for}")
        await clock.sleep(pause)
        pause = min(pause * 2, 1.0)
