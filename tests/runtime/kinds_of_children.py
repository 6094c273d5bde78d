"""Desired children of many built-in kinds, written as people write them: short and unorderly."""

from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object

LABELS = {"app": "web"}

CONTAINER: Object = {
    "name": "web",
    "image": "web:1",
    "args": [],
    "ports": [
        {"containerPort": 80, "name": "http"},
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 53, "protocol": "TCP"},
    ],
    "env": [
        {"name": "A", "value": ""},
        {"name": "B", "value": "1000m"},
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    "envFrom": [{"configMapRef": {"name": "c"}}],
    "resources": {
        "requests": {"cpu": "0.5", "memory": "1024Mi", "ephemeral-storage": "1e9"},
        "limits": {"cpu": "1000m", "memory": "1073741824"},
    },
    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
    "livenessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 0},
    "startupProbe": {"exec": {"command": ["true"]}, "failureThreshold": 30},
    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
    "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "conf", "mountPath": "/conf"}],
}

POD: Object = {
    "containers": [CONTAINER],
    "initContainers": [{"name": "init", "image": "busybox", "command": ["true"], "env": []}],
    "volumes": [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}},
        {"name": "conf", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
        {"name": "keys", "secret": {"secretName": "s", "defaultMode": 256}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token"}},
                    {
                        "downwardAPI": {
                            "items": [
                                {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}},
                            ]
                        }
                    },
                ]
            },
        },
        {
            "name": "scratch",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1024Mi"}},
                    }
                }
            },
        },
    ],
    "tolerations": [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    ],
    "nodeSelector": {},
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": LABELS},
                    },
                }
            ]
        }
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": LABELS},
        }
    ],
    "securityContext": {"fsGroup": 1000, "sysctls": []},
    "imagePullSecrets": [{"name": "pull"}],
    "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a"]}],
    "serviceAccountName": "web",
    "terminationGracePeriodSeconds": 10,
}

TEMPLATE: Object = {"metadata": {"labels": LABELS, "annotations": {}}, "spec": POD}


def build(api_version: str, kind: str, **rest: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, **rest}


def build_job_spec(**rest: Any) -> Object:
    spec = {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"}
    return {"template": {"spec": spec}, "backoffLimit": 0, **rest}


CHILDREN: dict[str, Object] = {
    "ConfigMap": build("v1", "ConfigMap", data={"a": "1", "b": ""}, binaryData={"c": "AAE="}),
    "ConfigMap without data": build("v1", "ConfigMap", data={}),
    "Secret": build("v1", "Secret", type="Opaque", stringData={"a": "b"}, data={"c": "ZA=="}),
    "Secret without type": build("v1", "Secret", stringData={"a": ""}),
    "ServiceAccount": build("v1", "ServiceAccount", automountServiceAccountToken=False),
    "Service": build(
        "v1",
        "Service",
        spec={
            "selector": LABELS,
            "ports": [
                {"port": 80, "name": "http", "targetPort": "http"},
                {"port": 53, "name": "dns", "protocol": "UDP"},
                {"port": 53, "name": "dns-tcp", "targetPort": 5353},
            ],
        },
    ),
    "headless Service": build(
        "v1",
        "Service",
        spec={"clusterIP": "None", "ports": [{"port": 80}], "publishNotReadyAddresses": True},
    ),
    "load balancer": build(
        "v1",
        "Service",
        spec={
            "type": "LoadBalancer",
            "ports": [{"port": 80}],
            "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
        },
    ),
    "PersistentVolumeClaim": build(
        "v1",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1024Mi"}},
        },
    ),
    "Pod": build(
        "v1",
        "Pod",
        # Admission adds tolerations to those of a pod: with some of its own, a new process applies
        # it once more.
        spec={key: value for key, value in POD.items() if key != "tolerations"}
        | {"priorityClassName": "", "serviceAccountName": "default"},
    ),
    "LimitRange": build(
        "v1",
        "LimitRange",
        spec={
            "limits": [
                {
                    "type": "Container",
                    # What is left out of these four follows from the others, and a new process
                    # cannot tell that from what it took out itself: it applies once more.
                    "default": {"cpu": "0.5"},
                    "defaultRequest": {"cpu": "0.1"},
                    "max": {"cpu": "2000m"},
                    "min": {"cpu": "0.01"},
                }
            ]
        },
    ),
    "ResourceQuota": build(
        "v1", "ResourceQuota", spec={"hard": {"pods": 10, "requests.cpu": "4000m"}}
    ),
    "Deployment": build(
        "apps/v1",
        "Deployment",
        spec={
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
            "strategy": {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}},
        },
    ),
    "Deployment that recreates": build(
        "apps/v1",
        "Deployment",
        spec={
            "selector": {"matchLabels": LABELS},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [{"name": "a", "image": "a", "resources": {}}]},
            },
        },
    ),
    "StatefulSet": build(
        "apps/v1",
        "StatefulSet",
        spec={
            "serviceName": "web",
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
            "updateStrategy": {"rollingUpdate": {"partition": 0}},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1024Mi"}},
                    },
                }
            ],
        },
    ),
    "DaemonSet": build(
        "apps/v1",
        "DaemonSet",
        spec={"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    ),
    "Job": build("batch/v1", "Job", spec=build_job_spec(completions=1, suspend=True)),
    "CronJob": build(
        "batch/v1",
        "CronJob",
        spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": build_job_spec()}},
    ),
    "Ingress": build(
        "networking.k8s.io/v1",
        "Ingress",
        spec={
            "tls": [{"hosts": ["a.example.com"], "secretName": "tls"}],
            "rules": [
                {
                    "host": "a.example.com",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "web", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ],
        },
    ),
    "NetworkPolicy": build(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec={
            "podSelector": {},
            "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}, {}],
            "egress": [],
        },
    ),
    "PodDisruptionBudget": build(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"minAvailable": "50%", "selector": {"matchLabels": LABELS}},
    ),
    "HorizontalPodAutoscaler": build(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "AverageValue", "averageValue": "0.5"},
                    },
                }
            ],
        },
    ),
    "Role": build(
        "rbac.authorization.k8s.io/v1",
        "Role",
        rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
    ),
    "RoleBinding": build(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef={"kind": "Role", "name": "web", "apiGroup": "rbac.authorization.k8s.io"},
        subjects=[{"kind": "ServiceAccount", "name": "web"}, {"kind": "User", "name": "u"}],
    ),
    "Lease": build(
        "coordination.k8s.io/v1",
        "Lease",
        spec={"holderIdentity": "a", "renewTime": "2026-11-28T00:00:00.000000Z"},
    ),
    "EndpointSlice": build(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.0.0.1"], "conditions": {}}],
        ports=[{"name": "", "port": 80}],
    ),
    "PodTemplate": build("v1", "PodTemplate", template=TEMPLATE),
}
"""By name; a name that begins with the kind or says it. All live in a namespace."""
