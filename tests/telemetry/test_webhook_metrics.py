"""Webhooks are measured under controller-runtime's names."""

from __future__ import annotations

from kubewright.telemetry.metrics import Metrics


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"controller_runtime_{name}", labels)


def test_a_call_is_in_flight_until_it_is_answered() -> None:
    metrics = Metrics()
    webhook = metrics.webhooks.webhook("/validate")
    for code in ("200", "500"):
        assert value(metrics, "webhook_requests_total", webhook="/validate", code=code) == 0

    webhook.called()
    assert value(metrics, "webhook_requests_in_flight", webhook="/validate") == 1
    webhook.answered(200, 0.25)

    assert value(metrics, "webhook_requests_in_flight", webhook="/validate") == 0
    assert value(metrics, "webhook_requests_total", webhook="/validate", code="200") == 1
    assert value(metrics, "webhook_latency_seconds_sum", webhook="/validate") == 0.25


def test_failures_of_admission_and_of_conversion_are_told_apart() -> None:
    metrics = Metrics()

    metrics.webhooks.webhook("/validate").panicked()
    metrics.webhooks.webhook("/convert", converts=True).panicked()
    metrics.webhooks.webhook("/convert", converts=True).panicked()

    assert value(metrics, "webhook_panics_total") == 1
    assert value(metrics, "conversion_webhook_panics_total") == 2


def test_certificates_are_counted() -> None:
    metrics = Metrics()

    metrics.webhooks.certificate_read()
    metrics.webhooks.certificate_read(failed=True)

    read = metrics.registry.get_sample_value
    assert read("certwatcher_read_certificate_total") == 2
    assert read("certwatcher_read_certificate_errors_total") == 1
