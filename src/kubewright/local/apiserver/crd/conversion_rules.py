"""Rules of `spec.conversion` of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kubewright.api.errors import Cause
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

_RECOGNIZED = ("v1", "v1beta1")


def validate_conversion(conversion: Mapping[str, Any] | None) -> list[Cause]:
    """Return what is wrong with the conversion strategy and its webhook."""
    if conversion is None:
        return []
    field = "spec.conversion"
    strategy = conversion.get("strategy")
    webhook = conversion.get("webhook") or {}
    if not strategy:
        return [required(f"{field}.strategy")]
    if strategy == "Webhook":
        return _validate_client(webhook.get("clientConfig"), f"{field}.webhookClientConfig") + (
            _validate_review_versions(webhook, f"{field}.conversionReviewVersions")
        )
    causes = []
    if strategy != "None":
        causes.append(not_supported(f"{field}.strategy", strategy, ("None", "Webhook")))
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        causes.append(forbidden(f"{field}.webhookClientConfig", detail))
    if webhook.get("conversionReviewVersions"):
        causes.append(forbidden(f"{field}.conversionReviewVersions", detail))
    return causes


def _validate_client(config: Mapping[str, Any] | None, field: str) -> list[Cause]:
    if config is None:
        return [required(field, "required when strategy is set to Webhook")]
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if service is None:
        return _validate_url(str(url), f"{field}.url")
    return [
        required(f"{field}.service.{key}") for key in ("name", "namespace") if not service.get(key)
    ]


def _validate_url(url: str, field: str) -> list[Cause]:
    parts = urlsplit(url)
    causes = []
    if parts.scheme != "https":
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        causes.append(invalid(field, parts.scheme, detail))
    if not parts.netloc:
        causes.append(
            invalid(field, "", "host must be specified; desired format: https://host[/path]")
        )
    return causes


def _validate_review_versions(webhook: Mapping[str, Any], field: str) -> list[Cause]:
    versions = webhook.get("conversionReviewVersions") or []
    if not versions:
        return [required(field)]
    if not any(version in _RECOGNIZED for version in versions):
        detail = f"must include at least one of {', '.join(_RECOGNIZED)}"
        return [invalid(field, versions, detail)]
    return []
