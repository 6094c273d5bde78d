"""Resources of the kinds that operators touch most, so that no discovery is needed for them."""

from __future__ import annotations

from kubewright.api.resource import GroupVersionKind, Resource

POD = Resource("", "v1", "Pod", "pods")
SERVICE = Resource("", "v1", "Service", "services")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SECRET = Resource("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
PERSISTENT_VOLUME_CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PERSISTENT_VOLUME = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CORE_EVENT = Resource("", "v1", "Event", "events")
EVENT = Resource("events.k8s.io", "v1", "Event", "events")
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
REPLICA_SET = Resource("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SET = Resource("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET = Resource("apps", "v1", "DaemonSet", "daemonsets")
CONTROLLER_REVISION = Resource("apps", "v1", "ControllerRevision", "controllerrevisions")
JOB = Resource("batch", "v1", "Job", "jobs")
CRON_JOB = Resource("batch", "v1", "CronJob", "cronjobs")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
POD_DISRUPTION_BUDGET = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)

BUILTIN: dict[GroupVersionKind, Resource] = {
    value.gvk: value for value in list(globals().values()) if isinstance(value, Resource)
}
"""The resources of this module by kind."""
