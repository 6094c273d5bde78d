"""The server's own metrics, in Prometheus' text format and under kube-apiserver's names."""

from __future__ import annotations

from collections import Counter

from kubewright.local.apiserver.exchange import Response


class Metrics:
    """Counts requests by verb, resource and code, and the time that they took."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, str, str, str, int]] = Counter()
        self._seconds = 0.0
        self._finished = 0

    def count(
        self, verb: str, group: str, version: str, resource: str, subresource: str, code: int
    ) -> None:
        """Count one answered request."""
        self._requests[(verb, group, version, resource, subresource, code)] += 1

    def observe(self, seconds: float) -> None:
        """Record how long a request took, watches aside."""
        self._seconds += seconds
        self._finished += 1

    def render(self, *, watches: int, objects: int, revision: int) -> Response:
        """Write all metrics."""
        lines = [
            "# HELP apiserver_request_total Counter of apiserver requests.",
            "# TYPE apiserver_request_total counter",
        ]
        for key, count in sorted(self._requests.items()):
            verb, group, version, resource, subresource, code = key
            lines.append(
                f'apiserver_request_total{{code="{code}",group="{group}",resource="{resource}",'
                f'subresource="{subresource}",verb="{verb.upper()}",version="{version}"}} {count}'
            )
        lines += [
            "# HELP apiserver_request_duration_seconds Time that requests took, without watches.",
            "# TYPE apiserver_request_duration_seconds summary",
            f"apiserver_request_duration_seconds_sum {self._seconds:.6f}",
            f"apiserver_request_duration_seconds_count {self._finished}",
            "# HELP apiserver_longrunning_requests Watches that are open.",
            "# TYPE apiserver_longrunning_requests gauge",
            f'apiserver_longrunning_requests{{verb="WATCH"}} {watches}',
            "# HELP apiserver_storage_objects Objects stored.",
            "# TYPE apiserver_storage_objects gauge",
            f"apiserver_storage_objects {objects}",
            "# HELP kubewright_store_revision The newest revision of the store.",
            "# TYPE kubewright_store_revision counter",
            f"kubewright_store_revision {revision}",
        ]
        text = "\n".join(lines) + "\n"
        return Response(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
