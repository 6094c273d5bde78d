"""The builders of the controllers by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from kubewright.local.controllers.core_event import CoreEventBroadcaster
from kubewright.local.controllers.cronjob import build_cronjob_controller
from kubewright.local.controllers.daemonset import build_daemonset_controller
from kubewright.local.controllers.deployment import build_deployment_controller
from kubewright.local.controllers.disruption import build_disruption_controllers
from kubewright.local.controllers.endpoints import (
    build_endpoints_controller,
    build_endpointslice_controller,
    build_mirroring_controller,
)
from kubewright.local.controllers.garbage_collector import GarbageCollector
from kubewright.local.controllers.horizontal_pod_autoscaler import build_autoscaler_controller
from kubewright.local.controllers.job import (
    build_job_controller,
    build_orphan_pod_controller,
    build_ttl_controller,
)
from kubewright.local.controllers.names import select_controllers
from kubewright.local.controllers.namespace import build_namespace_controller
from kubewright.local.controllers.node_lifecycle import (
    build_node_lifecycle_controller,
    build_taint_eviction_controller,
)
from kubewright.local.controllers.persistent_volume import (
    build_binder_controllers,
    build_claim_protection_controller,
    build_ephemeral_controller,
    build_expander_controller,
    build_volume_protection_controller,
)
from kubewright.local.controllers.pod_gc import build_pod_collector
from kubewright.local.controllers.pod_views import PodViews
from kubewright.local.controllers.replicaset import build_replicaset_controller
from kubewright.local.controllers.resource_quota import build_resource_quota_controller
from kubewright.local.controllers.scheduler import build_scheduler
from kubewright.local.controllers.service_account import (
    build_default_account_controller,
    build_root_ca_controller,
    build_token_secret_controller,
)
from kubewright.local.controllers.statefulset import build_statefulset_controller
from kubewright.runtime.context import Environment
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager, Runnable


class Options(msgspec.Struct, frozen=True):
    """What the controllers are told by whoever starts them.

    Attributes:
        environment: What the manager that will run them lends.
        events: Writes what they tell people; must run in the same manager.
        root_ca: The cluster's CA certificates as PEM text, published to every namespace.
        pods: What controllers that count pods keep of them, shared by all.
    """

    environment: Environment
    events: CoreEventBroadcaster
    root_ca: str = ""
    pods: PodViews = msgspec.field(default_factory=PodViews)


def _build_garbage_collector(options: Options) -> GarbageCollector:
    recorder = options.events.recorder("garbage-collector-controller")
    return GarbageCollector(options.environment, recorder)


def _build_job_controllers(options: Options) -> list[Controller]:
    return [
        build_job_controller(options.events.recorder("job-controller")),
        build_orphan_pod_controller(),
    ]


Built: TypeAlias = Controller | Runnable
Factory: TypeAlias = Callable[[Options], Built | Sequence[Built]]

CONTROLLERS: Mapping[str, Factory] = {
    "namespace": lambda _: build_namespace_controller(),
    "serviceaccount": lambda _: build_default_account_controller(),
    "root-ca-certificate-publisher": lambda options: build_root_ca_controller(options.root_ca),
    "serviceaccount-token": lambda options: build_token_secret_controller(options.root_ca),
    "garbage-collector": lambda options: _build_garbage_collector(options),
    "deployment": lambda options: build_deployment_controller(
        options.events.recorder("deployment-controller"), options.pods
    ),
    "replicaset": lambda options: build_replicaset_controller(
        options.events.recorder("replicaset-controller"), options.pods
    ),
    "statefulset": lambda options: build_statefulset_controller(
        options.events.recorder("statefulset-controller")
    ),
    "daemonset": lambda options: build_daemonset_controller(
        options.events.recorder("daemonset-controller")
    ),
    "job": _build_job_controllers,
    "cronjob": lambda options: build_cronjob_controller(
        options.events.recorder("cronjob-controller")
    ),
    "ttl-after-finished": lambda _: build_ttl_controller(),
    "node-lifecycle": lambda options: build_node_lifecycle_controller(
        options.events.recorder("node-controller"), options.pods
    ),
    "taint-eviction": lambda options: build_taint_eviction_controller(
        options.events.recorder("taint-eviction-controller"), options.pods
    ),
    "pod-garbage-collector": lambda options: build_pod_collector(options.pods),
    "disruption": lambda options: build_disruption_controllers(
        options.events.recorder("controllermanager")
    ),
    "horizontal-pod-autoscaler": lambda options: build_autoscaler_controller(
        options.events.recorder("horizontal-pod-autoscaler")
    ),
    "resourcequota": lambda options: build_resource_quota_controller(options.environment.clock),
    "endpointslice": lambda options: build_endpointslice_controller(options.pods),
    "endpoints": lambda options: build_endpoints_controller(options.pods),
    "endpointslice-mirroring": lambda _: build_mirroring_controller(),
    "persistentvolume-binder": lambda options: build_binder_controllers(
        options.events.recorder("persistentvolume-controller")
    ),
    "persistentvolume-expander": lambda options: build_expander_controller(
        options.events.recorder("volume_expand")
    ),
    "persistentvolumeclaim-protection": lambda _: build_claim_protection_controller(),
    "persistentvolume-protection": lambda _: build_volume_protection_controller(),
    "ephemeral-volume": lambda options: build_ephemeral_controller(
        options.events.recorder("ephemeral_volume")
    ),
    "scheduler": lambda _: build_scheduler(),
}
"""Builders of the controllers by name; what one name switches may be several."""


def build_controllers(names: Iterable[str], options: Options) -> list[Built]:
    """Build controllers by name, to be added to the manager whose environment the options hold.

    Raises:
        ConfigurationError: a name is unknown.
    """
    controllers: list[Built] = []
    for name in select_controllers(names):
        built = CONTROLLERS[name](options)
        controllers += built if isinstance(built, Sequence) else [built]
    return controllers


def add_controllers(
    manager: Manager, names: Iterable[str] = ("all",), *, root_ca: str = ""
) -> None:
    """Build controllers by name and add them to a manager.

    Raises:
        ConfigurationError: a name is unknown.
    """
    events = CoreEventBroadcaster(manager.client, clock=manager.clock)
    manager.add(events)
    for controller in build_controllers(names, Options(manager.environment, events, root_ca)):
        manager.add(controller)
